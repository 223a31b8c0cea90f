"""Scripts that a page will ask for, named before the browser has found out by itself."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path, PurePosixPath

from django import template
from django.contrib.staticfiles import finders
from django.templatetags.static import static
from django.utils.html import format_html_join
from django.utils.safestring import SafeString

register = template.Library()

_IMPORT = re.compile(r"""^(?:import|export)\b[^"']*["'](\.{1,2}/[^"']+)["']""", re.MULTILINE)


@register.simple_tag
def modules_of(*entries: str) -> SafeString:
    """Links that fetch all modules behind `entries` at once, rather than level by level."""
    addresses = ((static(each),) for each in _imported(entries))
    return format_html_join("\n", '<link rel="modulepreload" href="{}">', addresses)


@lru_cache
def _imported(entries: tuple[str, ...]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    waiting = list(entries)
    while waiting:
        for name in _imports_of(waiting.pop(0)):
            if name not in found:
                found[name] = None
                waiting.append(name)
    return tuple(found)


def _imports_of(name: str) -> list[str]:
    path = finders.find(name)
    if path is None:
        raise ValueError(f"There is no static file {name}.")
    folder = PurePosixPath(name).parent
    return [_joined(folder, each) for each in _IMPORT.findall(Path(path).read_text())]


def _joined(folder: PurePosixPath, relative: str) -> str:
    for part in PurePosixPath(relative).parts:
        folder = folder.parent if part == ".." else folder / part
    return str(folder)
