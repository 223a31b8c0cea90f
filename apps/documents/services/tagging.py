"""Tags of documents: short words to narrow a search by."""

from __future__ import annotations

import re
from collections.abc import Iterable

from apps.documents.errors import TagsRefused
from apps.documents.models import Document
from apps.documents.selectors import versions_of
from apps.documents.services.common import audit, lock
from apps.tenants.models import Tenant, User
from apps.tenants.scope import tenant_scope

TAGS_MAX = 20
TAG_MAX_CHARS = 50
_UNFIT = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\u200b-\u200f\u202a-\u202e\u2066-\u2069]")


def clean_tags(tags: Iterable[str]) -> list[str]:
    """In lower case, trimmed, each once, in alphabetical order.

    Raises TagsRefused for more than TAGS_MAX, or one longer than TAG_MAX_CHARS.
    """
    words = (" ".join(_UNFIT.sub(" ", tag).casefold().split()) for tag in tags)
    found = sorted({word for word in words if word})
    if len(found) > TAGS_MAX:
        raise TagsRefused(f"These are {len(found)} tags; a document has at most {TAGS_MAX}.")
    longest = max(found, key=len, default="")
    if len(longest) > TAG_MAX_CHARS:
        raise TagsRefused(
            f"A tag has at most {TAG_MAX_CHARS} characters, and “{longest[:30]}…” has more."
        )
    return found


def split_tags(text: str) -> list[str]:
    """Tags as they are typed in one field, with commas or semicolons between. See clean_tags."""
    return clean_tags(re.split(r"[,;\n]", text))


def set_tags(
    *, tenant: Tenant, document: Document, actor: User | None, tags: Iterable[str]
) -> list[str]:
    """Replace a document's tags, on all its versions. Raises TagsRefused."""
    cleaned = clean_tags(tags)
    with tenant_scope(tenant.id):
        lock(document.collection_id)
        versions_of(document).update(tags=cleaned)
        audit("document.tagged", document, actor)
    document.tags = cleaned
    return cleaned
