"""How servers are asked to go on from an answer that broke off."""

from __future__ import annotations

import pytest

from apps.inference.generators.payload import GO_ON_WORDS, chat_payload, go_on_by, tgi_payload
from apps.inference.types import ChatTurn, GenerationRequest

TURNS = (ChatTurn("user", "How long is leave?"), ChatTurn("assistant", "Leave is 25"))
REQUEST = GenerationRequest(TURNS, max_tokens=10, goes_on=True)
OPEN = {"continue_final_message": True, "add_generation_prompt": False}


@pytest.mark.parametrize(
    ("owner", "fields", "last"),
    [
        ("llamacpp", {}, "Leave is 25"),
        ("vllm", OPEN, "Leave is 25"),
        ("sglang", OPEN, "Leave is 25"),
        ("openai", {}, GO_ON_WORDS),
        ("", {}, GO_ON_WORDS),
    ],
)
def test_a_server_is_asked_in_the_way_that_it_knows(
    owner: str, fields: dict[str, bool], last: str
) -> None:
    payload = chat_payload(REQUEST, model="m")
    go_on_by({owner}, payload)
    assert payload["messages"][-1]["content"] == last
    assert {name: payload[name] for name in OPEN if name in payload} == fields


def test_tgi_is_told_and_other_requests_are_not() -> None:
    assert tgi_payload(REQUEST).items() >= OPEN.items()
    assert not OPEN.keys() & tgi_payload(GenerationRequest(TURNS, max_tokens=10)).keys()
