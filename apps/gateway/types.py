"""What the chat asks of the gateway."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

PromptStyle = Literal["instruct", "extractive"]


@dataclass(frozen=True)
class Model:
    """A model people can pick."""

    alias: str  # stable, stored with conversations
    label: str  # shown
    context_tokens: int  # prompt and answer together
    max_tokens: int  # longest answer
    passages: int  # how many passages suit it
    prompt: PromptStyle  # how it is best asked
