"""What makes the site an app that a browser can install: a manifest, a worker, a page without net.

The worker keeps that page and what it looks like, and nothing else: never an answer, a page or
a reply of an API, so that nothing of a tenant stays behind in a browser.
"""

from __future__ import annotations

import functools
import hashlib
import json
from pathlib import Path
from typing import Any

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.templatetags.static import static
from django.urls import reverse
from django.utils import translation
from django.utils.translation import gettext as _
from django.views.decorators.cache import cache_control
from django.views.decorators.http import require_safe

BACKGROUND = "#f8f8f6"  # --bg of static/css/site.css, in light
THEME = "#ffffff"  # --surface
# What the page without net needs beside itself.
_LOOKS = ("css/site.css", "js/theme.js", "img/favicon.svg")
_ICONS = (
    ("img/icon-192.png", 192, "any"),
    ("img/icon-512.png", 512, "any"),
    ("img/icon-maskable-512.png", 512, "maskable"),
)


@require_safe
@cache_control(max_age=3600, private=True)
def manifest(request: HttpRequest) -> JsonResponse:
    """The web app manifest (W3C), in the reader's language."""
    language = translation.get_language()
    return JsonResponse(
        {
            "id": "/",
            "name": _("ragsite: answers from your documents"),
            "short_name": "ragsite",
            "lang": language,
            "dir": "rtl" if translation.get_language_bidi() else "ltr",
            "start_url": "/",
            "scope": "/",
            "display": "standalone",
            "background_color": BACKGROUND,
            "theme_color": THEME,
            "icons": [_icon(*each) for each in _ICONS],
        },
        content_type="application/manifest+json",
    )


def _icon(path: str, pixels: int, purpose: str) -> dict[str, str]:
    size = f"{pixels}x{pixels}"
    return {"src": static(path), "sizes": size, "type": "image/png", "purpose": purpose}


@require_safe
@cache_control(no_cache=True)  # browsers ask for it anew before they trust the one they have
def service_worker(request: HttpRequest) -> HttpResponse:
    """The worker, at the root because it may only serve what lies below its own address."""
    page = reverse("offline", args=[translation.get_language()])
    files = [page, *(static(each) for each in _LOOKS)]
    kept: dict[str, Any] = {"version": _version(page), "page": page, "files": files}
    script = f"const KEPT = {json.dumps(kept)};\n{_worker()}"
    return HttpResponse(script, content_type="text/javascript")


@require_safe
@cache_control(max_age=0)
def offline(request: HttpRequest, language: str) -> HttpResponse:
    """The page that is shown where there is no network; the same for everyone."""
    if language not in dict(settings.LANGUAGES):
        raise Http404
    with translation.override(language):
        return render(request, "offline.html")


def _version(page: str) -> str:
    """Other bytes than before make browsers fetch and keep all of it again."""
    text = render_to_string("offline.html")
    looks = "".join(static(each) for each in _LOOKS)  # addresses that change with the files
    return hashlib.sha256((page + text + looks).encode()).hexdigest()[:12]


@functools.cache
def _worker() -> str:
    path: Path = settings.BASE_DIR / "static" / "js" / "worker.js"
    return path.read_text()
