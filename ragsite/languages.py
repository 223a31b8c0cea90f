"""The reader's language: which pages are in it, and the catalogue that scripts read words from.

The chat, what leads to it (sign-in, invitations, the choice of an organisation) and the pages
that say what went wrong are translated. Other pages are in English as a whole, with their dates
and the words of Django's forms, below a navigation that is in the reader's language.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import ResolverMatch, reverse
from django.utils import translation
from django.utils.cache import patch_cache_control
from django.views.i18n import JavaScriptCatalog

SOURCE = "en"
SCRIPT_DOMAIN = "djangojs"
CACHE_S = 31_536_000  # a year: another catalogue has another address
# Names of allauth's views have no namespace.
_ROOMS = {"chat"}
_ADDRESSES = ("/accounts/", "/invitation")
_VIEWS = {"tenants:home", "set_language", "script_words", "manifest", "service_worker", "offline"}


class PageLanguageMiddleware:
    """English for views whose pages are not translated; `request.reader_language` for the rest."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        request.reader_language = translation.get_language() or SOURCE  # type: ignore[attr-defined]
        return self.get_response(request)

    def process_view(self, request: HttpRequest, *_: Any) -> None:
        """Called once the address has been resolved."""
        match = request.resolver_match
        if match is None or not _is_translated(request.path, match):
            translation.activate(SOURCE)

    def process_exception(self, request: HttpRequest, _: Exception) -> None:
        """What went wrong is said in the reader's language, on whichever page."""
        translation.activate(_language_of(request))


def _is_translated(path: str, match: ResolverMatch) -> bool:
    return (
        bool(_ROOMS.intersection(match.namespaces))
        or path.startswith(_ADDRESSES)
        or match.view_name in _VIEWS
    )


def page_languages(request: HttpRequest) -> dict[str, Any]:
    """For every page's frame: the reader's language, in which its navigation is, and the choice.

    The page's own language is the active one. Scripts' words come in that.
    """
    return {
        "reader_language": _language_of(request),
        "languages": settings.LANGUAGES,
        "script_words_url": script_words_url(translation.get_language() or SOURCE),
    }


def _language_of(request: HttpRequest) -> str:
    language: str = getattr(request, "reader_language", "") or SOURCE
    return language


# --- Words of scripts ----------------------------------------------------------------------------


def script_words_url(language: str) -> str:
    """Where the catalogue of `language` is; empty for English, which scripts have themselves."""
    version = _version(language)
    return reverse("script_words", args=[language, version]) if version else ""


def script_words(request: HttpRequest, language: str, version: str) -> HttpResponse:
    """A script that sets `window.words`: the catalogue and the rule for plurals."""
    current = _version(language)
    if not current:
        raise Http404(f"no catalogue of {language[:20]!r}")
    response = HttpResponse(_script(language), content_type="text/javascript; charset=utf-8")
    if version == current:
        patch_cache_control(response, public=True, max_age=CACHE_S, immutable=True)
    else:
        # While a new version is rolled out, a page of one process may ask another process.
        patch_cache_control(response, no_cache=True)
    return response


class _Catalogue(JavaScriptCatalog):
    """The site's own words: Django's admin has hundreds that no page of ours shows."""

    domain = SCRIPT_DOMAIN
    packages = ["ragsite"]  # noqa: RUF012 - as in the base class; any, for `get_paths` to be asked

    def get_paths(self, packages: Sequence[str]) -> list[str]:
        return [str(path) for path in settings.LOCALE_PATHS]

    def render_to_response(self, context: dict[str, Any], **_: Any) -> HttpResponse:
        words = json.dumps(context["catalog"], ensure_ascii=False, separators=(",", ":"))
        plural = context["plural"] or "n != 1"
        return HttpResponse(f"window.words={{catalogue:{words},plural:(n)=>Number({plural})}};\n")


@functools.cache
def _script(language: str) -> bytes:
    request = HttpRequest()
    request.method = "GET"
    with translation.override(language):
        response = _Catalogue.as_view()(request)
    assert isinstance(response, HttpResponse)  # noqa: S101 - for the type checker
    return response.content


@functools.cache
def _version(language: str) -> str:
    """Changes with the catalogue; empty where there is none."""
    if language == SOURCE or language not in dict(settings.LANGUAGES):
        return ""
    digest = hashlib.sha256()
    for folder in settings.LOCALE_PATHS:
        name = f"{translation.to_locale(language)}/LC_MESSAGES/{SCRIPT_DOMAIN}.mo"
        path = Path(folder) / name
        if path.exists():
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]
