"""Tags of documents: as they are typed, sent and inherited."""

from __future__ import annotations

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import reverse

from apps.documents.errors import TagsRefused
from apps.documents.models import Collection, Document
from apps.documents.selectors import kinds_in, tags_in
from apps.documents.services import clean_tags, receive_upload, set_tags, split_tags
from apps.tenants.scope import tenant_scope
from tests.cast import Cast, signed_in
from tests.evals.uploads import write_document
from tests.retrieval.corpus import make_collection

HOSTILE = '"><script>alert(1)</script>'


@pytest.mark.parametrize(
    ("typed", "tags"),
    [
        ("", []),
        (" ; ,, \n", []),
        ("B, a;A\nb", ["a", "b"]),
        ("  two   words ,STRASSE, straße", ["strasse", "two words"]),
        ("naïve, 日本語, emoji 🎉", ["emoji 🎉", "naïve", "日本語"]),
        ("a\0b, \u202egpj.exe", ["a b", "gpj.exe"]),
        (HOSTILE, [HOSTILE]),
    ],
)
def test_tags_as_they_are_typed(typed: str, tags: list[str]) -> None:
    assert split_tags(typed) == tags


@pytest.mark.parametrize(
    "tags", [["x" * 51], [f"tag {number}" for number in range(21)], ["ß" * 26]]
)
def test_too_many_or_too_long_are_refused(tags: list[str]) -> None:
    with pytest.raises(TagsRefused):
        clean_tags(tags)


@pytest.mark.django_db
class TestPages:
    @pytest.fixture
    def collection(self, cast: Cast) -> Collection:
        return make_collection(cast.acme)

    @pytest.fixture
    def guide(self, collection: Collection) -> Document:
        return write_document(collection, "guide.md", ["Text."])

    def tag(self, browser: object, document: Document, typed: str, *, htmx: bool = False) -> str:
        url = reverse("documents:tag", args=["acme", document.collection_id, document.id])
        headers = {"HX-Request": "true"} if htmx else {}
        response = browser.post(url, {"tags": typed}, headers=headers, follow=True)  # type: ignore[attr-defined]
        return str(response.content.decode())

    def stored(self, document: Document) -> list[str]:
        with tenant_scope(document.tenant_id):
            return list(Document.objects.get(id=document.id).tags)

    @pytest.mark.parametrize("htmx", [True, False])
    def test_a_corpus_admin_changes_them(self, cast: Cast, guide: Document, htmx: bool) -> None:
        page = self.tag(signed_in(cast.carl), guide, f"New, {HOSTILE}", htmx=htmx)
        assert self.stored(guide) == [HOSTILE, "new"]
        assert HOSTILE not in page
        assert "&lt;script&gt;" in page

    @pytest.mark.parametrize("htmx", [True, False])
    def test_what_is_refused_is_said(self, cast: Cast, guide: Document, htmx: bool) -> None:
        assert "at most 50 characters" in self.tag(signed_in(cast.carl), guide, "x" * 60, htmx=htmx)
        assert self.stored(guide) == []

    def test_readers_see_them_and_do_not_change_them(self, cast: Cast, guide: Document) -> None:
        set_tags(tenant=cast.acme, document=guide, actor=None, tags=["seen"])
        bob = signed_in(cast.bob)
        page = bob.get(reverse("documents:document", args=["acme", guide.collection_id, guide.id]))
        assert "seen" in page.content.decode()
        assert "tags-form" not in page.content.decode()
        listed = bob.get(reverse("documents:collection", args=["acme", guide.collection_id]))
        assert "seen" in listed.content.decode()
        self.tag(bob, guide, "mine")
        assert self.stored(guide) == ["seen"]

    def test_the_next_version_has_those_of_the_one_before(
        self, cast: Cast, collection: Collection
    ) -> None:
        def send(data: bytes, tags: list[str]) -> Document:
            return receive_upload(
                tenant=cast.acme,
                collection=collection,
                user=None,
                path="a.txt",
                file=SimpleUploadedFile("a.txt", data),
                tags=tags,
            )

        assert send(b"one", ["First"]).tags == ["first"]
        assert send(b"two", []).tags == ["first"]
        assert send(b"three", ["third"]).tags == ["third"]

    def test_what_searches_can_be_narrowed_to(
        self, cast: Cast, collection: Collection, guide: Document
    ) -> None:
        set_tags(tenant=cast.acme, document=guide, actor=None, tags=["b", "a"])
        failed = write_document(collection, "b.md", state="failed")
        set_tags(tenant=cast.acme, document=failed, actor=None, tags=["unread"])
        with tenant_scope(cast.acme.id):
            Document.objects.filter(id=guide.id).update(kind="text/markdown")
            assert tags_in(cast.acme.id, [collection.id]) == ["a", "b"]
            assert kinds_in(cast.acme.id, [collection.id]) == ["text/markdown"]
            assert tags_in(cast.acme.id, []) == []
