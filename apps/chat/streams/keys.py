"""Names in Redis, and how long things stay there."""

from __future__ import annotations

import uuid

Owned = tuple[uuid.UUID, uuid.UUID]  # tenant, answer
Person = tuple[uuid.UUID, int]  # tenant, user

PREFIX = "ragsite:chat:"
KEPT_S = 3600  # how long after its last frame an answer can be followed
# The most of one answer that is kept: more than an answer of a model's longest output takes
# (50 ms a frame), and little enough that a runaway cannot fill the store.
MAX_FRAMES = 6000
MAX_BYTES = 4 * 1024 * 1024

OWNED = f"{PREFIX}owned"  # a sorted set: "<tenant>:<answer>" by when its lease runs out
STOPS = f"{PREFIX}stops"  # a sorted set: answers to be stopped, by when that is forgotten
CONTROL = f"{PREFIX}control"  # a channel that every process hears


def frames_key(answer_id: uuid.UUID) -> str:
    """A stream: frame n under the id `n + 1`."""
    return f"{PREFIX}{answer_id}:frames"


def evidence_key(answer_id: uuid.UUID) -> str:
    """What the model was shown, as JSON, while the answer is written."""
    return f"{PREFIX}{answer_id}:evidence"


def answer_channel(answer_id: uuid.UUID) -> str:
    return f"{PREFIX}answer:{answer_id}"


def user_channel(tenant_id: uuid.UUID, user_id: int) -> str:
    return f"{PREFIX}user:{tenant_id}:{user_id}"


def asking_key(conversation_id: uuid.UUID) -> str:
    """Held while a question of that conversation is being let in."""
    return f"{PREFIX}asking:{conversation_id}"


def arrival_key(person: Person, client_id: str) -> str:
    """Which answers a message of that person with that id has begun."""
    return f"{PREFIX}arrival:{person[0]}:{person[1]}:{client_id}"
