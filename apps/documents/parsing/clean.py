"""Characters that may be stored and shown."""

from __future__ import annotations

import re

# C0 and C1 controls except tab and newline (PostgreSQL refuses NUL), lone surrogates, and
# Unicode's non-characters. Some PDF fonts draw their blanks as control characters, so each
# becomes a blank rather than nothing.
_CONTROLS = re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
_BREAKS = re.compile("\r\n|\r|\x0c|\x85|\u2028|\u2029")
# Possessive: a megabyte of line ends would otherwise be remembered one by one.
_MANY_BREAKS = re.compile(r"\n[ \t]*+(?:\n[ \t]*+){2,}+")


def clean_text(text: str) -> str:
    """`text` with plain newlines, and without controls or a byte order mark."""
    text = _BREAKS.sub("\n", text.replace("\ufeff", ""))
    text = _CONTROLS.sub(" ", text)
    return _MANY_BREAKS.sub("\n\n", text)
