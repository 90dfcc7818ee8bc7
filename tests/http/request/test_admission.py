"""The budget of bytes: who is let in, who waits, who is refused, and that every byte comes back."""

from __future__ import annotations

import asyncio
import random
from itertools import pairwise
from typing import Any

import pytest

from assay.service.config import ServerSettings
from assay.service.http.request.exchange import ClientGone
from assay.service.http.request.work.admission import FIRST_RESERVE, MAX_PER_TURN, Admission, Lane, Turns
from assay.service.http.wire.problems import Problem
from assay.service.http.wire.stage_times import StageTimes


class Caller:
    """Stands for an exchange."""

    def __init__(self, patience: float | None = None) -> None:
        self.times = StageTimes()
        self.permit: Any = None
        self.patience = patience
        self.short = True
        self.leave: Any = None

    def when_gone(self, callback: Any) -> None:
        self.leave = callback


class Left:
    """Stands for a deadline so many seconds away."""

    def __init__(self, left: float) -> None:
        self.left = left


LATER = Left(30)


async def settle() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


def test_first_come_first_served():
    async def scenario():
        lane = Lane(100, 300, 10)
        first = await lane.enter(Caller(), 60, LATER)
        order: list[int] = []

        async def come(name: int, nbytes: int) -> None:
            caller = Caller()
            permit = await lane.enter(caller, nbytes, LATER)
            order.append(name)
            assert caller.times.queue > 0
            await asyncio.sleep(0)
            permit.release()

        tasks = [asyncio.create_task(come(name, nbytes)) for name, nbytes in enumerate((80, 10, 90, 30))]
        await settle()
        assert (lane.work, lane.queued, lane.waiting) == (60, 210, 4)
        first.release()
        await asyncio.gather(*tasks)
        assert order == [0, 1, 2, 3]
        assert (lane.work, lane.queued, lane.waiting) == (0, 0, 0)

    asyncio.run(scenario())


def test_more_than_the_whole_budget_is_let_in_alone():
    async def scenario():
        lane = Lane(100, 300, 10)
        permit = await lane.enter(Caller(), 1_000, LATER)
        assert lane.work == 100
        permit.release()
        assert lane.work == 0

    asyncio.run(scenario())


@pytest.mark.parametrize("limits", [(100, 50, 10), (100, 1_000, 1)])
def test_a_line_that_is_too_long_refuses_but_not_the_patient(limits):
    async def scenario():
        lane = Lane(*limits)
        first = await lane.enter(Caller(), 100, LATER)
        waiting = asyncio.create_task(lane.enter(Caller(), 40, LATER))
        await settle()
        with pytest.raises(Problem) as raised:
            await lane.enter(Caller(), 40, LATER)
        assert raised.value.status == 429
        assert int(dict(raised.value.headers)[b"retry-after"]) >= 1
        patient = asyncio.create_task(lane.enter(Caller(), 40, LATER, patient=True))
        await settle()
        first.release()
        for task in (waiting, patient):
            (await task).release()
        assert (lane.work, lane.queued, lane.waiting) == (0, 0, 0)

    asyncio.run(scenario())


@pytest.mark.parametrize("ending", ["deadline", "gone", "cancelled"])
def test_who_leaves_the_line_makes_room_behind(ending):
    async def scenario():
        lane = Lane(100, 300, 10)
        first = await lane.enter(Caller(), 60, LATER)
        caller = Caller()
        leaving = asyncio.create_task(lane.enter(caller, 100, Left(0.03) if ending == "deadline" else LATER))
        behind = asyncio.create_task(lane.enter(Caller(), 40, LATER))
        await settle()
        assert lane.waiting == 2
        if ending == "gone":
            caller.leave()
        elif ending == "cancelled":
            leaving.cancel()
        with pytest.raises({"deadline": Problem, "gone": ClientGone, "cancelled": asyncio.CancelledError}[ending]):
            await leaving
        (await asyncio.wait_for(behind, 5)).release()  # although the first still holds its bytes
        first.release()
        assert (lane.work, lane.queued, lane.waiting) == (0, 0, 0)

    asyncio.run(scenario())


def test_a_permit_comes_back_once_both_have_let_go():
    async def scenario():
        lane = Lane(100)
        permit = await lane.enter(Caller(), 10, LATER)
        permit.hold()
        permit.grow(5)
        permit.release()
        assert lane.work == 15
        permit.release()
        assert lane.work == 0

    asyncio.run(scenario())


def test_a_body_of_unknown_length_is_charged_as_it_comes():
    async def scenario():
        admission = Admission(ServerSettings(inline_bytes=1_000, max_work_bytes=2 * FIRST_RESERVE))
        caller = Caller()
        await admission.arrived(caller, 400, 400, LATER)
        await admission.arrived(caller, 400, 800, LATER)
        assert (admission.singles.work, admission.batches.work) == (800, 0)
        await admission.arrived(caller, 400, 1_200, LATER)
        assert (admission.singles.work, admission.batches.work) == (0, FIRST_RESERVE)
        await admission.arrived(caller, FIRST_RESERVE, FIRST_RESERVE + 1_200, LATER)
        assert admission.batches.work == FIRST_RESERVE + 1_200
        other = Caller()
        with pytest.raises(Problem):  # holding a part, it must not wait for another
            await admission.arrived(other, FIRST_RESERVE, FIRST_RESERVE, Left(0.01))
        caller.permit.release()
        assert admission.work == 0

    asyncio.run(scenario())


def test_short_bodies_do_not_wait_for_batches_nor_patient_ones_for_anything():
    async def scenario():
        admission = Admission(ServerSettings(inline_bytes=1_000, max_work_bytes=2_000, max_queued_bytes=0))
        batch = Caller()
        batch.short = False
        await admission.admit(batch, 2_000, LATER)
        callers = [Caller() for _ in range(3)]
        await admission.arrived(callers[0], 900, 900, LATER)
        await admission.arrived(callers[1], 900, 900, LATER)
        with pytest.raises(Problem):
            await admission.arrived(callers[2], 900, 900, LATER)
        patient = Caller(patience=100)
        await admission.arrived(patient, 900, 900, LATER)
        for caller in (batch, callers[0], callers[1], patient):
            caller.permit.release()
        assert admission.work == 0

    asyncio.run(scenario())


def test_a_burst_leaves_the_loop_time_to_look_around():
    """Of ten thousand short requests at once only some are scored between two looks at what else there is."""

    async def scenario():
        turns, order = Turns(), []

        async def short(k: int) -> None:
            if not turns.take():
                await turns.wait(StageTimes())
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


@pytest.mark.parametrize("seed", range(5))
def test_every_byte_comes_back(seed):
    """Ten thousand callers that are let in, wait, leave, are cancelled or give up at random moments, also at once."""
    dice = random.Random(seed)

    async def one(lane: Lane) -> None:
        caller = Caller(patience=dice.choice([None, 1.0]))
        nbytes = dice.randint(1, 150)
        deadline = Left(dice.choice([0.0, 0.001, 0.01, 30]))
        if dice.random() < 0.3:
            asyncio.get_running_loop().call_later(dice.random() / 100, lambda: caller.leave and caller.leave())
        permit = await lane.enter(caller, nbytes, deadline, patient=caller.patience is not None)
        try:
            if dice.random() < 0.5:
                permit.grow(dice.randint(1, 20))
            await asyncio.sleep(dice.choice([0, 0, 0.0005]))
        finally:
            permit.release()

    async def scenario():
        lane = Lane(300, 2_000, 50)
        for _ in range(10):
            tasks = []
            for _ in range(200):
                tasks.append(asyncio.create_task(one(lane)))
                if dice.random() < 0.1:
                    dice.choice(tasks).cancel()
                if dice.random() < 0.1:
                    await asyncio.sleep(0)
            done = await asyncio.gather(*tasks, return_exceptions=True)
            kinds = {type(outcome) for outcome in done}
            assert kinds <= {type(None), Problem, ClientGone, asyncio.CancelledError}
            assert (lane.work, lane.queued, lane.waiting) == (0, 0, 0)

    asyncio.run(scenario())
