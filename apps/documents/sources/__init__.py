"""What a collection can be kept in step with: one module per kind.

To add a kind: a module with a `Reader`, its rule in `places`, `Source.Kind`, and the lines here.
"""

from __future__ import annotations

from apps.documents.models import Source
from apps.documents.sources.places import (
    find_folder,
    find_prefix,
    folder_places,
    prefix_places,
)
from apps.documents.sources.types import Reader


def open_source(source: Source) -> Reader:
    """A reader of what is there now. Raises SourceNotAllowed: settings may have changed."""
    slug = source.tenant.slug
    if source.kind == Source.Kind.FOLDER:
        from apps.documents.sources.folder import FolderReader

        return FolderReader(*find_folder(source.location, slug))
    # Loaded where it is needed: boto takes 25 MiB.
    from apps.documents.object_storage import make_client
    from apps.documents.sources.s3 import PrefixReader

    return PrefixReader(*find_prefix(source.location, slug), make_client())


def normalize(kind: str, location: str, *, tenant_slug: str) -> str:
    """A location as it is kept. Raises SourceNotAllowed; looks at names only."""
    if kind == Source.Kind.FOLDER:
        root, names = find_folder(location, tenant_slug)
        return "/".join([root.rstrip("/"), *names])
    return "/".join(find_prefix(location, tenant_slug))


def places_of(tenant_slug: str) -> dict[str, list[str]]:
    """Per kind, the places below which this tenant may watch; kinds with none are left out."""
    places = {
        Source.Kind.FOLDER.value: [place.shown for place in folder_places(tenant_slug)],
        Source.Kind.S3.value: [place.shown for place in prefix_places(tenant_slug)],
    }
    return {kind: found for kind, found in places.items() if found}
