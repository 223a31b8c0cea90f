"""Events as OpenAI's clients read them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from apps.gateway.api.chunks import Chunks, Whole, merge_calls
from apps.inference.types import Finished, ReasoningDelta, TextDelta, ToolCallDelta

FINISHED = Finished("tool_calls", 10, 4, cached_tokens=6)
CALL_BY_PIECES = (
    {"index": 0, "id": "a", "type": "function", "function": {"name": "look", "arguments": ""}},
    {"index": 0, "function": {"arguments": '{"at":'}},
    {"index": 1, "id": "b", "function": {"name": "stop", "arguments": "{}"}},
    {"index": 0, "function": {"arguments": ' "x"}'}},
)


def read(data: bytes) -> list[Any]:
    return [
        json.loads(line[6:]) for line in data.decode().split("\n\n") if line.startswith("data: {")
    ]


@pytest.mark.parametrize("name", ["tgi", '"', "|", r"\u0000", '","choices":[]', "ü", "a\nb"])
@pytest.mark.parametrize("text", ["a", '"', "\n\ndata: [DONE]\n\n", "\0", "é", "\u2028"])
def test_no_name_and_no_text_breaks_a_chunk(name: str, text: str) -> None:
    [chunk] = read(Chunks("id", name).text(TextDelta(text)))
    assert chunk["model"] == name
    assert chunk["choices"][0]["delta"] == {"content": text}


def test_usage_tells_what_was_cached() -> None:
    last, usage = read(Chunks("id", "m", with_usage=True).closing(FINISHED, {}))
    assert last["choices"][0]["finish_reason"] == "tool_calls"
    assert usage["usage"] == {
        "prompt_tokens": 10,
        "completion_tokens": 4,
        "total_tokens": 14,
        "prompt_tokens_details": {"cached_tokens": 6},
    }


def test_pieces_of_calls_are_passed_on_as_they_come() -> None:
    [chunk] = read(Chunks("id", "m").calls(ToolCallDelta(CALL_BY_PIECES[:1])))
    assert chunk["choices"][0]["delta"]["tool_calls"] == [CALL_BY_PIECES[0]]


def test_pieces_of_calls_are_put_together_in_a_whole_reply() -> None:
    whole = Whole("id", "m")
    for piece in CALL_BY_PIECES:
        whole.add(ToolCallDelta((piece,)))
    message = whole.reply(FINISHED)["choices"][0]["message"]
    assert message["content"] is None
    assert [(c["id"], c["function"]) for c in message["tool_calls"]] == [
        ("a", {"name": "look", "arguments": '{"at": "x"}'}),
        ("b", {"name": "stop", "arguments": "{}"}),
    ]


def test_pieces_without_their_place_are_calls_of_their_own() -> None:
    calls: dict[int, dict[str, Any]] = {}
    merge_calls(calls, [{"id": "a", "function": {"name": "x", "arguments": "{}"}}, {"id": "b"}])
    assert [calls[place]["id"] for place in sorted(calls)] == ["a", "b"]


def test_reasoning_stands_beside_the_answer() -> None:
    whole = Whole("id", "m")
    whole.add(ReasoningDelta("Hm. "))
    whole.add(TextDelta("Yes."))
    message = whole.reply(FINISHED)["choices"][0]["message"]
    assert (message["reasoning"], message["content"]) == ("Hm. ", "Yes.")
    [chunk] = read(Chunks("id", "m").reasoning(ReasoningDelta("Hm. ")))
    assert chunk["choices"][0]["delta"] == {"reasoning": "Hm. "}


def test_an_answer_without_a_word_is_empty_text() -> None:
    assert Whole("id", "m").reply(FINISHED)["choices"][0]["message"]["content"] == ""
