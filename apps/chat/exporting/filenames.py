"""The name that a downloaded file is given."""

from __future__ import annotations

import re
from urllib.parse import quote

from apps.chat.exporting.cleaning import clean_name

# What a file system or a shell may take for something else.
_UNSAFE = re.compile(r'[/\\:*?"<>|%\x00-\x1f\x7f]+')
_MOST_BYTES = 120  # file systems take 255, and browsers add " (1)"


def disposition(title: str, *, suffix: str, otherwise: str) -> str:
    """The Content-Disposition header, RFC 6266: the title in its own letters, and in ASCII."""
    name = file_name(title, otherwise=otherwise)
    plain = re.sub(r"[^A-Za-z0-9 ._-]+", "_", name).strip(" ._") or otherwise
    coded = quote(f"{name}.{suffix}", safe="")
    return f"attachment; filename=\"{plain}.{suffix}\"; filename*=UTF-8''{coded}"


def file_name(title: str, *, otherwise: str) -> str:
    """One line that names no folder and hides nothing, without a suffix."""
    name = _UNSAFE.sub(" ", clean_name(title))
    name = re.sub(r"[\u200b-\u200f]", "", " ".join(name.split()))
    short = name.encode(errors="ignore")[:_MOST_BYTES].decode(errors="ignore")
    return short.strip(" .-~") or otherwise
