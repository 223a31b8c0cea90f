"""Secrets that are shown once and kept as a hash."""

from __future__ import annotations

import hashlib
import secrets

_BYTES = 32  # 256 random bits: a plain fast hash is enough, there is nothing to guess


def new_token(prefix: str = "") -> str:
    """A URL-safe token of 256 random bits, behind `prefix`."""
    return prefix + secrets.token_urlsafe(_BYTES)


def hash_token(token: str) -> str:
    """SHA-256 in hex: what is stored, and looked up by (so no comparison leaks by its timing)."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
