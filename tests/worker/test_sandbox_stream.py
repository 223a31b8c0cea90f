"""Items come out of the sandbox one at a time, and its end is told from its failure."""

from __future__ import annotations

import time

import pytest

from worker.sandbox import (
    Limits,
    SandboxCrashed,
    SandboxError,
    SandboxOutOfMemory,
    SandboxOutputTooLarge,
    SandboxRefused,
    SandboxTimedOut,
    run_sandboxed_stream,
)

MIB = 1024 * 1024
LIMITS = Limits(wall_s=2, memory_bytes=512 * MIB, output_bytes=4 * MIB)


def items(name: str, **payload: object) -> list[object]:
    return list(run_sandboxed_stream(f"tests.worker.hostile:{name}", payload, limits=LIMITS))


def test_items_come_in_order_and_end() -> None:
    assert items("count_to", end=2000) == list(range(2000))
    assert items("count_to", end=0) == []


@pytest.mark.parametrize(
    ("then", "error"),
    [
        ("decline", SandboxRefused),
        ("die", SandboxCrashed),
        ("hang", SandboxTimedOut),
        ("eat_memory", SandboxOutOfMemory),
    ],
)
def test_what_goes_wrong_after_some_items_is_said(then: str, error: type[SandboxError]) -> None:
    got: list[object] = []
    with pytest.raises(error):
        got.extend(
            run_sandboxed_stream(
                "tests.worker.hostile:count_to", {"end": 3, "then": then}, limits=LIMITS
            )
        )
    assert got == [0, 1, 2]


def test_an_item_over_the_limit_is_refused() -> None:
    with pytest.raises(SandboxOutputTooLarge):
        items("large_item", size=5 * MIB)
    (item,) = items("large_item", size=3 * MIB)
    assert item == b"x" * (3 * MIB)


def test_all_items_together_are_bounded_in_size() -> None:
    limits = Limits(wall_s=2, memory_bytes=512 * MIB, stream_bytes=3 * MIB)
    got: list[object] = []
    with pytest.raises(SandboxOutputTooLarge):
        got.extend(
            run_sandboxed_stream("tests.worker.hostile:endless", {"size": MIB}, limits=limits)
        )
    assert len(got) == 2  # and the bytes around each


def test_all_items_together_are_bounded_in_time() -> None:
    limits = Limits(wall_s=5, memory_bytes=512 * MIB, stream_wall_s=0.5)
    start = time.monotonic()
    payload = {"size": 1, "pause_s": 0.1}
    with pytest.raises(SandboxTimedOut):
        list(run_sandboxed_stream("tests.worker.hostile:endless", payload, limits=limits))
    assert time.monotonic() - start < 2


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (b"\x00\x00", SandboxTimedOut),  # half a length
        (b"\x00\x00\x00\x10abc", SandboxTimedOut),  # half an item
        (b"\xff\xff\xff\xff", SandboxOutputTooLarge),
        (b"\x00\x00\x00\x01\xc1", SandboxCrashed),  # not MessagePack
        (b"\x00\x00\x00\x01\x05", SandboxCrashed),  # no answer
        (b"\x00\x00\x00\x05\xdd\xff\xff\xff\xff", SandboxCrashed),  # an array of 4 billion
    ],
)
def test_a_process_that_breaks_the_protocol_holds_nobody(
    words: bytes, error: type[SandboxError]
) -> None:
    start = time.monotonic()
    with pytest.raises(error):
        items("half_an_item", words=words)
    assert time.monotonic() - start < LIMITS.wall_s + 1


def test_a_lease_is_renewed_while_items_flow() -> None:
    class Gone(Exception):
        pass

    def tick() -> None:
        raise Gone

    limits = Limits(wall_s=30, memory_bytes=512 * MIB)
    stream = run_sandboxed_stream(
        "tests.worker.hostile:endless", {"size": 1, "pause_s": 0.1}, limits=limits, on_tick=tick
    )
    start = time.monotonic()
    with pytest.raises(Gone):
        list(stream)
    assert time.monotonic() - start < 8


def test_time_spent_on_an_item_is_not_the_child_s() -> None:
    limits = Limits(wall_s=0.5, memory_bytes=512 * MIB)
    stream = run_sandboxed_stream("tests.worker.hostile:count_to", {"end": 3}, limits=limits)
    assert next(stream) == 0
    time.sleep(0.8)
    assert list(stream) == [1, 2]


def test_a_consumer_that_leaves_ends_the_process() -> None:
    start = time.monotonic()
    stream = run_sandboxed_stream(
        "tests.worker.hostile:count_to", {"end": 1, "then": "hang"}, limits=LIMITS
    )
    assert next(stream) == 0
    stream.close()  # type: ignore[attr-defined]
    assert time.monotonic() - start < LIMITS.wall_s
