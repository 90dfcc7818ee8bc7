"""The byte budget: admission, queue and refusals, and that every byte is returned."""

from __future__ import annotations

import asyncio
import random
from itertools import pairwise
from typing import Any

import pytest

from assay.service.config import ServerSettings
from assay.service.http.request.admission import FIRST_RESERVE, MAX_PER_TURN, Admission, ByteBudget, LoopBudget
from assay.service.http.request.exchange import ClientGone
from assay.service.http.wire.problems import Problem
from assay.service.http.wire.stage_times import StageTimes


class Caller:
    """Stands for an exchange."""

    def __init__(self, max_queue_seconds: float | None = None, deadline: Any = None) -> None:
        self.deadline = deadline or LATER
        self.times = StageTimes()
        self.permit: Any = None
        self.max_queue_seconds = max_queue_seconds
        self.short = True
        self.leave: Any = None

    def on_disconnect(self, callback: Any) -> None:
        self.leave = callback


class Left:
    """Stands for a deadline in `left` seconds."""

    def __init__(self, left: float) -> None:
        self.left = left


LATER = Left(30)


async def settle() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


def test_first_in_first_out():
    async def scenario():
        budget = ByteBudget(100, 300, 10)
        first = await budget.enter(Caller(), 60)
        order: list[int] = []

        async def come(name: int, nbytes: int) -> None:
            caller = Caller()
            permit = await budget.enter(caller, nbytes)
            order.append(name)
            assert caller.times.queue > 0
            await asyncio.sleep(0)
            permit.release()

        tasks = [asyncio.create_task(come(name, nbytes)) for name, nbytes in enumerate((80, 10, 90, 30))]
        await settle()
        assert (budget.in_use, budget.queued_bytes, budget.waiting) == (60, 210, 4)
        first.release()
        await asyncio.gather(*tasks)
        assert order == [0, 1, 2, 3]
        assert (budget.in_use, budget.queued_bytes, budget.waiting) == (0, 0, 0)

    asyncio.run(scenario())


def test_more_than_the_whole_budget_is_admitted_alone():
    async def scenario():
        budget = ByteBudget(100, 300, 10)
        permit = await budget.enter(Caller(), 1_000)
        assert budget.in_use == 100
        permit.release()
        assert budget.in_use == 0

    asyncio.run(scenario())


@pytest.mark.parametrize("limits", [(100, 50, 10), (100, 1_000, 1)])
def test_a_full_queue_refuses_except_patient_requests(limits):
    async def scenario():
        budget = ByteBudget(*limits)
        first = await budget.enter(Caller(), 100)
        waiting = asyncio.create_task(budget.enter(Caller(), 40))
        await settle()
        with pytest.raises(Problem) as raised:
            await budget.enter(Caller(), 40)
        assert raised.value.status == 429
        assert int(dict(raised.value.headers)[b"retry-after"]) >= 1
        patient = asyncio.create_task(budget.enter(Caller(), 40, patient=True))
        await settle()
        first.release()
        for task in (waiting, patient):
            (await task).release()
        assert (budget.in_use, budget.queued_bytes, budget.waiting) == (0, 0, 0)

    asyncio.run(scenario())


@pytest.mark.attack
@pytest.mark.parametrize("ending", ["deadline", "gone", "cancelled"])
def test_leaving_the_queue_admits_the_next(ending):
    async def scenario():
        budget = ByteBudget(100, 300, 10)
        first = await budget.enter(Caller(), 60)
        caller = Caller()
        caller.deadline = Left(0.03) if ending == "deadline" else LATER
        leaving = asyncio.create_task(budget.enter(caller, 100))
        following = asyncio.create_task(budget.enter(Caller(), 40))
        await settle()
        assert budget.waiting == 2
        if ending == "gone":
            caller.leave()
        elif ending == "cancelled":
            leaving.cancel()
        with pytest.raises({"deadline": Problem, "gone": ClientGone, "cancelled": asyncio.CancelledError}[ending]):
            await leaving
        (await asyncio.wait_for(following, 5)).release()  # although the first still holds its bytes
        first.release()
        assert (budget.in_use, budget.queued_bytes, budget.waiting) == (0, 0, 0)

    asyncio.run(scenario())


def test_a_permit_is_returned_once_both_holders_release_it():
    async def scenario():
        budget = ByteBudget(100)
        permit = await budget.enter(Caller(), 10)
        permit.hold()
        permit.grow(5)
        permit.release()
        assert budget.in_use == 15
        permit.release()
        assert budget.in_use == 0

    asyncio.run(scenario())


@pytest.mark.attack
def test_a_body_of_unknown_length_is_charged_as_it_arrives():
    async def scenario():
        admission = Admission(ServerSettings(inline_bytes=1_000, max_work_bytes=2 * FIRST_RESERVE))
        caller = Caller()
        await admission.charge_chunk(caller, 400, 400)
        await admission.charge_chunk(caller, 400, 800)
        assert (admission.singles.in_use, admission.batches.in_use) == (800, 0)
        await admission.charge_chunk(caller, 400, 1_200)
        assert (admission.singles.in_use, admission.batches.in_use) == (0, FIRST_RESERVE)
        await admission.charge_chunk(caller, FIRST_RESERVE, FIRST_RESERVE + 1_200)
        assert admission.batches.in_use == FIRST_RESERVE + 1_200
        other = Caller(deadline=Left(0.01))
        with pytest.raises(Problem):  # it must not wait while it holds bytes
            await admission.charge_chunk(other, FIRST_RESERVE, FIRST_RESERVE)
        caller.permit.release()
        assert admission.in_use == 0

    asyncio.run(scenario())


@pytest.mark.attack
def test_short_bodies_do_not_wait_for_batches_nor_patient_ones_for_anything():
    async def scenario():
        admission = Admission(ServerSettings(inline_bytes=1_000, max_work_bytes=2_000, max_queued_bytes=0))
        batch = Caller()
        batch.short = False
        await admission.admit(batch, 2_000)
        callers = [Caller() for _ in range(3)]
        await admission.charge_chunk(callers[0], 900, 900)
        await admission.charge_chunk(callers[1], 900, 900)
        with pytest.raises(Problem):
            await admission.charge_chunk(callers[2], 900, 900)
        patient = Caller(max_queue_seconds=100)
        await admission.charge_chunk(patient, 900, 900)
        for caller in (batch, callers[0], callers[1], patient):
            caller.permit.release()
        assert admission.in_use == 0

    asyncio.run(scenario())


@pytest.mark.attack
def test_a_burst_does_not_block_the_loop():
    """Of ten thousand short requests at once only a few are scored per turn of the loop."""

    async def scenario():
        loop_budget, order = LoopBudget(), []

        async def short(k: int) -> None:
            await loop_budget.take(StageTimes())
            order.append(k)

        tasks = [asyncio.create_task(short(k)) for k in range(10_000)]
        scored = [0]
        while scored[-1] < len(tasks):
            await asyncio.sleep(0)
            scored.append(len(order))
        assert max(later - earlier for earlier, later in pairwise(scored)) <= 2 * MAX_PER_TURN
        assert order == list(range(10_000))
        gone = asyncio.create_task(short(0))
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        await short(1)

    asyncio.run(scenario())


@pytest.mark.attack
@pytest.mark.parametrize("seed", range(5))
def test_every_byte_is_returned(seed):
    """Ten thousand callers are admitted, wait, disconnect, are cancelled or time out at random moments."""
    dice = random.Random(seed)

    async def one(budget: ByteBudget) -> None:
        caller = Caller(max_queue_seconds=dice.choice([None, 1.0]))
        nbytes = dice.randint(1, 150)
        caller.deadline = Left(dice.choice([0.0, 0.001, 0.01, 30]))
        if dice.random() < 0.3:
            asyncio.get_running_loop().call_later(dice.random() / 100, lambda: caller.leave and caller.leave())
        permit = await budget.enter(caller, nbytes, patient=caller.max_queue_seconds is not None)
        try:
            if dice.random() < 0.5:
                permit.grow(dice.randint(1, 20))
            await asyncio.sleep(dice.choice([0, 0, 0.0005]))
        finally:
            permit.release()

    async def scenario():
        budget = ByteBudget(300, 2_000, 50)
        for _ in range(10):
            tasks = []
            for _ in range(200):
                tasks.append(asyncio.create_task(one(budget)))
                if dice.random() < 0.1:
                    dice.choice(tasks).cancel()
                if dice.random() < 0.1:
                    await asyncio.sleep(0)
            done = await asyncio.gather(*tasks, return_exceptions=True)
            kinds = {type(outcome) for outcome in done}
            assert kinds <= {type(None), Problem, ClientGone, asyncio.CancelledError}
            assert (budget.in_use, budget.queued_bytes, budget.waiting) == (0, 0, 0)

    asyncio.run(scenario())
