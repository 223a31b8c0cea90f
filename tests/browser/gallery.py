"""Pictures of the chat for `docs/`, taken of a site with doubles: run by `make gallery`.

The answers are written by a double of a model server, word for word as `gallery_texts.py` has
them; whatever else a picture shows (citations, doubts, titles, what is found) the site has made.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pypdfium2
import pytest
from django.conf import settings
from django.db import connections
from PIL import Image
from playwright.sync_api import Browser, Page, expect
from pytest_django import DjangoDbBlocker

from apps.chat.models import Conversation, Folder, Message, MessageRole
from apps.documents.models import Chunk, Collection
from apps.gateway.models import GatewayModel, GatewayRoute, GatewayUpstream
from apps.tenants.models import Membership, Role, Tenant, User
from apps.tenants.scope import tenant_scope
from tests.browser import gallery_texts as texts
from tests.browser.doubles import ChatPage, ChatSite, _embedding
from tests.browser.furnished import _empty
from tests.cast import make_user, signed_in
from tests.chat.library import add_document
from tests.chat.test_conversations import converse
from tests.contract.site import a_site
from tests.contract.tgi import Behaviour, TgiDouble

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"
MOST_BYTES = 120_000
DESK, TALL, PHONE = (1200, 800), (1200, 1120), (390, 844)
Open = Callable[..., ChatPage]


@dataclass(frozen=True)
class Gallery:
    """The site, the doubles behind its two models, and two members: one asks, one reads."""

    chat: ChatSite
    small: TgiDouble
    larger: TgiDouble
    reader_session: str = field(repr=False)

    def writes(self, answer: str, title: str) -> None:
        """What the smaller model writes next: the answer, then the conversation's title."""
        self.small.script(_writing(answer))
        self.small.default = _writing(title)


@pytest.fixture(scope="module")
def gallery(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Gallery]:
    with (
        ThreadPoolExecutor(1) as database,
        django_db_blocker.unblock(),
        TgiDouble() as small,
        TgiDouble() as larger,
    ):
        models = {"Small model": small.url, "Larger model": larger.url}
        asker, reader = database.submit(_furnish, models).result(120)
        try:
            # TGI_URL would be a third model.
            with a_site(TGI_URL="", RESPONSE_CACHE_TTL_S="0", LOG_LEVEL="ERROR") as site:
                yield Gallery(ChatSite(site, larger, asker, database), small, larger, reader)
        finally:
            database.submit(_empty).result(60)


@pytest.fixture
def chat(browser: Browser, gallery: Gallery) -> Iterator[Open]:
    """Opens the chat: `chat()`, `chat(size=PHONE, color_scheme="dark")`, `chat(language="ar")`."""
    gallery.chat.ask(_history)
    contexts = []

    def open_chat(
        path: str = "/t/meridian/chat/",
        *,
        size: tuple[int, int] = DESK,
        language: str = "en",
        **options: object,
    ) -> ChatPage:
        context = gallery.chat.open(browser, width=size[0], **options)
        contexts.append(context)
        named = {"name": settings.LANGUAGE_COOKIE_NAME, "value": language}
        context.add_cookies([{**named, "url": gallery.chat.site.root}])
        page = context.new_page()
        page.set_viewport_size({"width": size[0], "height": size[1]})
        return ChatPage(page, path, None)

    yield open_chat
    for context in contexts:
        context.close()


@pytest.fixture
def asked(gallery: Gallery, chat: Open) -> Open:
    """The chat with the long answer in it."""

    def open_asked(**options: object) -> ChatPage:
        opened = chat(**options)
        gallery.writes(texts.ANSWER, texts.TITLE)
        opened.ask_and_wait(texts.QUESTION)
        expect(opened.page.locator("#conversation-title")).to_have_text(texts.TITLE)
        return opened

    return open_asked


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_an_answer(asked: Open, scheme: str) -> None:
    opened = asked(size=TALL, color_scheme=scheme)
    _to_the_top(opened)
    _shoot(opened.page, f"chat-{scheme}")


def test_on_a_phone(asked: Open) -> None:
    opened = asked(size=PHONE)
    _to_the_top(opened)
    _shoot(opened.page, "chat-phone")


def test_right_to_left(gallery: Gallery, chat: Open) -> None:
    opened = chat(language="ar")
    expect(opened.page.locator("html")).to_have_attribute("dir", "rtl")
    gallery.writes(texts.ARABIC_ANSWER, texts.ARABIC_TITLE)
    opened.ask_and_wait(texts.ARABIC_QUESTION)
    expect(opened.page.locator("#conversation-title")).to_have_text(texts.ARABIC_TITLE)
    _to_the_top(opened)
    _shoot(opened.page, "chat-right-to-left")


def test_an_empty_chat(chat: Open) -> None:
    _shoot(chat().page, "chat-empty")


def test_two_models_side_by_side(gallery: Gallery, chat: Open) -> None:
    opened = chat()
    gallery.writes(texts.FIRST_SIDE, texts.COMPARED_TITLE)
    gallery.larger.script(_writing(texts.SECOND_SIDE))
    opened.page.get_by_label("Compare with another model").select_option(label="Larger model")
    opened.ask(texts.COMPARED)
    expect(opened.answers).to_have_count(2)
    for side in (opened.answers.first, opened.answers.last):
        expect(side).to_have_attribute("data-state", "complete")
    expect(opened.page.locator("#conversation-title")).to_have_text(texts.COMPARED_TITLE)
    _to_the_top(opened)
    _shoot(opened.page, "chat-comparison")


def test_a_citation_opened_at_its_passage(asked: Open) -> None:
    opened = asked()
    opened.text.locator("a.cite").first.click()
    expect(opened.page.locator("#sources mark, .sources mark").first).to_be_visible()
    _to_the_top(opened)
    _shoot(opened.page, "chat-sources")


def test_search_over_ones_history(asked: Open) -> None:
    page = asked().page
    page.keyboard.press("Control+k")
    page.get_by_role("textbox", name="Search in titles, questions and answers").fill("days leave")
    expect(page.locator(".found-snippet mark").first).to_be_visible()
    _shoot(page, "chat-search")


def test_the_help_sheet(chat: Open) -> None:
    page = chat().page
    page.get_by_role("button", name="Keyboard shortcuts").click()
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    _shoot(page, "chat-shortcuts")


def test_a_shared_conversation(asked: Open, browser: Browser, gallery: Gallery) -> None:
    page = asked().page
    page.locator(".conversation[data-current]").hover()
    page.locator(".conversation[data-current] .conversation-more").click()
    page.get_by_role("menuitem", name="Share…").click()
    dialog = page.get_by_role("dialog", name="Share this conversation")
    dialog.get_by_role("button", name="Make a link").click()
    address = dialog.get_by_label("Link").input_value()
    context = gallery.chat.open(browser, width=DESK[0])
    session = {"name": settings.SESSION_COOKIE_NAME, "value": gallery.reader_session}
    context.add_cookies([{**session, "url": gallery.chat.site.root}])
    reader = context.new_page()
    reader.goto(address)
    expect(reader.locator(".shared")).to_be_visible()
    _shoot(reader, "chat-shared")
    context.close()


def test_an_exported_pdf(asked: Open) -> None:
    page = asked().page
    conversation = re.search(r"/chat/([0-9a-f-]{36})/", page.url)
    assert conversation
    answered = page.request.get(f"/t/meridian/chat/{conversation[1]}/export/pdf/")
    assert answered.ok
    document = pypdfium2.PdfDocument(answered.body())
    picture = document[0].render(scale=1.4).to_pil()
    document.close()
    _keep(picture.crop((0, 0, picture.width, int(picture.width * 1.1))), "chat-export")


def _writing(text: str) -> Behaviour:
    return Behaviour(tokens=tuple(re.findall(r"\s*\S+|\s+$", text)))


def _to_the_top(opened: ChatPage) -> None:
    opened.page.locator("#thread-scroll").evaluate("element => element.scrollTo(0, 0)")


def _shoot(page: Page, name: str) -> None:
    page.mouse.move(0, 0)
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(400)  # transitions
    _keep(Image.open(io.BytesIO(page.screenshot(animations="disabled", caret="hide"))), name)


def _keep(picture: Image.Image, name: str) -> None:
    """Without loss where that is small enough."""
    path = FOLDER / f"{name}.webp"
    picture.convert("RGB").save(path, lossless=True, quality=100, method=6)
    if path.stat().st_size > MOST_BYTES:
        picture.convert("RGB").save(path, quality=82, method=6)
    assert path.stat().st_size <= MOST_BYTES, f"{name} takes {path.stat().st_size} bytes"


def _furnish(models: dict[str, str]) -> tuple[str, str]:
    """Sessions of the one who asks and of the one who reads."""
    tenant = Tenant.objects.create(slug="meridian", name="Meridian Instruments")
    people = [make_user("amira"), make_user("jonas")]
    for user in people:
        Membership.objects.create(tenant=tenant, user=user, role=Role.CORPUS_ADMIN)
    with _embedding():
        for collection, name, passages in texts.LIBRARY:
            _add(tenant, collection, name, passages)
    for place, (label, url) in enumerate(models.items()):
        upstream = GatewayUpstream.objects.create(name=label, kind="tgi", url=url)
        model = GatewayModel.objects.create(
            alias=label.split()[0].lower(), label=label, position=place
        )
        GatewayRoute.objects.create(model=model, upstream=upstream)
    asker, reader = (str(signed_in(u).cookies[settings.SESSION_COOKIE_NAME].value) for u in people)
    connections["default"].close()
    return asker, reader


def _add(tenant: Tenant, collection: str, name: str, passages: tuple[tuple[str, str], ...]) -> None:
    made, document = add_document(tenant, tuple(text for _, text in passages), name=name)
    with tenant_scope(tenant.id):
        Collection.objects.filter(tenant=tenant, id=made.id).update(name=collection)
        for ordinal, (headings, _) in enumerate(passages):
            chunks = Chunk.objects.filter(tenant=tenant, document=document, ordinal=ordinal)
            chunks.update(heading_path=headings)


def _history() -> None:
    """The conversations of before, and no others."""
    tenant = Tenant.objects.get(slug="meridian")
    user = User.objects.get(username="amira")
    with tenant_scope(tenant.id):
        Conversation.objects.filter(tenant=tenant).delete()
        folder, _ = Folder.objects.get_or_create(tenant=tenant, user=user, name="Travel")
    for title, days, within, question, answer in texts.OLDER:
        made = converse(
            tenant, user, title, ago=timedelta(days=days), folder=folder if within else None
        )
        with tenant_scope(tenant.id):
            values = {"tenant": tenant, "conversation": made}
            asked = Message.objects.create(**values, role=MessageRole.QUESTION, text=question)
            Message.objects.create(
                **values, role=MessageRole.ANSWER, text=answer, in_reply_to=asked.id
            )
    connections["default"].close()
