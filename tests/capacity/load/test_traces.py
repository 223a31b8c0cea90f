"""Traces out of files, hostile ones too."""

from __future__ import annotations

import json

import pytest

from apps.capacity.errors import WorkloadInvalid
from apps.capacity.load.traces import parse_trace
from apps.capacity.load.types import TraceRow


def _row(at_s: float, prompt: int, output: int) -> TraceRow:
    return TraceRow(at_s=at_s, prompt_tokens=prompt, output_tokens=output)


@pytest.mark.parametrize(
    "lines",
    [
        [
            '{"at_s": 1, "prompt_tokens": 9, "output_tokens": 2}',
            '{"at_s": 1.5, "prompt_tokens": 8, "output_tokens": 3}',
        ],
        [
            '{"timestamp": 1000, "input_length": 9, "output_length": 2, "hash_ids": [1, 2]}',
            '{"timestamp": 1500, "input_length": 8, "output_length": 3, "hash_ids": []}',
        ],
        ['{"t": 7.0, "in": 9, "out": 2}', "", '{"t": 7.5, "in": 8.0, "out": 3}'],
        [b'{"t": 7.5, "in": 8, "out": 3}\r\n', b"\n", b'{"t": 7.0, "in": 9, "out": 2}\n'],
    ],
    ids=["ours", "mooncake", "seconds", "out of order, as bytes"],
)
def test_three_forms_are_read(lines: list[str | bytes]) -> None:
    assert parse_trace(lines) == (_row(0, 9, 2), _row(0.5, 8, 3))


def test_lengths_without_times_are_read() -> None:
    assert parse_trace(['{"prompt_tokens": 9, "output_tokens": 2}']) == (_row(0, 9, 2),)


_GOOD = '{"t": 0, "in": 9, "out": 2}'


@pytest.mark.parametrize(
    "line",
    [
        "not JSON",
        "[1, 2]",
        "null",
        "{}",
        '{"t": 0, "in": 9}',
        '{"t": 0, "in": 0, "out": 2}',
        '{"t": 0, "in": -3, "out": 2}',
        '{"t": 0, "in": 9.5, "out": 2}',
        '{"t": 0, "in": "9", "out": 2}',
        '{"t": 0, "in": true, "out": 2}',
        '{"t": 0, "in": null, "out": 2}',
        '{"t": 0, "in": 1e300, "out": 2}',
        '{"t": 0, "in": NaN, "out": 2}',
        '{"t": 0, "in": 9, "out": 1000001}',
        '{"t": -1, "in": 9, "out": 2}',
        '{"t": null, "in": 9, "out": 2}',
        '{"t": Infinity, "in": 9, "out": 2}',
        '{"t": 1e18, "in": 9, "out": 2}',
        '{"t": 0, "in": ' + "9" * 400 + ', "out": 2}',
        "[" * 5000,
        b"\xff\xfe\x00",
        "<script>alert(1)</script>",
        " " + '{"a": "' + "x" * 200_000 + '"}',
    ],
)
def test_a_bad_line_is_named_by_its_number(line: str | bytes) -> None:
    with pytest.raises(WorkloadInvalid, match=r"Line 3\b"):
        parse_trace([_GOOD, "", line, _GOOD])


@pytest.mark.parametrize("lines", [[], ["", "  "]])
def test_an_empty_trace_is_refused(lines: list[str]) -> None:
    with pytest.raises(WorkloadInvalid, match="empty"):
        parse_trace(lines)


def test_a_trace_has_a_bound() -> None:
    with pytest.raises(WorkloadInvalid, match="Line 3"):
        parse_trace([_GOOD] * 3, most_rows=2)


def test_a_message_holds_nothing_of_the_file() -> None:
    with pytest.raises(WorkloadInvalid) as caught:
        parse_trace([json.dumps({"secret": "of somebody"})])
    assert "secret" not in str(caught.value)
