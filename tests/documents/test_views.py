"""Documents pages, tried with clumsy hands and with hostile ones."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Sequence

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from apps.documents import passages, selectors, services
from apps.documents.models import (
    Batch,
    Chunk,
    Collection,
    CollectionReader,
    Document,
    DocumentState,
    Page,
)
from apps.tenants.models import Tenant, User
from apps.tenants.scope import tenant_scope
from tests.cast import Cast, signed_in
from worker.sandbox import SandboxRefused

pytestmark = pytest.mark.django_db

HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(1)>'

UNKNOWN = uuid.UUID(int=7)


def make_collection(
    tenant: Tenant,
    *,
    name: str = "Handbooks",
    open_to_all: bool = True,
    readers: Sequence[User] = (),
) -> Collection:
    return services.create_collection(
        tenant=tenant,
        user=None,
        name=name,
        open_to_all=open_to_all,
        reader_ids=[reader.pk for reader in readers],
    )


def address(name: str, *ids: object) -> str:
    return reverse(f"documents:{name}", args=["acme", *ids])


def send(
    client: Client, collection: Collection, data: bytes, name: str = "notes.txt"
) -> HttpResponse:
    file = SimpleUploadedFile(name, data)
    return client.post(address("upload", collection.id), {"file": file})


def make_document(
    client: Client,
    collection: Collection,
    data: bytes = b"Leave is 25 days.",
    name: str = "notes.txt",
) -> Document:
    answer = send(client, collection, data, name).json()
    with tenant_scope(collection.tenant_id):
        return Document.objects.get(id=answer["document"]["id"])


def set_state(document: Document, **fields: object) -> None:
    with tenant_scope(document.tenant_id):
        Document.objects.filter(id=document.id).update(**fields)


def listed(client: Client, collection: Collection) -> str:
    return client.get(address("document_list", collection.id)).content.decode()


class TestCollections:
    def test_an_empty_tenant_is_told_what_to_do_next(self, cast: Cast) -> None:
        page = signed_in(cast.carl).get(address("home")).content.decode()
        assert "Start with a collection" in page
        assert address("create_collection") in page

    def test_a_member_of_an_empty_tenant_is_not_offered_what_they_may_not_do(
        self, cast: Cast
    ) -> None:
        page = signed_in(cast.bob).get(address("home")).content.decode()
        assert "No collection is open to you yet" in page
        assert address("create_collection") not in page

    def test_a_corpus_admin_makes_a_collection_for_chosen_readers(self, cast: Cast) -> None:
        data = {
            "name": "Contracts",
            "description": "",
            "open_to_all": "False",
            "readers": [cast.bob.pk],
        }
        response = signed_in(cast.carl).post(address("create_collection"), data)
        with tenant_scope(cast.acme.id):
            made = Collection.objects.get(name="Contracts")
            readers = list(CollectionReader.objects.filter(collection=made))
        assert response["Location"] == address("collection", made.id)
        assert not made.open_to_all
        assert [reader.user_id for reader in readers] == [cast.bob.pk]

    def test_somebody_of_another_tenant_can_not_be_made_a_reader(self, cast: Cast) -> None:
        data = {"name": "X", "open_to_all": "False", "readers": [cast.mallory.pk]}
        response = signed_in(cast.carl).post(address("create_collection"), data)
        assert response.status_code == 200
        assert "Select a valid choice" in response.content.decode()

    def test_a_taken_name_is_said_beside_the_field(self, cast: Cast) -> None:
        make_collection(cast.acme, name="Handbooks")
        data = {"name": "Handbooks", "open_to_all": "True"}
        page = signed_in(cast.carl).post(address("create_collection"), data).content.decode()
        assert "Choose another name" in page

    def test_editing_keeps_what_was_there(self, cast: Cast) -> None:
        made = make_collection(cast.acme, open_to_all=False, readers=[cast.bob])
        page = signed_in(cast.carl).get(address("edit_collection", made.id)).content.decode()
        assert 'value="Handbooks"' in page
        assert re.search(rf'value="{cast.bob.pk}"[^>]*checked', page)

    def test_a_collection_goes_only_when_its_name_was_typed(self, cast: Cast) -> None:
        made = make_collection(cast.acme)
        client = signed_in(cast.carl)
        client.post(address("delete_collection", made.id), {"confirm": "handbook"})
        assert client.get(address("collection", made.id)).status_code == 200
        client.post(address("delete_collection", made.id), {"confirm": "Handbooks"})
        assert client.get(address("collection", made.id)).status_code == 404

    def test_a_collection_for_chosen_readers_is_hidden_from_the_others(self, cast: Cast) -> None:
        made = make_collection(cast.acme, open_to_all=False)
        bob = signed_in(cast.bob)
        assert made.name not in bob.get(address("home")).content.decode()
        assert bob.get(address("collection", made.id)).status_code == 404
        document = make_document(signed_in(cast.carl), made)
        for name in ("document", "download", "document_state"):
            assert bob.get(address(name, made.id, document.id)).status_code == 404
        assert bob.get(address("page_image", document.id, 1)).status_code == 404

    def test_a_chosen_reader_gets_in(self, cast: Cast) -> None:
        made = make_collection(cast.acme, open_to_all=False, readers=[cast.bob])
        assert signed_in(cast.bob).get(address("collection", made.id)).status_code == 200

    def test_counts_say_how_the_documents_stand(self, cast: Cast) -> None:
        made, carl = make_collection(cast.acme), signed_in(cast.carl)
        set_state(make_document(carl, made, b"one"), state=DocumentState.READY)
        make_document(carl, made, b"two")
        page = carl.get(address("home")).content.decode()
        assert "1 ready" in page
        assert "1 on the way" in page


class TestUploads:
    def test_a_file_is_received(self, cast: Cast) -> None:
        made = make_collection(cast.acme)
        response = send(signed_in(cast.carl), made, b"Leave is 25 days.")
        assert response.status_code == 201
        assert response.json()["document"]["state"] == DocumentState.RECEIVED

    def test_a_member_may_not_upload(self, cast: Cast) -> None:
        assert send(signed_in(cast.bob), make_collection(cast.acme), b"x").status_code == 403

    def test_the_page_offers_a_member_no_upload(self, cast: Cast) -> None:
        made = make_collection(cast.acme)
        page = signed_in(cast.bob).get(address("collection", made.id)).content.decode()
        assert address("upload", made.id) not in page

    @pytest.mark.parametrize(
        ("data", "status", "code"), [(b"", 400, "empty"), (b"x" * 2000, 413, "too_large")]
    )
    def test_a_bad_file_is_refused_in_words(
        self, cast: Cast, settings: Settings, data: bytes, status: int, code: str
    ) -> None:
        settings.UPLOAD_MAX_BYTES = 1024
        made, carl = make_collection(cast.acme), signed_in(cast.carl)
        response = send(carl, made, data)
        assert response.status_code == status
        assert response.json()["error"]["code"] == code
        assert response.json()["error"]["message"]
        assert "No documents yet" in listed(carl, made)

    def test_the_same_bytes_are_recognised(self, cast: Cast) -> None:
        made, carl = make_collection(cast.acme), signed_in(cast.carl)
        first = make_document(carl, made, b"same")
        response = send(carl, made, b"same", name="copy.txt")
        assert response.status_code == 409
        assert response.json()["error"]["document"] == str(first.id)
        assert "notes.txt" in response.json()["error"]["message"]

    def test_an_upload_that_was_cut_off_leaves_nothing(self, cast: Cast) -> None:
        made, carl = make_collection(cast.acme), signed_in(cast.carl)
        body = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\nhal'
        kind = "multipart/form-data; boundary=b"
        response = carl.post(address("upload", made.id), body, content_type=kind)
        assert response.status_code in (201, 400)  # a body with no end is a whole file to Django
        response = carl.post(address("upload", made.id), b"", content_type=kind)
        assert response.status_code == 400

    def test_a_form_without_a_file_is_told_so(self, cast: Cast) -> None:
        made = make_collection(cast.acme)
        response = signed_in(cast.carl).post(address("upload", made.id), {"file": "text"})
        assert response.status_code == 400
        assert response.json()["error"]["code"] == "no_file"

    @pytest.mark.parametrize(
        "name",
        [
            f"{HOSTILE}.txt",
            "../../etc/passwd",
            "..\\..\\boot.ini",
            "a\x00b.txt",
            "x" * 300 + ".txt",
            "{{ 7|add:7 }}.txt",
            "invoice\u202efdp.exe",
            " . ",
        ],
    )
    def test_hostile_names_are_shown_as_text(self, cast: Cast, name: str) -> None:
        made, carl = make_collection(cast.acme), signed_in(cast.carl)
        assert send(carl, made, b"text", name=name).status_code in (201, 400)
        page = listed(carl, made)
        assert "<script>" not in page
        assert "<img" not in page
        assert "\u202e" not in page
        assert "/etc/" not in page

    def test_a_hostile_name_in_the_database_is_escaped_everywhere(self, cast: Cast) -> None:
        made, carl = make_collection(cast.acme, name=HOSTILE), signed_in(cast.carl)
        document = make_document(carl, made)
        set_state(document, name=HOSTILE, state="failed", error_message=HOSTILE)
        for page in (
            listed(carl, made),
            carl.get(address("home")).content.decode(),
            carl.get(address("collection", made.id)).content.decode(),
            carl.get(address("edit_collection", made.id)).content.decode(),
            carl.get(address("document", made.id, document.id)).content.decode(),
        ):
            assert "<script>alert" not in page
            assert "<img src=x" not in page


class TestBatches:
    def open(self, client: Client, collection: Collection, expected: object = 3) -> str:
        url = address("open_batch", collection.id)
        answer = client.post(url, {"expected": expected})
        assert answer.status_code == 201
        return str(answer.json()["batch"]["id"])

    def send(
        self, client: Client, collection: Collection, batch: str, *files: tuple[str, bytes]
    ) -> HttpResponse:
        return client.post(
            address("send_files", collection.id, batch),
            {
                "file": [SimpleUploadedFile(path.split("/")[-1], data) for path, data in files],
                "path": [path for path, _ in files],
            },
        )

    def test_files_of_a_folder_keep_their_paths(self, cast: Cast) -> None:
        made, carl = make_collection(cast.acme), signed_in(cast.carl)
        batch = self.open(carl, made)
        answer = self.send(carl, made, batch, ("rules/a.txt", b"one"), ("rules/b.txt", b"two"))
        assert [each["document"]["version"] for each in answer.json()["results"]] == [1, 1]
        with tenant_scope(cast.acme.id):
            stored = Document.objects.filter(batch_id=batch).order_by("path")
            assert [each.path for each in stored] == ["rules/a.txt", "rules/b.txt"]
            assert Batch.objects.get(id=batch).expected == 3
        assert "rules" in listed(carl, made)

    def test_one_bad_file_takes_nothing_of_the_others_along(self, cast: Cast) -> None:
        made, carl = make_collection(cast.acme), signed_in(cast.carl)
        files = ("a.txt", b"one"), ("empty.txt", b""), ("b.txt", b"two")
        results = self.send(carl, made, self.open(carl, made), *files).json()["results"]
        assert [sorted(each) for each in results] == [["document"], ["error"], ["document"]]
        assert results[1]["error"]["code"] == "empty"

    def test_the_same_bytes_are_unchanged_and_no_error(self, cast: Cast) -> None:
        made, carl = make_collection(cast.acme), signed_in(cast.carl)
        for expected in (None, True):
            batch = self.open(carl, made)
            (result,) = self.send(carl, made, batch, ("a.txt", b"one")).json()["results"]
            assert result.get("unchanged") == expected
        with tenant_scope(cast.acme.id):
            assert Batch.objects.get(id=batch).unchanged == 1
            assert Document.objects.count() == 1

    def test_other_bytes_under_a_known_path_are_told_to_be_its_next_version(
        self, cast: Cast
    ) -> None:
        made, carl = make_collection(cast.acme), signed_in(cast.carl)
        self.send(carl, made, self.open(carl, made), ("a.txt", b"one"))
        answer = self.send(carl, made, self.open(carl, made), ("a.txt", b"two"))
        assert answer.json()["results"][0]["document"]["version"] == 2

    @pytest.mark.parametrize("expected", ["", "-1", "x", "9" * 40, "1.5"])
    def test_a_number_that_is_none_is_no_error(self, cast: Cast, expected: str) -> None:
        made, carl = make_collection(cast.acme), signed_in(cast.carl)
        self.open(carl, made, expected)

    def test_files_without_their_paths_are_refused(self, cast: Cast) -> None:
        made, carl = make_collection(cast.acme), signed_in(cast.carl)
        url = address("send_files", made.id, self.open(carl, made))
        file = SimpleUploadedFile("a.txt", b"x")
        for data in ({}, {"file": file}, {"path": "a.txt"}):
            assert carl.post(url, data).status_code == 400

    def test_a_batch_is_of_its_own_collection_only(self, cast: Cast) -> None:
        carl = signed_in(cast.carl)
        one, other = make_collection(cast.acme), make_collection(cast.acme, name="Other")
        batch = self.open(carl, one)
        assert self.send(carl, other, batch, ("a.txt", b"x")).status_code == 404

    @pytest.mark.parametrize(
        "path", ["../../etc/passwd", "/etc/passwd", "C:\\boot.ini", "a/../../b", "\u202egpj.exe"]
    )
    def test_hostile_paths_lead_nowhere(self, cast: Cast, path: str) -> None:
        made, carl = make_collection(cast.acme), signed_in(cast.carl)
        self.send(carl, made, self.open(carl, made), (path, b"text"))
        with tenant_scope(cast.acme.id):
            stored = Document.objects.get().path
        assert not stored.startswith("/")
        assert ".." not in stored
        assert "\u202e" not in stored

    def test_a_member_may_neither_open_one_nor_send(self, cast: Cast) -> None:
        made = make_collection(cast.acme)
        batch = self.open(signed_in(cast.carl), made)
        bob = signed_in(cast.bob)
        assert bob.post(address("open_batch", made.id)).status_code == 403
        assert self.send(bob, made, batch, ("a.txt", b"x")).status_code == 403


class TestTheList:
    def test_it_asks_again_while_a_document_is_on_its_way(self, cast: Cast) -> None:
        made, carl = make_collection(cast.acme), signed_in(cast.carl)
        document = make_document(carl, made)
        set_state(document, state="indexing", progress_done=3, progress_total=12)
        page = listed(carl, made)
        assert 'hx-trigger="every 2s"' in page
        assert '<progress max="12" value="3"' in page

    def test_it_stops_asking_when_all_are_done(self, cast: Cast) -> None:
        made, carl = make_collection(cast.acme), signed_in(cast.carl)
        set_state(make_document(carl, made), state="ready")
        assert "hx-trigger" not in listed(carl, made)

    def test_a_failure_says_why_and_can_be_tried_again(self, cast: Cast) -> None:
        made, carl = make_collection(cast.acme), signed_in(cast.carl)
        document = make_document(carl, made)
        set_state(document, state="failed", error_message="The file needs a password.")
        retry = address("retry", made.id, document.id)
        assert "The file needs a password." in listed(carl, made)
        assert retry in listed(carl, made)
        page = carl.post(retry, headers={"HX-Request": "true"}).content.decode()
        assert "Received" in page
        assert "password" not in page

    def test_a_member_sees_why_but_is_offered_no_change(self, cast: Cast) -> None:
        made = make_collection(cast.acme)
        document = make_document(signed_in(cast.carl), made)
        set_state(document, state="failed", error_message="The file needs a password.")
        page = listed(signed_in(cast.bob), made)
        assert "The file needs a password." in page
        assert address("retry", made.id, document.id) not in page
        assert address("delete", made.id, document.id) not in page

    def test_failures_are_grouped_and_a_group_is_tried_again(self, cast: Cast) -> None:
        made, carl = make_collection(cast.acme), signed_in(cast.carl)
        for n, code in enumerate(("archive", "archive", "damaged")):
            document = make_document(carl, made, b"%d" % n, name=f"{n}.txt")
            set_state(document, state="failed", error_code=code, error_message=f"{code}!")
        page = carl.get(address("collection", made.id)).content.decode()
        assert "3 documents could not be read" in page
        assert "Retry all 2" in page
        carl.post(address("retry_failed", made.id), {"code": "archive"})
        assert states_of(made) == ["failed", "received", "received"]
        carl.post(address("retry_failed", made.id))
        assert states_of(made) == ["received"] * 3

    def test_a_member_is_not_offered_to_retry_them(self, cast: Cast) -> None:
        made = make_collection(cast.acme)
        set_state(make_document(signed_in(cast.carl), made), state="failed", error_code="damaged")
        bob = signed_in(cast.bob)
        assert (
            address("retry_failed", made.id)
            not in bob.get(address("collection", made.id)).content.decode()
        )
        assert bob.post(address("retry_failed", made.id)).status_code == 403

    def test_it_is_filtered_by_what_the_address_says(self, cast: Cast) -> None:
        made, carl = make_collection(cast.acme), signed_in(cast.carl)
        make_document(carl, made, b"1", name="plan.txt")
        set_state(make_document(carl, made, b"2", name="rules.txt"), state="ready")
        url = address("document_list", made.id)
        for query, found, missing in (
            ("?state=ready", "rules.txt", "plan.txt"),
            ("?q=PLA", "plan.txt", "rules.txt"),
        ):
            page = carl.get(url + query).content.decode()
            assert found in page
            assert missing not in page
        assert "Nothing like that here" in carl.get(url + "?q=zzz").content.decode()

    def test_a_filter_is_kept_while_it_asks_again(self, cast: Cast) -> None:
        made, carl = make_collection(cast.acme), signed_in(cast.carl)
        make_document(carl, made)
        response = carl.get(address("document_list", made.id) + "?filtered=1&q=a%26b%22")
        assert "q=a%26b%22&amp;page=1" in response.content.decode()
        assert response["HX-Replace-Url"].endswith("?q=a%26b%22")

    def test_what_a_document_waits_for_is_said(self, cast: Cast) -> None:
        made, carl = make_collection(cast.acme), signed_in(cast.carl)
        document = make_document(carl, made)
        set_state(document, error_code="embedder_unavailable", error_message="The encoder is away.")
        assert "Waits: The encoder is away." in listed(carl, made)
        assert (
            "1 held up: The encoder is away."
            in carl.get(address("collection", made.id)).content.decode()
        )

    def test_a_document_whose_next_version_is_on_its_way_is_one_row(self, cast: Cast) -> None:
        made, carl = make_collection(cast.acme), signed_in(cast.carl)
        set_state(make_document(carl, made, b"one"), state="ready")
        make_document(carl, made, b"two")
        page = listed(carl, made)
        assert page.count('<tr id="document-') == 1
        assert "Version 1 answers until this one is ready." in page


def states_of(collection: Collection) -> list[str]:
    with tenant_scope(collection.tenant_id):
        rows = Document.objects.filter(collection=collection)
        return sorted(rows.values_list("state", flat=True))


class TestADocument:
    def test_a_download_is_a_file_and_never_a_page(self, cast: Cast) -> None:
        made, carl = make_collection(cast.acme), signed_in(cast.carl)
        answer = send(carl, made, b"<script>alert(1)</script>", name="evil.html").json()
        response = carl.get(address("download", made.id, answer["document"]["id"]))
        assert b"".join(response.streaming_content) == b"<script>alert(1)</script>"  # type: ignore[attr-defined]
        assert response["Content-Disposition"].startswith("attachment")
        assert response["X-Content-Type-Options"] == "nosniff"
        assert response["Content-Type"] == "application/octet-stream"

    def test_its_text_is_shown_escaped(self, cast: Cast) -> None:
        made, carl = make_collection(cast.acme), signed_in(cast.carl)
        document = make_document(carl, made)
        with tenant_scope(cast.acme.id):
            Page.objects.create(
                tenant=cast.acme, document=document, number=1, text=HOSTILE, char_start=0
            )
        set_state(document, state="ready", page_count=1)
        page = carl.get(address("document", made.id, document.id)).content.decode()
        assert "&lt;script&gt;alert(1)" in page
        assert "<script>alert" not in page

    @pytest.mark.parametrize("query", ["?at=45", "?at=0", "?at=x", "?part=99", "?at=" + "9" * 40])
    def test_a_part_is_found_by_its_page_whatever_is_asked(self, cast: Cast, query: str) -> None:
        made, carl = make_collection(cast.acme), signed_in(cast.carl)
        document = make_document(carl, made)
        with tenant_scope(cast.acme.id):
            Page.objects.bulk_create(
                Page(tenant=cast.acme, document=document, number=n, text=f"t{n}", char_start=n)
                for n in range(1, 51)
            )
        set_state(document, page_count=50)
        page = carl.get(address("document", made.id, document.id) + query)
        assert page.status_code == 200
        assert ('id="page-45"' in page.content.decode()) == (query in ("?at=45", "?part=99"))

    def test_a_page_that_waits_for_it_is_refreshed_when_it_is_done(self, cast: Cast) -> None:
        made, carl = make_collection(cast.acme), signed_in(cast.carl)
        document = make_document(carl, made)
        state = address("document_state", made.id, document.id)
        assert "HX-Refresh" not in carl.get(state)
        set_state(document, state="ready")
        assert carl.get(state)["HX-Refresh"] == "true"

    def test_deleting_takes_it_off_the_list(self, cast: Cast) -> None:
        made, carl = make_collection(cast.acme), signed_in(cast.carl)
        document = make_document(carl, made)
        carl.post(address("delete", made.id, document.id))
        assert carl.get(address("document", made.id, document.id)).status_code == 404

    def test_it_is_not_found_under_another_collection(self, cast: Cast) -> None:
        carl = signed_in(cast.carl)
        one, other = make_collection(cast.acme), make_collection(cast.acme, name="Other")
        document = make_document(carl, one)
        for name in ("document", "download"):
            assert carl.get(address(name, other.id, document.id)).status_code == 404
        assert carl.post(address("delete", other.id, document.id)).status_code == 404

    def test_kinds_without_pages_have_no_page_image(self, cast: Cast) -> None:
        carl = signed_in(cast.carl)
        document = make_document(carl, make_collection(cast.acme))
        assert carl.get(address("page_image", document.id, 1)).status_code == 404


class TestPassages:
    """Text as the pages show it beside the passages it was cut into."""

    TEXT = "One two. Three four. Five six."

    @pytest.fixture
    def document(self, cast: Cast) -> Document:
        """Two passages that share "Three four.", and a last sentence that is in none."""
        made = make_document(signed_in(cast.carl), make_collection(cast.acme))
        with tenant_scope(cast.acme.id):
            Page.objects.create(
                tenant=cast.acme, document=made, number=1, text=self.TEXT, char_start=0
            )
            for ordinal, (start, end) in enumerate(((0, 20), (9, 20))):
                Chunk.objects.create(
                    tenant=cast.acme,
                    document=made,
                    ordinal=ordinal,
                    text=self.TEXT[start:end],
                    heading_path=f"Part {HOSTILE}",
                    char_start=start,
                    char_end=end,
                    page_first=1,
                    page_last=1,
                    token_count=7,
                )
        set_state(made, state="ready", page_count=1, chunk_count=2)
        return made

    def page(self, cast: Cast, document: Document, query: str = "") -> str:
        url = address("document", document.collection_id, document.id)
        return signed_in(cast.bob).get(url + query).content.decode()

    def test_boundaries_overlaps_and_what_is_left_out_are_told(
        self, cast: Cast, document: Document
    ) -> None:
        with tenant_scope(cast.acme.id):
            part = passages.read_part(Document.objects.get(id=document.id))
        (page,) = part.pages
        found = [(each.text, [c.ordinal for c in each.chunks]) for each in page.segments]
        assert found == [("One two. ", [0]), ("Three four.", [0, 1]), (" Five six.", [])]
        assert "in passages 1 and 2" in self.page(cast, document)
        assert "7 tokens" in self.page(cast, document)

    def test_the_text_is_whole_and_escaped(self, cast: Cast, document: Document) -> None:
        page = self.page(cast, document)
        shown = re.sub(r'<span class="passage-mark".*?</span></span>', "", page)
        body = re.search(r'<div class="page-text"[^>]*>(.*?)</div>', shown, re.DOTALL)
        assert body is not None
        assert re.sub(r"<[^>]+>", "", body[1]) == self.TEXT
        assert "<script>alert" not in page

    def test_a_passage_is_marked_on_its_page(self, cast: Cast, document: Document) -> None:
        with tenant_scope(cast.acme.id):
            chunk = Chunk.objects.get(document=document, ordinal=1)
        page = self.page(cast, document, f"?passage={chunk.id}")
        assert "<mark>Three four.</mark>" in page
        assert f'id="passage-{chunk.id}"' in page

    @pytest.mark.parametrize("query", ["?passage=x", f"?passage={UNKNOWN}", "?passage="])
    def test_an_unknown_passage_is_not_marked(
        self, cast: Cast, document: Document, query: str
    ) -> None:
        assert "<mark>" not in self.page(cast, document, query)

    def test_a_document_of_many_passages_reads_those_of_its_pages_only(
        self, cast: Cast, document: Document
    ) -> None:
        with tenant_scope(cast.acme.id):
            Chunk.objects.filter(document=document).delete()
            Page.objects.filter(document=document).delete()
            Page.objects.bulk_create(
                Page(
                    tenant=cast.acme, document=document, number=n, text="x" * 10, char_start=n * 10
                )
                for n in range(1, 1001)
            )
            Chunk.objects.bulk_create(
                Chunk(
                    tenant=cast.acme,
                    document=document,
                    ordinal=n,
                    text="x",
                    char_start=10 + n * 5,
                    char_end=15 + n * 5,
                    page_first=1 + n // 2,
                    page_last=1 + n // 2,
                    token_count=1,
                )
                for n in range(2000)
            )
            set_state(document, page_count=1000, chunk_count=2000)
            found = Document.objects.get(id=document.id)
            chunks = selectors.chunks_between(found, 401, 420)
            assert [chunks[0].ordinal, chunks[-1].ordinal, len(chunks)] == [800, 839, 40]
            part = passages.read_part(found, at=405)
        assert (part.number, part.pages[0].number, part.parts) == (21, 401, 50)
        assert all(len(page.segments) == 2 for page in part.pages)

    def test_long_pages_come_fewer_at_a_time(self, cast: Cast, document: Document) -> None:
        with tenant_scope(cast.acme.id):
            Page.objects.filter(document=document).delete()
            Page.objects.bulk_create(
                Page(tenant=cast.acme, document=document, number=n, text="", char_start=n * 50_000)
                for n in range(1, 11)
            )
            set_state(document, page_count=10, chunk_count=0)
            part = passages.read_part(Document.objects.get(id=document.id))
        assert (len(part.pages), part.parts) == (1, 10)

    def test_a_page_of_thousands_of_passages_is_cut_in_one_sweep(
        self, cast: Cast, document: Document
    ) -> None:
        page = Page(number=1, text="ab " * 20_000, char_start=0)
        chunks = [Chunk(ordinal=n, char_start=n * 9, char_end=n * 9 + 12) for n in range(6_000)]
        start = time.perf_counter()
        segments = passages.cut(page, chunks).segments
        assert time.perf_counter() - start < 2
        assert "".join(each.text for each in segments) == page.text


class TestHelp:
    """What a document that could not be read is offered, by the reason."""

    def failed(self, cast: Cast, code: str, **fields: object) -> Document:
        made = make_document(signed_in(cast.carl), make_collection(cast.acme))
        set_state(made, state="failed", error_code=code, error_message=f"{code}!", **fields)
        return made

    def page(self, client: Client, document: Document) -> str:
        url = address("document", document.collection_id, document.id)
        return client.get(url).content.decode()

    def post(self, cast: Cast, name: str, document: Document, **data: str) -> HttpResponse:
        url = address(name, document.collection_id, document.id)
        return signed_in(cast.carl).post(url, data)

    def reload(self, document: Document) -> Document:
        with tenant_scope(document.tenant_id):
            return Document.objects.get(id=document.id)

    @pytest.mark.parametrize("password", ["  four  ", "    ", "p\u00e4\u00df wort", "a" * 1024])
    def test_a_password_is_handed_on_as_typed(
        self, cast: Cast, monkeypatch: pytest.MonkeyPatch, password: str
    ) -> None:
        handed: list[object] = []
        monkeypatch.setattr(
            services, "unlock_document", lambda **given: handed.append(given["password"])
        )
        document = self.failed(cast, "password")
        assert self.post(cast, "unlock", document, password=password).status_code == 302
        assert handed == [password]

    def test_a_wrong_password_is_said_and_not_shown_again(
        self, cast: Cast, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(**_: object) -> None:
            raise SandboxRefused("wrong_password", "The password does not open this file.")

        monkeypatch.setattr(services, "unlock_document", refuse)
        document = self.failed(cast, "password")
        page = self.post(cast, "unlock", document, password="sesame-4711").content.decode()
        assert "does not open this file" in page
        assert "sesame-4711" not in page
        found = self.reload(document)
        assert (found.state, found.error_code) == ("failed", "password")

    @pytest.mark.parametrize("password", ["", "a\x00b", "a" * 2000])
    def test_what_can_be_no_password_is_refused_in_words(self, cast: Cast, password: str) -> None:
        document = self.failed(cast, "password")
        response = self.post(cast, "unlock", document, password=password)
        assert "errorlist" in response.content.decode()
        assert self.reload(document).state == "failed"

    def test_a_document_that_needs_none_is_not_unlocked(self, cast: Cast) -> None:
        document = self.failed(cast, "damaged")
        page = self.post(cast, "unlock", document, password="x").content.decode()
        assert "'password'" not in page
        assert self.reload(document).state == "failed"

    def test_the_password_is_in_no_report_of_a_fault(
        self, cast: Cast, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What Django writes down of a request that broke."""

        def break_down(**_: object) -> None:
            raise RuntimeError("broken")

        monkeypatch.setattr(services, "unlock_document", break_down)
        document = self.failed(cast, "password")
        url = address("unlock", document.collection_id, document.id)
        client = signed_in(cast.carl)
        client.raise_request_exception = False
        response = client.post(url, {"password": "sesame-4711"})
        request = response.wsgi_request
        assert response.status_code == 500
        assert request.sensitive_post_parameters == ("password",)

    def test_an_encoding_is_chosen_from_those_that_are_known(self, cast: Cast) -> None:
        document = self.failed(cast, "encoding")
        assert "Cyrillic (KOI8-R)" in self.page(signed_in(cast.carl), document)
        for wrong in ("", "hex", "../x"):
            self.post(cast, "decode", document, encoding=wrong)
            assert self.reload(document).state == "failed"
        self.post(cast, "decode", document, encoding="koi8-r")
        found = self.reload(document)
        assert (found.state, found.encoding) == ("received", "koi8-r")

    def test_a_ready_text_can_be_read_with_another_encoding(self, cast: Cast) -> None:
        document = self.failed(cast, "")
        set_state(document, state="ready", kind="text/plain", error_code="", error_message="")
        assert "Read with another encoding" in self.page(signed_in(cast.carl), document)
        assert "Read with another encoding" not in self.page(signed_in(cast.bob), document)
        self.post(cast, "decode", document, encoding="cp1251")
        assert self.reload(document).encoding == "cp1251"

    def test_recognition_is_offered_where_there_is_some(
        self, cast: Cast, settings: Settings
    ) -> None:
        document = self.failed(cast, "no_text")
        carl = signed_in(cast.carl)
        settings.OCR = "off"
        assert "installs Tesseract" in self.page(carl, document)
        self.post(cast, "retry", document, ocr="1")
        assert not self.reload(document).ocr
        set_state(document, state="failed", error_code="no_text")
        settings.OCR = "on"
        assert "Recognise the text" in self.page(carl, document)
        self.post(cast, "retry", document, ocr="1")
        assert self.reload(document).ocr

    def test_recognition_that_found_nothing_is_not_offered_again(
        self, cast: Cast, settings: Settings
    ) -> None:
        settings.OCR = "on"
        document = self.failed(cast, "no_text", ocr=True)
        page = self.page(signed_in(cast.carl), document)
        assert "Recognition was tried" in page
        assert 'name="ocr"' not in page

    @pytest.mark.parametrize("code", ["password", "encoding", "no_text", "damaged"])
    def test_a_member_sees_the_reason_and_no_form(
        self, cast: Cast, settings: Settings, code: str
    ) -> None:
        settings.OCR = "on"
        document = self.failed(cast, code)
        page = self.page(signed_in(cast.bob), document)
        assert f"{code}!" in page
        for name in ("unlock", "decode", "retry"):
            assert address(name, document.collection_id, document.id) not in page


class TestVersions:
    @pytest.fixture
    def versions(self, cast: Cast) -> tuple[Document, Document]:
        """A ready one, replaced by another that is ready too."""
        made, carl = make_collection(cast.acme), signed_in(cast.carl)
        old = make_document(carl, made, b"one")
        new = make_document(carl, made, b"two")
        set_state(old, state="superseded")
        set_state(new, state="ready", ready_at="2026-01-01T00:00Z")
        return old, new

    def page(self, cast: Cast, document: Document) -> str:
        url = address("document", document.collection_id, document.id)
        return signed_in(cast.bob).get(url).content.decode()

    def test_each_leads_to_the_others(
        self, cast: Cast, versions: tuple[Document, Document]
    ) -> None:
        for shown in versions:
            page = self.page(cast, shown)
            assert "of 2" in page
            for each in versions:
                assert address("document", each.collection_id, each.id) in page

    def test_an_old_one_opens_and_says_that_a_newer_one_answers(
        self, cast: Cast, versions: tuple[Document, Document]
    ) -> None:
        old, new = versions
        assert "Questions are answered from" in self.page(cast, old)
        assert "version 2 of" in self.page(cast, old)
        assert "Questions are answered from" not in self.page(cast, new)

    def test_one_that_still_answers_says_what_is_on_its_way(
        self, cast: Cast, versions: tuple[Document, Document]
    ) -> None:
        old, new = versions
        set_state(old, state="ready")
        set_state(new, state="parsing", ready_at=None)
        assert "this one answers until it is ready" in self.page(cast, old)
        assert "Until then version 1 answers." in self.page(cast, new)
        set_state(new, state="failed", error_code="damaged")
        assert "A newer version could not be read" in self.page(cast, old)
        assert "Version 1 answers until this one is ready." in self.page(cast, new)

    def test_only_the_newest_is_listed(
        self, cast: Cast, versions: tuple[Document, Document]
    ) -> None:
        old, new = versions
        url = address("document_list", old.collection_id)
        page = signed_in(cast.bob).get(url).content.decode()
        assert f"document-{new.id}" in page
        assert f"document-{old.id}" not in page


class TestOtherTenants:
    def test_ids_of_another_tenant_lead_nowhere(self, cast: Cast) -> None:
        made = make_collection(cast.acme)
        document = make_document(signed_in(cast.carl), made)
        mallory = signed_in(cast.mallory)
        for slug, expected in (("acme", 404), ("rival", 404)):
            for name, ids in (
                ("collection", [made.id]),
                ("document_list", [made.id]),
                ("edit_collection", [made.id]),
                ("document", [made.id, document.id]),
                ("download", [made.id, document.id]),
                ("page_image", [document.id, 1]),
            ):
                url = reverse(f"documents:{name}", args=[slug, *ids])
                assert mallory.get(url).status_code == expected, url
            for name in ("retry", "delete"):
                url = reverse(f"documents:{name}", args=[slug, made.id, document.id])
                assert mallory.post(url).status_code == expected, url

    def test_an_upload_into_another_tenants_collection_is_refused(self, cast: Cast) -> None:
        made = make_collection(cast.acme)
        url = reverse("documents:upload", args=["rival", made.id])
        file = SimpleUploadedFile("a.txt", b"x")
        assert signed_in(cast.mallory).post(url, {"file": file}).status_code == 404

    def test_unknown_ids_are_not_found(self, cast: Cast) -> None:
        carl = signed_in(cast.carl)
        assert carl.get(address("collection", uuid.uuid4())).status_code == 404
        assert carl.get(address("page_image", uuid.uuid4(), 1)).status_code == 404


def test_pages_carry_no_inline_script_or_style(cast: Cast) -> None:
    made, carl = make_collection(cast.acme), signed_in(cast.carl)
    document = make_document(carl, made)
    for url in (
        address("home"),
        address("create_collection"),
        address("collection", made.id),
        address("edit_collection", made.id),
        address("document", made.id, document.id),
    ):
        response = carl.get(url)
        page = response.content.decode()
        assert "script-src 'self'" in response["Content-Security-Policy"]
        assert not re.search(r"<script(?![^>]*\ssrc=)", page), url
        assert not re.search(r"\s(style|on\w+)=", page), url
        assert "<style" not in page
