"""Where tenants may watch, as WATCH_ROOTS and WATCH_S3 say it.

Only names are compared here, so the site can answer without seeing the folders, and nobody learns
from an answer what is there.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

from apps.documents.errors import SourceNotAllowed


@dataclass(frozen=True)
class Place:
    """`root` as configured; the tenant may watch below `within` in it."""

    root: str
    within: tuple[str, ...]

    @property
    def parts(self) -> tuple[str, ...]:
        """The names from the top down to where the tenant's part begins."""
        return (*_names(self.root), *self.within)

    @property
    def shown(self) -> str:
        return posixpath.join(self.root, *self.within, "")


def folder_places(tenant_slug: str) -> list[Place]:
    """The folders below which a tenant may watch; what the site keeps is in none of them."""
    places = _places(settings.WATCH_ROOTS, tenant_slug)
    return [place for place in places if place.root[:1] == "/" and not is_own_folder(place.root)]


def prefix_places(tenant_slug: str) -> list[Place]:
    """The prefixes below which a tenant may watch; what the site keeps is in none of them."""
    places = _places(settings.WATCH_S3, tenant_slug)
    return [place for place in places if not is_own_prefix(place.root)]


def find_folder(location: str, tenant_slug: str) -> tuple[str, tuple[str, ...]]:
    """The operators' root that `location` is below, and the names from there down.

    Raises SourceNotAllowed.
    """
    names = _names(location.strip())
    if location.strip().startswith("/") and ".." not in names and location.isprintable():
        for place in folder_places(tenant_slug):
            if names[: len(place.parts)] == place.parts:
                return place.root, names[len(_names(place.root)) :]
    raise SourceNotAllowed(
        "This folder may not be watched. Choose one below those that are named here, or have "
        "operations add its root to WATCH_ROOTS."
    )


def find_prefix(location: str, tenant_slug: str) -> tuple[str, str]:
    """Bucket and prefix (with its slash) of `bucket/prefix` or `s3://bucket/prefix`.

    Raises SourceNotAllowed.
    """
    names = _names(location.strip().removeprefix("s3://"))
    if ".." not in names and location.isprintable():
        for place in prefix_places(tenant_slug):
            if names[: len(place.parts)] == place.parts:
                return names[0], "".join(f"{name}/" for name in names[1:])
    raise SourceNotAllowed(
        "This prefix may not be watched. Choose one below those that are named here, or have "
        "operations add it to WATCH_S3."
    )


def is_own_folder(root: str) -> bool:
    """Whether a root holds, or is within, what the site keeps: every tenant's files are there."""
    real = Path(os.path.realpath(root))
    own = [Path(os.path.realpath(each)) for each in (settings.MEDIA_ROOT, settings.VAR_DIR)]
    return any(real.is_relative_to(each) or each.is_relative_to(real) for each in own)


def is_own_prefix(root: str) -> bool:
    """`is_own_folder` for the bucket that uploaded files are kept in."""
    if not settings.S3_BUCKET:
        return False
    asked, own = _names(root), (settings.S3_BUCKET, *_names(settings.S3_PREFIX))
    shorter = min(len(asked), len(own))
    return asked[:shorter] == own[:shorter]


def root_of(configured: str) -> str:
    """The root of one entry of the settings, without its owner."""
    return configured.partition("=")[2].strip() or configured


def _places(configured: Iterable[str], tenant_slug: str) -> list[Place]:
    """`slug=root` is that tenant's alone; of a bare root, each tenant has the part of its slug."""
    places = []
    for each in configured:
        owner, given, root = each.partition("=")
        if not given:
            places.append(Place(each, (tenant_slug,)))
        elif owner.strip() == tenant_slug and root.strip():
            places.append(Place(root.strip(), ()))
    return places


def _names(path: str) -> tuple[str, ...]:
    return tuple(part for part in path.split("/") if part not in ("", "."))
