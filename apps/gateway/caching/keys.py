"""What an answer is stored under: SHA-256 over everything that it depends on, the tenant first.

The parts are encoded as one JSON array, in which nothing that is asked can look like another
part. Text is encoded as it stands, lone surrogates too, so that no two texts become one.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from apps.gateway.caching.types import Cacheable


@dataclass(frozen=True)
class Keys:
    """Of an entry, and of the scope within which questions may be compared by meaning."""

    entry: bytes
    scope: bytes


def keys_of(tenant_id: uuid.UUID, epoch: int, cacheable: Cacheable) -> Keys:
    """Raises ValueError, TypeError or RecursionError where the scope is no JSON."""
    scope = dict(cacheable.scope)
    return Keys(
        entry=_digest(tenant_id, "entry", epoch, scope, cacheable.question),
        scope=_digest(tenant_id, "scope", epoch, scope, ""),
    )


def _digest(
    tenant_id: uuid.UUID, kind: str, epoch: int, scope: Mapping[str, Any], question: str
) -> bytes:
    canonical = json.dumps(
        [str(tenant_id), kind, epoch, scope, question],
        sort_keys=True,
        ensure_ascii=False,
        allow_nan=False,
        separators=(",", ":"),
    )
    return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).digest()
