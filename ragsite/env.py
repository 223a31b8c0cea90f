"""Reading settings from the environment, loudly.

Every setting is read through one of these functions, which also records it in `REGISTRY`: the
reference page `docs/settings.md` is checked against that table by a test, so a setting cannot be
added without being documented.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured


@dataclass(frozen=True)
class Setting:
    """One environment variable: its name, its default as text, and what it is for."""

    name: str
    default: str
    help: str


REGISTRY: dict[str, Setting] = {}

_TRUE = {"1", "true", "yes", "on"}
_FALSE = {"0", "false", "no", "off", ""}


def text(name: str, default: str, help: str) -> str:
    """The value of `name`, or of the file that `<name>_FILE` points at (for mounted secrets)."""
    REGISTRY[name] = Setting(name, default, help)
    secret_file = os.environ.get(f"{name}_FILE")
    if not secret_file:
        return os.environ.get(name, default).strip()
    try:
        return Path(secret_file).read_text().strip()
    except OSError as exc:
        raise ImproperlyConfigured(
            f"{name}_FILE names {secret_file}, which cannot be read ({exc.strerror}). "
            f"Point it at a readable file, or set {name} itself."
        ) from exc


def integer(name: str, default: int, help: str, *, minimum: int = 0) -> int:
    """A whole number of at least `minimum`."""
    raw = text(name, str(default), help)
    try:
        value = int(raw)
    except ValueError as exc:
        raise ImproperlyConfigured(
            f"{name} is {raw!r}, which is not a whole number. Set it to a number such as {default}."
        ) from exc
    if value < minimum:
        raise ImproperlyConfigured(f"{name} is {value}; it must be at least {minimum}.")
    return value


def number(name: str, default: float, help: str, *, minimum: float = 0.0) -> float:
    """A decimal number of at least `minimum`."""
    raw = text(name, str(default), help)
    try:
        value = float(raw)
    except ValueError as exc:
        raise ImproperlyConfigured(
            f"{name} is {raw!r}, which is not a number. Set it to a number such as {default}."
        ) from exc
    if not value >= minimum:
        raise ImproperlyConfigured(f"{name} is {value}; it must be at least {minimum}.")
    return value


def boolean(name: str, default: bool, help: str) -> bool:
    """`1`, `true`, `yes`, `on` or `0`, `false`, `no`, `off`."""
    raw = text(name, "1" if default else "0", help).lower()
    if raw in _TRUE:
        return True
    if raw in _FALSE:
        return False
    raise ImproperlyConfigured(f"{name} is {raw!r}. Set it to 1 or 0.")


def words(name: str, default: str, help: str) -> list[str]:
    """A comma-separated list."""
    return [word.strip() for word in text(name, default, help).split(",") if word.strip()]


def url(name: str, default: str, help: str, *, schemes: tuple[str, ...]) -> str:
    """A URL with one of `schemes`, or the empty string."""
    raw = text(name, default, help)
    if raw and raw.split("://", 1)[0] not in schemes:
        expected = " or ".join(f"{scheme}://" for scheme in schemes)
        raise ImproperlyConfigured(f"{name} must start with {expected}; check its value.")
    return raw


def choice(name: str, default: str, help: str, *, options: tuple[str, ...]) -> str:
    """One of `options`."""
    raw = text(name, default, help)
    if raw not in options:
        raise ImproperlyConfigured(f"{name} is {raw!r}. Set it to one of: {', '.join(options)}.")
    return raw


def currency(name: str, default: str, help: str) -> str:
    """An ISO 4217 code, in capitals."""
    raw = text(name, default, help).upper()
    if len(raw) == 3 and raw.isascii() and raw.isalpha():
        return raw
    raise ImproperlyConfigured(
        f"{name} is {raw!r}, which is not a currency. Set it to a code such as {default}."
    )
