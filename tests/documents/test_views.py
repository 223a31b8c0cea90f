"""Documents pages, tried with clumsy hands and with hostile ones."""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from apps.documents import services
from apps.documents.models import Collection, CollectionReader, Document, DocumentState, Page
from apps.tenants.models import Tenant, User
from apps.tenants.scope import tenant_scope
from tests.cast import Cast, signed_in

pytestmark = pytest.mark.django_db

HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(1)>'


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
    client: Client, collection: Collection, data: bytes = b"Leave is 25 days."
) -> Document:
    answer = send(client, collection, data).json()
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
