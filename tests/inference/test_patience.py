"""One timer for many waits: what is over in time, what is not, and who has cancelled."""

from __future__ import annotations

import asyncio

import pytest

from apps.inference.patience import Patience


async def test_what_is_there_in_time_is_given() -> None:
    with Patience() as patience:
        assert [await patience.wait(asyncio.sleep(0, n), 5.0) for n in range(3)] == [0, 1, 2]


async def test_what_takes_too_long_is_a_timeout() -> None:
    with Patience() as patience, pytest.raises(TimeoutError):
        await patience.wait(asyncio.Event().wait(), 0.01)


async def test_later_waits_have_time_of_their_own() -> None:
    with Patience() as patience:
        for _ in range(5):
            await patience.wait(asyncio.sleep(0.03), 0.1)  # 0.15 s in all


async def test_a_shorter_wait_may_follow_a_longer_one() -> None:
    with Patience() as patience:
        await patience.wait(asyncio.sleep(0), 60.0)
        with pytest.raises(TimeoutError):
            await patience.wait(asyncio.Event().wait(), 0.01)


async def test_time_between_waits_does_not_count() -> None:
    with Patience() as patience:
        await patience.wait(asyncio.sleep(0), 0.02)
        await asyncio.sleep(0.05)
        await patience.wait(asyncio.sleep(0), 5.0)


async def test_a_wait_goes_on_after_a_timeout() -> None:
    with Patience() as patience:
        with pytest.raises(TimeoutError):
            await patience.wait(asyncio.Event().wait(), 0.01)
        assert await patience.wait(asyncio.sleep(0, "on"), 5.0) == "on"
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_a_cancellation_from_outside_is_no_timeout() -> None:
    async def work() -> None:
        with Patience() as patience:
            await patience.wait(asyncio.Event().wait(), 60.0)

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_one_patience_inside_another_keeps_them_apart() -> None:
    with Patience() as outer, Patience() as inner:

        async def within() -> str:
            with pytest.raises(TimeoutError):
                await inner.wait(asyncio.Event().wait(), 0.01)
            return "on"

        assert await outer.wait(within(), 5.0) == "on"
        with pytest.raises(TimeoutError):
            await outer.wait(inner.wait(asyncio.Event().wait(), 60.0), 0.01)


async def test_no_timer_is_left() -> None:
    with Patience() as patience:
        await patience.wait(asyncio.sleep(0), 60.0)
    assert patience._timer is not None
    assert patience._timer.cancelled()
