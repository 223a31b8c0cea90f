"""The language of pages, of scripts' words and of sockets: chosen, or the browser's."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from channels.testing import WebsocketCommunicator
from django.conf import settings
from django.http import HttpResponse
from django.test import Client
from django.utils import translation
from pytest_django import Settings

from apps.chat.languages import language_of
from apps.chat.models import Message
from apps.chat.pipeline.fallback import NOT_FOUND_TEXT
from apps.chat.pipeline.making import GENERATOR_DOWN
from apps.tenants.aio import in_scope, in_thread
from apps.tenants.amounts import format_amount
from apps.tenants.models import Measure
from ragsite.asgi import application
from ragsite.languages import script_words_url
from tests.cast import Cast, signed_in
from tests.catalogues import LANGUAGES
from tests.chat.library import open_library

pytestmark = pytest.mark.django_db
LOGIN = "/accounts/login/"
SIGN_IN = {
    "de": "Anmelden",
    "fr": "Se connecter",
    "es": "Iniciar sesión",
    "ar": "تسجيل الدخول",
    "zh-hans": "登录",
}


def page_of(response: HttpResponse) -> str:
    return response.content.decode()


# --- Pages ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_sign_in_page_is_in_the_browsers_language(language: str) -> None:
    page = page_of(Client(headers={"Accept-Language": language}).get(LOGIN))
    direction = "rtl" if language == "ar" else "ltr"
    assert f'<html lang="{language}" dir="{direction}">' in page
    assert f"<h1>{SIGN_IN[language]}</h1>" in page


def test_a_language_that_there_is_not_is_english() -> None:
    page = page_of(Client(headers={"Accept-Language": "tlh"}).get(LOGIN))
    assert '<html lang="en" dir="ltr">' in page


def test_a_chosen_language_outdoes_the_browsers() -> None:
    browser = Client(headers={"Accept-Language": "fr"})
    response = browser.post("/language/", {"language": "de", "next": LOGIN})
    assert response.headers["Location"] == LOGIN
    assert '<html lang="de"' in page_of(browser.get(LOGIN))


def test_the_choice_is_a_cookie_that_scripts_cannot_read() -> None:
    browser = Client()
    browser.post("/language/", {"language": "ar", "next": "/"})
    cookie = browser.cookies[settings.LANGUAGE_COOKIE_NAME]
    assert (cookie["httponly"], cookie["samesite"]) == (True, "Lax")
    assert bool(cookie["secure"]) == settings.SESSION_COOKIE_SECURE


def test_choosing_a_language_leads_to_no_other_site() -> None:
    response = Client().post("/language/", {"language": "de", "next": "https://evil.example/"})
    assert "evil" not in response.headers["Location"]


def test_a_language_that_there_is_not_cannot_be_chosen() -> None:
    browser = Client()
    browser.post("/language/", {"language": "../../etc", "next": "/"})
    assert settings.LANGUAGE_COOKIE_NAME not in browser.cookies


def test_a_page_that_is_not_translated_is_english_below_a_translated_navigation(
    cast: Cast,
) -> None:
    browser = signed_in(cast.alice)
    browser.cookies[settings.LANGUAGE_COOKIE_NAME] = "ar"
    page = page_of(browser.get("/t/acme/people/"))
    assert '<html lang="en" dir="ltr">' in page
    assert '<header class="topbar" lang="ar" dir="rtl">' in page
    assert "script_words" not in page
    assert "/words/" not in page


def test_the_chat_is_in_the_readers_language_and_brings_its_scripts_words(cast: Cast) -> None:
    browser = signed_in(cast.bob)
    browser.cookies[settings.LANGUAGE_COOKIE_NAME] = "ar"
    page = page_of(browser.get("/t/acme/chat/"))
    assert '<html lang="ar" dir="rtl">' in page
    assert f'<script src="{script_words_url("ar")}" defer></script>' in page


def test_what_went_wrong_is_said_in_the_readers_language_on_any_page(cast: Cast) -> None:
    browser = signed_in(cast.bob)
    browser.cookies[settings.LANGUAGE_COOKIE_NAME] = "de"
    for url, words in (
        ("/nowhere/", "Hier ist nichts"),
        ("/t/acme/people/", "Das dürfen Sie nicht"),
        ("/t/rival/people/", "Hier ist nichts"),
    ):
        page = page_of(browser.get(url))
        assert '<html lang="de"' in page
        assert f"<h1>{words}</h1>" in page


def test_a_language_does_not_stay_for_the_next_request(cast: Cast) -> None:
    Client(headers={"Accept-Language": "ar"}).get(LOGIN)
    assert '<html lang="en"' in page_of(Client().get(LOGIN))


# --- Words of scripts ----------------------------------------------------------------------------


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_words_of_scripts_are_kept_for_a_year_at_an_address_with_their_version(
    language: str,
) -> None:
    response = Client().get(script_words_url(language))
    assert response.headers["Content-Type"] == "text/javascript; charset=utf-8"
    assert "max-age=31536000" in response.headers["Cache-Control"]
    script = page_of(response)
    words = json.loads(script.removeprefix("window.words={catalogue:").rpartition(",plural:")[0])
    assert words["Copied"] != "Copied"
    # Of the site alone: Django's admin has hundreds of its own.
    assert len(response.content) < 24_000


def test_words_of_another_version_are_given_and_not_kept() -> None:
    response = Client().get("/words/de/000000000000.js")
    assert response.status_code == 200
    assert "no-cache" in response.headers["Cache-Control"]


@pytest.mark.parametrize("language", ["en", "tlh", "..", "de-at"])
def test_there_are_no_words_of_other_languages(language: str) -> None:
    assert Client().get(f"/words/{language}/0.js").status_code == 404


def test_english_needs_no_words() -> None:
    assert script_words_url("en") == ""


# --- Figures -------------------------------------------------------------------------------------


def test_amounts_are_written_as_the_language_does() -> None:
    with translation.override("de"):
        assert format_amount(Measure.TOKENS_PER_DAY, 1_234_567) == "1.234.567 Token"
        assert format_amount(Measure.MICROS_PER_MONTH, 1_250_500_000) == "1.250,50 USD"
    with translation.override("ar"):
        assert format_amount(Measure.DOCUMENTS, 2) == "مستندان"
    assert format_amount(Measure.TOKENS_PER_DAY, 1_234_567) == "1,234,567 tokens"


# --- Sockets -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cookie", "header", "language"),
    [
        ("ar", b"de", "ar"),
        ("", b"de-AT,de;q=0.9,en;q=0.8", "de"),
        ("", b"zh-CN", "zh-hans"),
        ("tlh", b"", "en"),
        ("../../etc", b"\xff\xfe;;q=9,\x00", "en"),
        ("", b"x" * 10_000, "en"),
    ],
)
def test_a_socket_has_the_language_of_its_handshake(
    cookie: str, header: bytes, language: str
) -> None:
    cookies = {settings.LANGUAGE_COOKIE_NAME: cookie} if cookie else {}
    scope = {"cookies": cookies, "headers": [(b"accept-language", header)]}
    assert language_of(scope) == language


async def told(socket: WebsocketCommunicator, kind: str) -> dict[str, Any]:
    while True:
        frame: dict[str, Any] = json.loads(await socket.receive_from(timeout=10))
        if frame["type"] == kind:
            return frame


async def german_socket(cast: Cast) -> WebsocketCommunicator:
    browser = await in_thread(signed_in, cast.bob)
    session = browser.cookies["sessionid"].value
    cookies = f"sessionid={session}; {settings.LANGUAGE_COOKIE_NAME}=de"
    headers = [(b"origin", settings.SITE_ORIGINS[0].encode()), (b"cookie", cookies.encode())]
    socket = WebsocketCommunicator(application, "/ws/t/acme/chat/", headers)
    assert (await socket.connect())[0]
    return socket


def ask(question: str, collection: object) -> str:
    frame = {"v": 2, "type": "ask", "id": "q", "conversation": None, "after": None}
    return json.dumps(
        {**frame, "collections": [str(collection)], "models": [], "question": question}
    )


@pytest.mark.django_db(transaction=True)
async def test_a_refusal_is_in_the_askers_language(cast: Cast) -> None:
    socket = await german_socket(cast)
    await socket.send_to(text_data=ask(" ", "00000000-0000-0000-0000-000000000001"))
    frame = await told(socket, "error")
    assert (frame["code"], frame["message"]) == (
        "question_empty",
        "Schreiben Sie zuerst eine Frage.",
    )
    await socket.disconnect()


@pytest.mark.django_db(transaction=True)
async def test_what_was_not_found_is_said_in_the_askers_language(
    cast: Cast, settings: Settings
) -> None:
    """Also in the thread and the task that write the answer, and as it is stored."""
    opened = open_library(cast.acme, settings)
    library = await in_thread(opened.__enter__)
    try:
        socket = await german_socket(cast)
        await socket.send_to(text_data=ask("Xylophone quasar?", library.collection.id))
        frame = await told(socket, "answer.finished")
        assert frame["kind"] == "not_found"
        assert "Ihre Dokumente scheinen" in frame["html"]
        stored = await in_scope(cast.acme.id, Message.objects.get, id=frame["answer"])
        with translation.override("de"):
            assert stored.text == translation.gettext(NOT_FOUND_TEXT)
        await socket.disconnect()
    finally:
        await in_thread(opened.__exit__, None, None, None)


async def test_threads_and_tasks_take_the_language_along() -> None:
    async def in_a_task() -> str:
        return await in_thread(translation.gettext, GENERATOR_DOWN.message)

    with translation.override("fr"):
        task = asyncio.create_task(in_a_task())
    assert (await task).startswith("Le modèle de langue")
