"""Questions about the demo corpus, each with its own beginning, so that no cache knows it."""

from __future__ import annotations

from collections.abc import Iterator

from apps.documents.models import Chunk, Collection
from apps.tenants.scope import tenant_scope
from ragsite.stack.demo.people import Demo


def questions(demo: Demo, collection: Collection, *, series: str) -> Iterator[str]:
    """Without end: one per heading of the corpus, then again with other numbers."""
    with tenant_scope(demo.tenant.id):
        paths = list(
            Chunk.objects.filter(tenant=demo.tenant, document__collection=collection)
            .exclude(heading_path="")
            .order_by("document__name", "ordinal")
            .values_list("heading_path", flat=True)
        )
    headings = list(dict.fromkeys(path.split(" › ")[-1] for path in paths))
    number = 0
    while True:
        for heading in headings:
            number += 1
            yield f"{series}{number}: what is there to know about {heading}?"
