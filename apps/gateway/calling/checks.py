"""What makes an upstream usable: asked by the forms, and again when the rows are read."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

from django.core.exceptions import ValidationError

# Only variables made for this: a form must not be a way to read any other secret of the process.
KEY_PREFIX = "UPSTREAM_KEY_"
# Which protocols serve which kinds of model.
SERVES = {
    "chat": ("tgi", "openai"),
    "embedding": ("tei", "openai", "local"),
    "rerank": ("tei", "openai", "local"),
}


def check_url(url: str) -> None:
    """Raises ValidationError for what is no plain http(s) address."""
    try:
        parts = urlsplit(url)
        port_is_one = parts.port is None or parts.port > 0
    except ValueError:
        raise ValidationError("This is no address.") from None
    if parts.scheme not in ("http", "https"):
        raise ValidationError("The address must begin with http:// or https://.")
    if not parts.hostname or not port_is_one:
        raise ValidationError("The address names no host.")
    if parts.username or parts.password:
        raise ValidationError("A key does not belong in the address: name its variable instead.")
    if parts.query or parts.fragment:
        raise ValidationError("The address must end with its path, such as /v1.")


def check_key_variable(name: str) -> None:
    """Raises ValidationError where the variable is none for keys, or is not set."""
    if not name:
        return
    if not name.startswith(KEY_PREFIX) or name == KEY_PREFIX:
        raise ValidationError(f"The variable's name must begin with {KEY_PREFIX}.")
    if not os.environ.get(name):
        raise ValidationError(f"The variable {name} is not set where the site runs.")


def check_kinds(model_kind: str, upstream_kind: str) -> None:
    """Raises ValidationError where such an upstream cannot serve such a model."""
    if upstream_kind not in SERVES.get(model_kind, ()):
        raise ValidationError(f"An upstream of kind {upstream_kind} serves no {model_kind} model.")
