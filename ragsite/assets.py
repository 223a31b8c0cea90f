"""The version of the static files, which is part of their address.

Under an address of their own, browsers may keep them for good: scripts, style and pictures are
fetched once for each release, modules find each other by relative imports, and nothing needs to
be rewritten or collected on one machine.
"""

from __future__ import annotations

import hashlib
from importlib.metadata import version
from pathlib import Path

# What else brings static files.
_PACKAGES = ("django", "django-unfold")


def assets_version(folder: Path) -> str:
    """12 hexadecimal digits that change with any file below `folder`."""
    digest = hashlib.sha256("".join(version(each) for each in _PACKAGES).encode())
    for path in sorted(each for each in folder.rglob("*") if each.is_file()):
        digest.update(f"\0{path.relative_to(folder).as_posix()}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]
