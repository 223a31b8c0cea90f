"""What is sent for a request: OpenAI's fields, TGI's dialect of them, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from apps.inference import errors
from apps.inference.generators.payload import chat_payload, tgi_payload
from apps.inference.generators.tokens import prompt_text
from apps.inference.types import ChatTurn, GenerationRequest

TURNS = (ChatTurn("user", "Say hello"),)
TOOL = {"type": "function", "function": {"name": "clock", "parameters": {}}}
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}


def request(**options: Any) -> GenerationRequest:
    return GenerationRequest(TURNS, max_tokens=20, stop=("END",), seed=3, options=options)


def openai(**options: Any) -> dict[str, Any]:
    return chat_payload(request(**options), model="m")


def tgi(**options: Any) -> dict[str, Any]:
    return tgi_payload(request(**options))


@pytest.mark.parametrize("payload", [openai, tgi])
def test_the_request_s_own_fields_are_sent_by_either(payload: Any) -> None:
    sent = payload()
    assert (sent["stop"], sent["seed"], sent["max_tokens"]) == (["END"], 3, 20)
    assert (sent["stream"], sent["stream_options"]) == (True, {"include_usage": True})


@pytest.mark.parametrize("payload", [openai, tgi])
def test_options_cannot_change_them(payload: Any) -> None:
    sent = payload(stream=False, max_tokens=10**9, messages=[], model="other", stream_options=None)
    assert sent == payload()


@pytest.mark.parametrize("payload", [openai, tgi])
def test_null_is_the_same_as_absent(payload: Any) -> None:
    nothing = dict.fromkeys(("top_p", "tools", "tool_choice", "logit_bias", "n", "seed"))
    assert payload(**nothing) == payload()


@pytest.mark.parametrize("payload", [openai, tgi])
@pytest.mark.parametrize(
    "options",
    [{"n": 1}, {"best_of": 1}, {"logit_bias": {}}, {"logprobs": False}, {"top_logprobs": 0}],
    ids=str,
)
def test_what_says_nothing_is_left_out(payload: Any, options: dict[str, Any]) -> None:
    assert payload(**options) == payload()


@pytest.mark.parametrize("payload", [openai, tgi])
@pytest.mark.parametrize(
    "options", [{"n": 2}, {"best_of": 3}, {"logprobs": True}, {"top_logprobs": 4}], ids=str
)
def test_what_cannot_be_streamed_is_refused_by_name(payload: Any, options: dict[str, Any]) -> None:
    [name] = options
    with pytest.raises(errors.Rejected, match=f"`{name}`") as caught:
        payload(**options)
    assert caught.value.param == name


def test_other_options_go_to_openai_compatible_servers_as_they_are() -> None:
    options = {
        "top_p": 1.0,
        "tools": [TOOL],
        "tool_choice": "auto",
        "logit_bias": {"50256": -100},
        "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}},
        "top_k": 40,
        "reasoning_effort": "low",
    }
    sent = openai(**options)
    assert {name: sent[name] for name in options} == options


def test_the_newer_name_of_the_length_is_kept_with_our_bound() -> None:
    sent = openai(max_completion_tokens=10**6)
    assert sent["max_completion_tokens"] == 20
    assert "max_tokens" not in sent
    assert tgi(max_completion_tokens=10**6) == tgi()


def test_tgi_gets_no_top_p_of_one() -> None:
    assert "top_p" not in tgi(top_p=1.0)
    assert "top_p" not in tgi(top_p=1)
    assert tgi(top_p=0.9)["top_p"] == 0.9


@pytest.mark.parametrize(
    ("asked", "sent"),
    [
        ({"type": "text"}, None),
        ({"type": "json_object"}, {"type": "json", "value": {"type": "object"}}),
        (
            {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}},
            {"type": "json", "value": SCHEMA},
        ),
        ({"type": "regex", "value": "a+"}, {"type": "regex", "value": "a+"}),
        ({"type": "json", "value": SCHEMA}, {"type": "json", "value": SCHEMA}),
    ],
)
def test_tgi_gets_a_response_format_as_a_grammar(asked: Any, sent: Any) -> None:
    assert tgi(response_format=asked).get("response_format") == sent


@pytest.mark.parametrize("asked", ["json", {"type": "xml"}, {"type": "json_schema"}, {}, 3])
def test_a_response_format_that_tgi_cannot_have_is_refused(asked: Any) -> None:
    with pytest.raises(errors.Rejected, match="response_format"):
        tgi(response_format=asked)


@pytest.mark.parametrize("name", ["logit_bias", "top_k", "min_p", "audio", "unheard_of"])
def test_what_tgi_would_ignore_is_refused_by_name(name: str) -> None:
    with pytest.raises(errors.Rejected, match=f"`{name}`"):
        tgi(**{name: {"50256": -100}})


def test_a_very_long_name_is_cut_in_the_message() -> None:
    with pytest.raises(errors.Rejected) as caught:
        tgi(**{"x" * 10_000: 1})
    assert len(str(caught.value)) < 200


def test_marks_of_the_caller_do_not_matter_to_tgi() -> None:
    assert tgi(user="u-1", metadata={"a": "b"}, store=True, parallel_tool_calls=False) == tgi()


def test_turns_carry_calls_to_tools_and_parts() -> None:
    calls = [{"id": "1", "type": "function", "function": {"name": "clock", "arguments": "{}"}}]
    parts = [{"type": "text", "text": "Look"}, {"type": "image_url", "image_url": {"url": "data:"}}]
    turns = (
        ChatTurn("user", "", {"content": parts}),
        ChatTurn("assistant", "", {"tool_calls": calls}),
        ChatTurn("tool", "noon", {"tool_call_id": "1"}),
    )
    asked = GenerationRequest(turns, max_tokens=5, options={"tools": [TOOL]})
    sent = chat_payload(asked, model="m")["messages"]
    assert sent == [
        {"role": "user", "content": parts},
        {"role": "assistant", "content": "", "tool_calls": calls},
        {"role": "tool", "content": "noon", "tool_call_id": "1"},
    ]
    # TGI reads a message as content or as calls, content first.
    assert tgi_payload(asked)["messages"][1] == {"role": "assistant", "tool_calls": calls}
    text = prompt_text(asked)
    assert all(word in text for word in ("Look", "noon", "clock"))
    assert "data:" not in text
