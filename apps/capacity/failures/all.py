"""The failures by name."""

from __future__ import annotations

from apps.capacity.failures import kv_precision, long_prompt, shared_prefix, slots
from apps.capacity.failures.shown import Show

FAILURES: dict[str, tuple[str, Show]] = {
    "slots": (slots.TITLE, slots.show),
    "long-prompt": (long_prompt.TITLE, long_prompt.show),
    "shared-prefix": (shared_prefix.TITLE, shared_prefix.show),
    "kv-precision": (kv_precision.TITLE, kv_precision.show),
}
