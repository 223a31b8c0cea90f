"""What a reservation keeps of its request, so that it can be booked should the process die.

Identifiers and figures; a call holds no text.
"""

from __future__ import annotations

import uuid
from dataclasses import asdict, replace
from typing import Any

from apps.gateway.models import Reservation
from apps.gateway.types import CacheNote, CacheResult, Call, Caller, Outcome, Source, Usage


def pack_request(caller: Caller, request_id: uuid.UUID) -> dict[str, Any]:
    """What the columns of a reservation do not say of its request, as JSON."""
    return {
        "request": str(request_id),
        "time_zone": caller.time_zone,
        "source": caller.source,
        "conversation": str(caller.conversation_id) if caller.conversation_id else None,
        "collections": [str(collection_id) for collection_id in caller.collection_ids],
    }


def pack_call(call: Call) -> dict[str, Any]:
    """The call as it stands, as JSON."""
    return asdict(call)


def unpack_request(row: Reservation) -> tuple[Caller, uuid.UUID]:
    """In whose name the request of a reservation was made, and its id."""
    noted = row.noted
    caller = Caller(
        tenant_id=row.tenant_id,
        time_zone=noted["time_zone"],
        source=Source(noted["source"]),
        user_id=row.user_id,
        key_id=row.key_id,
        conversation_id=uuid.UUID(noted["conversation"]) if noted["conversation"] else None,
        collection_ids=tuple(uuid.UUID(each) for each in noted["collections"]),
    )
    return caller, uuid.UUID(noted["request"])


def unpack_lost_call(row: Reservation) -> Call | None:
    """The call in flight as last noted, as one that was lost; None where none was noted."""
    packed = row.noted.get("call")
    if packed is None:
        return None
    cache = CacheNote(**{**packed["cache"], "result": CacheResult(packed["cache"]["result"])})
    call = Call(**{**packed, "usage": Usage(**packed["usage"]), "cache": cache})
    usage = replace(call.usage, estimated=True)
    return replace(call, usage=usage, outcome=Outcome.LOST)
