"""The byte budget: admission, queue and refusals, and that every byte is returned."""

from __future__ import annotations

import asyncio
import random
import time
from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.service.config import ServerSettings
from assay.service.http.request.admission import FIRST_RESERVE, MIN_RATE, PATIENCE, Admission, Budget, Permit
from assay.service.http.request.exchange import ClientGone
from assay.service.http.request.worker_threads import MAX_PER_TURN, TURN_SECONDS, LoopBudget
from assay.service.wire.problems import Problem
from assay.service.wire.stage_times import StageTimes
from tests.http.request.exchanges import FakeExchange, in_loop

MIB = 1 << 20


async def settle() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


def is_empty(budget: Budget) -> bool:
    return (budget.in_use, budget.queued_bytes, budget.waiting) == (0, 0, 0)


async def read(budget: Budget, nbytes: int, *, message: int = 10, patient: bool = False) -> Permit:
    """Read a whole body in messages, as fast as the budget permits, and return its permit."""
    caller = FakeExchange(short=True)
    permit = await budget.enter(caller, nbytes, patient=patient)
    while permit.to_come:
        budget.arrive(permit, min(message, permit.to_come))
        await asyncio.sleep(0)
        if permit.to_come:
            await budget.take_turn(permit, caller)
    budget.complete(permit)
    return permit


@in_loop
async def test_first_in_first_out():
    budget = Budget(100, 300, 10)
    first = await read(budget, 60)
    order: list[int] = []

    async def come(name: int, nbytes: int) -> None:
        permit = await read(budget, nbytes)
        order.append(name)
        await asyncio.sleep(0)
        permit.release()

    tasks = [asyncio.create_task(come(name, nbytes)) for name, nbytes in enumerate((80, 41, 90, 43))]
    await settle()
    assert (budget.in_use, budget.queued_bytes, budget.waiting) == (60, 254, 4)
    first.release()
    await asyncio.gather(*tasks)
    assert order == [0, 1, 2, 3]
    assert is_empty(budget)


@pytest.mark.parametrize("limits", [(100, 40, 10), (100, 1_000, 1)])
@in_loop
async def test_a_full_queue_refuses_except_patient_requests(limits):
    budget = Budget(*limits)
    first = await read(budget, 100)
    waiting = asyncio.create_task(read(budget, 40))
    await settle()
    with pytest.raises(Problem) as raised:
        await read(budget, 40)
    assert raised.value.status == 429
    assert int(dict(raised.value.headers)[b"retry-after"]) >= 1
    patient = asyncio.create_task(read(budget, 40, patient=True))
    await settle()
    first.release()
    for task in (waiting, patient):
        (await task).release()
    assert is_empty(budget)


@pytest.mark.attack
@pytest.mark.parametrize("ending", ["deadline", "gone", "cancelled"])
@in_loop
async def test_leaving_the_queue_admits_the_next(ending):
    budget = Budget(100, 300, 10)
    first = await read(budget, 60)
    caller = FakeExchange(0.03 if ending == "deadline" else 60)
    leaving = asyncio.create_task(budget.enter(caller, 100))
    following = asyncio.create_task(read(budget, 40))
    await settle()
    assert budget.waiting == (2 if ending != "deadline" else budget.waiting)
    if ending == "gone":
        caller.leave()
    elif ending == "cancelled":
        leaving.cancel()
    with pytest.raises({"deadline": Problem, "gone": ClientGone, "cancelled": asyncio.CancelledError}[ending]):
        await leaving
    (await asyncio.wait_for(following, 5)).release()  # although the first still holds its bytes
    first.release()
    assert is_empty(budget)


@pytest.mark.attack
@in_loop
async def test_a_client_that_only_announces_bytes_uses_no_budget():
    """A thousand bodies announce the whole budget each and send a byte; the next batch is read without waiting."""
    budget = Budget(MIB * 64, 0, 0)
    idle = [await budget.enter(FakeExchange(), 60 * MIB) for _ in range(1_000)]
    for permit in idle:
        budget.arrive(permit, 1)
    assert budget.in_use == 1_000
    batch = await asyncio.wait_for(read(budget, 60 * MIB, message=MIB // 4), 5)
    for permit in (batch, *idle):
        permit.release()
    assert is_empty(budget)


@pytest.mark.attack
@in_loop
async def test_a_client_that_stops_after_some_bytes_soon_delays_nobody():
    """Bodies are announced, sent quickly in part, and then no more: what they announced is not kept free for them."""
    budget = Budget(64 * MIB, 300 * MIB, 10)
    stopped = [await budget.enter(FakeExchange(), 60 * MIB) for _ in range(4)]
    for permit in stopped:
        for _ in range(4):
            budget.arrive(permit, MIB)
    following = asyncio.create_task(read(budget, 60 * MIB, message=MIB // 4))
    await settle()
    assert not following.done()
    (await asyncio.wait_for(following, 5)).release()
    for permit in stopped:
        permit.release()
    assert is_empty(budget)


@in_loop
async def test_a_body_that_is_too_slow_is_refused_only_while_others_wait():
    budget = Budget(100, 300, 10)
    slow, brisk = [await budget.enter(FakeExchange(), 50) for _ in range(2)]
    timers = []
    for permit in (slow, brisk):
        permit.timer = asyncio.timeout(30)
        timers.append(asyncio.create_task(expire(permit.timer)))
    await settle()
    for _ in range(5):
        budget.check_rates()
    assert not slow.too_slow
    complete = await read(budget, 10)
    waiting = asyncio.create_task(read(budget, 100))
    await settle()
    for second in range(int(PATIENCE) + 3):
        assert slow.too_slow == (second > PATIENCE)
        brisk.since_check = MIN_RATE
        budget.check_rates()
    assert not brisk.too_slow
    await asyncio.wait_for(timers[0], 5)
    timers[1].cancel()
    for permit in (slow, brisk, complete):
        permit.release()
    (await asyncio.wait_for(waiting, 5)).release()
    assert is_empty(budget)


async def expire(timer: asyncio.Timeout) -> None:
    with suppress(TimeoutError):
        async with timer:
            await asyncio.sleep(30)


UNIT = 1 << 14
"""Bytes by which lengths and messages are multiplied, so that some bodies count as fast."""

Plan = list[tuple[int, int, float, int]]


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 400),
    st.lists(
        st.tuples(st.integers(1, 300), st.integers(1, 90), st.sampled_from([0, 0, 0.0004, 0.002]), st.integers(0, 6)),
        min_size=1,
        max_size=14,
    ),
)
@in_loop
async def test_every_body_that_keeps_sending_is_complete_in_the_end(capacity: int, plans: Plan):
    """Bodies of any length, whose messages have any size, with any pauses, arrive at any time: none waits for ever.

    At most, the budget is exceeded by one body, and by one message of each other one.
    """

    capacity *= UNIT
    plans = [(nbytes * UNIT, message * UNIT, pause, delay) for nbytes, message, pause, delay in plans]
    budget = Budget(capacity, 1 << 30, 100)
    highest = 0

    async def come(nbytes: int, message: int, pause: float, delay: int) -> None:
        nonlocal highest
        for _ in range(delay):
            await asyncio.sleep(0)
        caller = FakeExchange(short=True)
        permit = await budget.enter(caller, nbytes)
        while permit.to_come:
            await asyncio.sleep(pause)
            budget.arrive(permit, min(message, permit.to_come))
            highest = max(highest, budget.in_use)
            if permit.to_come:
                await budget.take_turn(permit, caller)
        budget.complete(permit)
        await asyncio.sleep(pause)
        permit.release()

    await asyncio.wait_for(asyncio.gather(*(come(*plan) for plan in plans)), 20)
    longest = max(nbytes for nbytes, *_ in plans)
    assert highest <= capacity + min(capacity, longest) + sum(min(nbytes, message) for nbytes, message, *_ in plans)
    assert is_empty(budget)


@in_loop
async def test_a_body_of_unknown_length_is_charged_as_it_arrives():
    admission = Admission(ServerSettings(inline_bytes=1_000, max_work_bytes=2 * FIRST_RESERVE))
    caller, most = FakeExchange(short=True), 4 * FIRST_RESERVE
    await admission.charge(caller, 400, 400, most, True)
    await admission.charge(caller, 400, 800, most, True)
    assert (admission.singles.in_use, admission.batches.in_use) == (800, 0)
    await admission.charge(caller, 400, 1_200, most, True)
    assert (admission.singles.in_use, admission.batches.in_use) == (0, 1_200)
    await admission.charge(caller, FIRST_RESERVE, FIRST_RESERVE + 1_200, most, True)
    assert admission.batches.in_use == FIRST_RESERVE + 1_200
    other = FakeExchange(5, short=True)  # the first body has stopped, so there soon is room
    await admission.charge(other, FIRST_RESERVE // 2, FIRST_RESERVE // 2, most, False, 2)
    assert admission.batches.in_use == 2 * FIRST_RESERVE + 1_200
    caller.permit.release()
    other.permit.release()
    assert admission.in_use == 0


@in_loop
async def test_the_only_body_may_exceed_the_budget_in_parts():
    """However TCP divides it; a second body does not fit beside it."""
    admission = Admission(ServerSettings(inline_bytes=1_000, max_work_bytes=500))
    caller = FakeExchange(short=True)
    for total in (400, 800):
        await admission.charge(caller, 400, total, 800, True)
    with pytest.raises(Problem, match="over-capacity"):
        await admission.charge(FakeExchange(short=True), 1, 1, 800, True)
    caller.permit.release()
    assert admission.in_use == 0


@in_loop
async def test_short_bodies_do_not_wait_for_batches_nor_patient_ones_for_anything():
    admission = Admission(ServerSettings(inline_bytes=1_000, max_work_bytes=2_000, max_queued_bytes=0))
    batch = FakeExchange(short=True)
    batch.short = False
    await admission.admit(batch, 2_000)
    await admission.charge(batch, 2_000, 2_000, 2_000, False)
    callers = [FakeExchange(short=True) for _ in range(3)]
    await admission.charge(callers[0], 900, 900, 1_000, False)
    await admission.charge(callers[1], 900, 900, 1_000, False)
    with pytest.raises(Problem):
        await admission.charge(callers[2], 900, 900, 1_000, False)
    patient = FakeExchange(max_queue_seconds=100, short=True)
    await admission.charge(patient, 900, 900, 1_000, False)
    for caller in (batch, callers[0], callers[1], patient):
        caller.permit.release()
    assert admission.in_use == 0


async def most_at_once(tasks: list[asyncio.Task[None]], order: list[int]) -> int:
    """Return how many of the tasks, which append to `order`, are scored between two looks at the loop at most."""
    scored = [0]
    while scored[-1] < len(tasks):
        await asyncio.sleep(0)
        scored.append(len(order))
    return max(later - earlier for earlier, later in pairwise(scored))


@in_loop
async def test_a_turn_of_the_loop_is_bounded_by_time():
    """A probe, which takes some turns, is answered between requests that take milliseconds each."""
    loop_budget, order = LoopBudget(), []

    async def slow(k: int) -> None:
        await loop_budget.take(StageTimes())
        time.sleep(0.6 * TURN_SECONDS)
        order.append(k)

    assert await most_at_once([asyncio.create_task(slow(k)) for k in range(40)], order) <= 4  # of two turns
    assert order == list(range(40))


@in_loop
async def test_a_burst_does_not_block_the_loop():
    """Of ten thousand short requests at once only a few are scored per turn of the loop."""
    loop_budget, order = LoopBudget(), []

    async def short(k: int) -> None:
        await loop_budget.take(StageTimes())
        order.append(k)

    tasks = [asyncio.create_task(short(k)) for k in range(10_000)]
    assert await most_at_once(tasks, order) <= 2 * MAX_PER_TURN
    assert order == list(range(10_000))
    gone = asyncio.create_task(short(0))
    gone.cancel()
    await asyncio.gather(gone, return_exceptions=True)
    await short(1)


@pytest.mark.attack
@pytest.mark.parametrize("seed", range(5))
@in_loop
async def test_every_byte_is_returned(seed):
    """Ten thousand callers are admitted, wait, disconnect, are cancelled or time out at random moments."""
    dice = random.Random(seed)

    async def request(budget: Budget) -> None:
        caller = FakeExchange(dice.choice([0.0, 0.001, 0.01, 30]), dice.choice([None, 1.0]))
        nbytes = dice.randint(1, 150)
        if dice.random() < 0.3:
            asyncio.get_running_loop().call_later(dice.random() / 100, caller.leave)
        permit = await budget.enter(caller, nbytes, patient=caller.max_queue_seconds is not None)
        try:
            while permit.to_come and dice.random() < 0.9:
                budget.arrive(permit, dice.randint(1, 40))
                await asyncio.sleep(dice.choice([0, 0, 0.0005]))
                await budget.take_turn(permit, caller)
            if not permit.to_come:
                budget.complete(permit)
                await asyncio.sleep(dice.choice([0, 0, 0.0005]))
        finally:
            permit.release()

    budget = Budget(300, 2_000, 50)
    for _ in range(10):
        tasks = []
        for _ in range(200):
            tasks.append(asyncio.create_task(request(budget)))
            if dice.random() < 0.1:
                dice.choice(tasks).cancel()
            if dice.random() < 0.1:
                await asyncio.sleep(0)
        done = await asyncio.gather(*tasks, return_exceptions=True)
        kinds = {type(outcome) for outcome in done}
        assert kinds <= {type(None), Problem, ClientGone, asyncio.CancelledError}
        assert is_empty(budget)
