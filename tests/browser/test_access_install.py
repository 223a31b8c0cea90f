"""The site as an app: what a browser is told, and what it has where there is no network."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from django.conf import settings
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.furnished import Furnished

CONTROLLED = "navigator.serviceWorker.ready.then(() => navigator.serviceWorker.controller !== null)"
KEPT = r"""async () => {
    const found = [];
    for (const name of await caches.keys())
        for (const each of await (await caches.open(name)).keys())
            found.push(new URL(each.url).pathname.replace(/^\/static\/\w{12}\//, ""));
    return found.sort();
}"""
EXPECTED = [
    "/offline/en/",
    "css/site.css",
    "img/favicon.svg",
    "js/theme.js",
]


@pytest.fixture
def context(browser: Browser, furnished: Furnished) -> Iterator[BrowserContext]:
    context = furnished.open(browser, "manager")
    yield context
    context.close()


def installed(context: BrowserContext) -> Page:
    """A page that the worker looks after."""
    page = context.new_page()
    page.goto("/t/acme/documents/")
    page.wait_for_function(CONTROLLED)
    return page


def test_the_manifest_tells_all_that_installing_needs(furnished: Furnished) -> None:
    manifest = httpx.get(f"{furnished.site.root}/manifest.webmanifest", trust_env=False).json()
    assert {"id", "name", "short_name", "lang", "dir", "background_color"} <= set(manifest)
    assert (manifest["start_url"], manifest["scope"]) == ("/", "/")
    assert manifest["display"] == "standalone"
    purposes = {icon["purpose"] for icon in manifest["icons"]}
    assert purposes == {"any", "maskable"}
    for icon in manifest["icons"]:
        file = Path(settings.BASE_DIR, "static", "img", Path(icon["src"]).name)
        width, height = struct.unpack(">II", file.read_bytes()[16:24])
        assert icon["sizes"] == f"{width}x{height}"


def test_the_manifest_speaks_the_readers_language(furnished: Furnished) -> None:
    address = f"{furnished.site.root}/manifest.webmanifest"
    arabic = httpx.get(address, headers={"Accept-Language": "ar"}, trust_env=False).json()
    assert (arabic["lang"], arabic["dir"]) == ("ar", "rtl")


def test_the_browser_finds_nothing_wrong_with_the_manifest(context: BrowserContext) -> None:
    page = installed(context)
    answer = context.new_cdp_session(page).send("Page.getAppManifest")
    assert answer["url"].endswith("/manifest.webmanifest")
    assert answer["errors"] == []


def test_without_network_a_page_says_so_and_goes_on_by_itself(context: BrowserContext) -> None:
    page = installed(context)
    context.set_offline(True)
    page.goto("/t/acme/chat/")
    expect(page.get_by_role("heading", name="You are offline")).to_be_visible()
    assert page.evaluate("getComputedStyle(document.querySelector('.empty')).display") == "flex"
    assert page.url.endswith("/t/acme/chat/")
    context.set_offline(False)
    page.get_by_role("link", name="Try again").click()
    expect(page.locator("#question")).to_be_visible()


def test_nothing_that_was_read_is_kept(context: BrowserContext, furnished: Furnished) -> None:
    page = installed(context)
    conversation = furnished.world["conversation_id"]
    for path in (
        f"chat/{conversation}/",
        "people/",
        f"documents/{furnished.world['collection_id']}/",
    ):
        page.goto(f"/t/acme/{path}")
    page.evaluate("fetch('/api/v1/openapi.json').then(answer => answer.text())")
    assert page.evaluate(KEPT) == EXPECTED


def test_what_is_kept_holds_nothing_of_the_person(context: BrowserContext) -> None:
    page = installed(context)
    text = page.evaluate("caches.match('/offline/en/').then(answer => answer.text())")
    assert "offline" in text
    assert "alice" not in text
    assert "Acme" not in text


def test_another_version_takes_the_place_of_the_one_before(context: BrowserContext) -> None:
    page = installed(context)
    page.evaluate(
        "caches.open('offline-of-before').then(cache => cache.put('/old', new Response('old')))"
    )
    page.evaluate(
        "caches.open('of-someone-else').then(cache => cache.put('/x', new Response('x')))"
    )
    page.evaluate("navigator.serviceWorker.ready.then(each => each.unregister())")
    page.goto("/t/acme/documents/")
    page.wait_for_function(CONTROLLED)
    page.wait_for_function("caches.has('offline-of-before').then(has => !has)")
    assert page.evaluate(KEPT) == sorted([*EXPECTED, "/x"])


def test_pages_work_where_the_worker_has_been_removed(context: BrowserContext) -> None:
    page = installed(context)
    assert page.evaluate("navigator.serviceWorker.ready.then(each => each.unregister())")
    answer = page.goto("/t/acme/people/")
    assert answer is not None
    assert answer.ok
    assert not answer.from_service_worker


def test_the_worker_is_asked_for_anew_each_time(furnished: Furnished) -> None:
    answer = httpx.get(f"{furnished.site.root}/sw.js", trust_env=False)
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.headers["content-type"].startswith("text/javascript")
    assert "worker-src 'self'" in answer.headers["content-security-policy"]


def test_a_language_that_the_site_does_not_speak_has_no_page(furnished: Furnished) -> None:
    for language, status in (("de", 200), ("xx", 404)):
        address = f"{furnished.site.root}/offline/{language}/"
        assert httpx.get(address, trust_env=False).status_code == status
