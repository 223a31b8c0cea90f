"""Characters that a file of text must not have, whatever a message holds."""

from __future__ import annotations

import re

# Controls, and what turns the order of what follows: embeddings and overrides. Isolates stay, for
# they end with their paragraph.
_UNWANTED = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\ufeff\ufff9-\ufffb\ufffe\uffff]"
)
_ISOLATES = re.compile("[\u2066-\u2069]")
_LINES = re.compile("\r\n|[\r\u0085\u2028\u2029]")
_SURROGATES = re.compile("[\ud800-\udfff]")


def clean(text: str) -> str:
    """Text of several lines."""
    return _SURROGATES.sub("\ufffd", _UNWANTED.sub("", _LINES.sub("\n", text)))


def clean_name(text: str) -> str:
    """A title or a name: one line, with nothing in it that turns what stands beside it."""
    return " ".join(_ISOLATES.sub("", clean(text)).split())
