"""Replies are counted before they are unpacked, and counted right."""

from __future__ import annotations

from typing import Any

import msgpack  # type: ignore[import-untyped]
import pytest

from worker.sandbox_errors import SandboxCrashed
from worker.sandbox_reply import _count_objects, unpack_reply

VALUES: list[Any] = [
    None, True, 0, 127, 128, 256, 65536, 2**32, 2**64 - 1, -1, -32, -33, -129, -32769, -(2**31) - 1,
    1.5, "", "x" * 31, "x" * 32, "x" * 256, "é" * 65536, b"", b"x" * 256, b"x" * 65536,
    [], [1] * 15, [1] * 16, [[]] * 65536, {}, {i: i for i in range(15)}, {i: i for i in range(16)},
    {i: [i] for i in range(65536)}, {"pages": ["a", {"b": [1.0, None]}]},
]  # fmt: skip


def objects(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + sum(objects(key) + objects(member) for key, member in value.items())
    return 1 + sum(map(objects, value)) if isinstance(value, list) else 1


@pytest.mark.parametrize("number", range(len(VALUES)))
def test_what_was_packed_is_counted_and_unpacked(number: int) -> None:
    data = msgpack.packb({"result": VALUES[number]})
    assert _count_objects(data) == 2 + objects(VALUES[number])
    assert unpack_reply(data) == {"result": VALUES[number]}


@pytest.mark.parametrize("number", range(len(VALUES)))
def test_a_reply_cut_short_is_none(number: int) -> None:
    data = msgpack.packb({"result": VALUES[number]})
    for end in {0, 1, len(data) // 2, len(data) - 1}:
        with pytest.raises(SandboxCrashed):
            unpack_reply(data[:end])


def test_deep_nesting_is_no_result() -> None:
    with pytest.raises(SandboxCrashed):
        unpack_reply(b"\x81\xa6result" + b"\x91" * 100_000 + b"\xc0")
