"""What a client may send."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest

from apps.chat import frames
from apps.chat.errors import FrameMalformed, FrameTooLarge

ID = str(uuid.uuid4())
ASK: dict[str, Any] = {
    "v": 2,
    "type": "ask",
    "id": "c1",
    "conversation": None,
    "collections": [ID],
    "after": None,
    "models": ["openai"],
    "question": "How long is leave?",
}


def test_a_question_is_read() -> None:
    frame = frames.parse(json.dumps(ASK))
    assert frame == frames.Ask(
        "c1", None, None, (uuid.UUID(ID),), ("openai",), "How long is leave?"
    )


def test_an_answer_can_be_stopped_and_asked_for_again() -> None:
    assert frames.parse(json.dumps({"v": 2, "type": "stop", "answer": ID})) == frames.Stop(
        uuid.UUID(ID)
    )
    again = {"v": 2, "type": "regenerate", "id": "c2", "answer": ID, "model": ""}
    assert frames.parse(json.dumps(again)) == frames.Regenerate("c2", uuid.UUID(ID), "")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        "[]",
        "null",
        "1",
        '"ask"',
        "{}",
        '{"v": 1, "type": "ping"}',
        '{"v": 2}',
        '{"v": 2, "type": "drop"}',
        '{"v": 2, "type": ["ask"]}',
        '{"v": NaN, "type": "ping"}',
        '{"v": 2, "type": "stop"}',
        '{"v": 2, "type": "stop", "answer": 5}',
        '{"v": 2, "type": "stop", "answer": "' + "a" * 37 + '"}',
        '{"v": 2, "type": "stop", "answer": "../../etc/passwd"}',
        "[" * 50_000,
        json.dumps({**ASK, "collections": "all"}),
        json.dumps({**ASK, "collections": [None]}),
        json.dumps({**ASK, "collections": [{"$ne": 1}]}),
        json.dumps({**ASK, "collections": [ID] * 201}),
        json.dumps({**ASK, "conversation": 7}),
        json.dumps({**ASK, "conversation": "mine"}),
        json.dumps({**ASK, "question": None}),
        json.dumps({**ASK, "question": ["a"]}),
        json.dumps({**ASK, "id": "x" * 65}),
        json.dumps({**ASK, "models": {"a": 1}}),
    ],
)
def test_a_malformed_frame_is_refused_in_words(text: str) -> None:
    with pytest.raises(FrameMalformed) as refusal:
        frames.parse(text)
    assert str(refusal.value).endswith((".", "ids."))


def test_an_oversized_frame_is_refused() -> None:
    with pytest.raises(FrameTooLarge):
        frames.parse(json.dumps({**ASK, "question": "x" * frames.MAX_FRAME_CHARS}))


def test_lone_surrogates_and_nul_bytes_do_not_get_through() -> None:
    frame = frames.parse(
        '{"v":2,"type":"ask","id":"a","conversation":null,"collections":[],'
        '"models":[],"question":"a\\u0000b\\ud800c"}'
    )
    assert isinstance(frame, frames.Ask)
    assert frame.question.encode() == b"ab?c"


@pytest.mark.parametrize(
    ("text", "client_id"),
    [('{"id":"c9"', ""), ('{"id":"c9"}', "c9"), ("[1]", ""), ('{"id":7}', "7")],
)
def test_a_refusal_names_the_frame_where_it_can(text: str, client_id: str) -> None:
    assert frames.client_id_of(text) == client_id
