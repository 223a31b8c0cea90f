"""The HTTP API for programs: what it does, and what it refuses to hostile ones."""

from __future__ import annotations

import json
import re
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from io import BytesIO
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import OperationalError, connections
from django.http import HttpResponse
from django.test import Client
from django.urls import get_resolver
from django.utils import timezone
from pytest_django import Settings

from apps.documents import services
from apps.documents.api import idempotency, views
from apps.documents.api.openapi import DOCUMENT
from apps.documents.errors import StorageUnavailable, WrongPassword
from apps.documents.models import Batch, Collection, Document, IdempotencyKey, Job
from apps.telemetry.models import AuditEvent
from apps.tenants.models import ApiKey, KeyScope, Tenant, User
from apps.tenants.scope import tenant_scope
from apps.tenants.services import create_key, revoke_key
from tests.cast import Cast, signed_in

pytestmark = pytest.mark.django_db

API = "/api/v1"
NOBODY = uuid.UUID(int=7)


class Program:
    """A client that holds a key."""

    def __init__(self, key: ApiKey | None, raw: str, collection: Collection) -> None:
        self.key, self.raw, self.collection = key, raw, collection
        self.client = Client(headers={"Authorization": f"Bearer {raw}"} if raw else {})

    def get(self, where: str, /, **query: str) -> HttpResponse:
        return self.client.get(API + where, query)

    def post(self, path: str, body: Any = None, **headers: str) -> HttpResponse:
        data = "" if body is None else json.dumps(body)
        return self.client.post(API + path, data, "application/json", headers=spelled(headers))

    def delete(self, path: str) -> HttpResponse:
        return self.client.delete(API + path)

    @property
    def uploads(self) -> str:
        return f"/collections/{self.collection.id}/documents"

    def upload(
        self, data: bytes = b"Leave is 25 days.", path: str = "leave.txt", **headers: str
    ) -> HttpResponse:
        return self.client.post(
            API + self.uploads,
            data,
            "application/octet-stream",
            query_params={"path": path},
            headers=spelled(headers),
        )

    def uploaded(self, data: bytes = b"Leave is 25 days.", path: str = "leave.txt") -> str:
        response = self.upload(data, path)
        assert response.status_code == 201, response.content
        return str(response.json()["document"]["id"])


def spelled(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


def program(
    tenant: Tenant, actor: User, collection: Collection, scope: KeyScope, **more: Any
) -> Program:
    key, raw = create_key(
        tenant=tenant, name="Sync", expires_at=None, actor=actor, scope=scope, **more
    )
    return Program(key, raw, collection)


@pytest.fixture
def handbook(cast: Cast) -> Collection:
    return services.create_collection(tenant=cast.acme, user=None, name="Handbook")


@pytest.fixture
def writer(cast: Cast, handbook: Collection) -> Program:
    return program(cast.acme, cast.alice, handbook, KeyScope.MANAGE)


@pytest.fixture
def reader(cast: Cast, handbook: Collection) -> Program:
    return program(cast.acme, cast.alice, handbook, KeyScope.READ)


@pytest.fixture
def rival(cast: Cast, handbook: Collection) -> Program:
    return program(cast.rival, cast.mallory, handbook, KeyScope.MANAGE)


def set_state(document_id: str, tenant: Tenant, **fields: object) -> None:
    with tenant_scope(tenant.id):
        Document.objects.filter(id=document_id).update(**fields)
        Job.objects.filter(document_id=document_id).delete()


def count(tenant: Tenant) -> int:
    with tenant_scope(tenant.id):
        return Document.objects.count()


def code(response: HttpResponse) -> str:
    return str(response.json()["error"]["code"])


class TestUploading:
    def test_a_body_is_a_file(self, writer: Program) -> None:
        response = writer.upload(path="law/old/leave.txt")
        assert response.status_code == 201
        found = response.json()
        assert found["unchanged"] is False
        document = found["document"]
        assert (document["path"], document["name"]) == ("law/old/leave.txt", "leave.txt")
        assert (document["state"], document["version"]) == ("received", 1)
        assert document["size_bytes"] == 17
        assert response.headers["Location"] == f"{API}/documents/{document['id']}"
        assert writer.get(f"/documents/{document['id']}").json()["document"]["id"] == document["id"]

    @pytest.mark.parametrize(
        "kind", ["application/x-www-form-urlencoded", "text/plain", "application/pdf", ""]
    )
    def test_whatever_a_client_calls_it(self, writer: Program, kind: str) -> None:
        response = writer.client.post(
            API + writer.uploads, b"a=1&b=2", kind, query_params={"path": "a.txt"}
        )
        assert response.status_code == 201
        assert response.json()["document"]["size_bytes"] == 7

    def test_a_form_carries_a_file(self, writer: Program) -> None:
        file = SimpleUploadedFile("leave.txt", b"Leave is 25 days.")
        response = writer.client.post(API + writer.uploads, {"file": file})
        assert response.status_code == 201
        assert response.json()["document"]["path"] == "leave.txt"
        file = SimpleUploadedFile("x.txt", b"Other")
        response = writer.client.post(API + writer.uploads, {"file": file, "path": "law/x.txt"})
        assert response.json()["document"]["path"] == "law/x.txt"

    def test_the_same_bytes_again_change_nothing(self, cast: Cast, writer: Program) -> None:
        first = writer.uploaded()
        again = writer.upload(path="other.txt")
        assert again.status_code == 200
        assert again.json()["unchanged"] is True
        assert again.json()["document"]["id"] == first
        assert count(cast.acme) == 1

    def test_other_bytes_under_a_path_are_its_next_version(self, writer: Program) -> None:
        writer.uploaded()
        assert writer.upload(b"Leave is 30 days.").json()["document"]["version"] == 2

    def test_it_is_done_in_the_name_of_who_made_the_key(self, cast: Cast, writer: Program) -> None:
        document = writer.uploaded()
        event = AuditEvent.objects.get(action="document.uploaded")
        assert (event.actor_id, event.subject_id) == (cast.alice.id, document)

    def test_a_key_outlives_its_maker(self, cast: Cast, writer: Program) -> None:
        cast.alice.delete()
        assert writer.upload().status_code == 201

    def test_an_empty_file_is_refused(self, writer: Program) -> None:
        response = writer.upload(b"")
        assert (response.status_code, code(response)) == (422, "empty")

    @pytest.mark.parametrize("as_form", [True, False])
    def test_too_large_is_too_large(
        self, cast: Cast, writer: Program, settings: Settings, as_form: bool
    ) -> None:
        settings.UPLOAD_MAX_BYTES = 3000
        file = SimpleUploadedFile("a.txt", b"x" * 3001)
        response = (
            writer.client.post(API + writer.uploads, {"file": file})
            if as_form
            else writer.upload(b"x" * 3001)
        )
        assert (response.status_code, code(response)) == (413, "too_large")
        assert count(cast.acme) == 0

    def test_what_is_announced_too_large_is_not_read(
        self, writer: Program, settings: Settings
    ) -> None:
        settings.UPLOAD_MAX_BYTES = 1
        response = writer.upload(b"x" * (2**20 + 2))
        assert (response.status_code, code(response)) == (413, "too_large")

    @pytest.mark.parametrize(
        ("fields", "expected"),
        [({}, "no_file"), ({"file": "no file at all"}, "no_file"), ({"files": "x"}, "no_file")],
    )
    def test_a_form_without_a_file(
        self, writer: Program, fields: dict[str, str], expected: str
    ) -> None:
        response = writer.client.post(API + writer.uploads, fields)
        assert (response.status_code, code(response)) == (400, expected)

    def test_one_file_a_request(self, cast: Cast, writer: Program) -> None:
        files = [SimpleUploadedFile(f"{n}.txt", b"x") for n in range(2)]
        response = writer.client.post(API + writer.uploads, {"file": files})
        assert (response.status_code, code(response)) == (400, "one_file")
        assert count(cast.acme) == 0

    @pytest.mark.parametrize(
        "body", [b"", b"--x", b"--x\r\nContent-Disposition: form-data; na", b"\0" * 5000]
    )
    def test_a_broken_form(self, writer: Program, body: bytes) -> None:
        response = writer.client.post(API + writer.uploads, body, "multipart/form-data; boundary=x")
        assert response.status_code == 400

    @pytest.mark.parametrize(
        "kind", ["multipart/mixed; boundary=x", "multipart/byteranges", "multipart/"]
    )
    def test_other_multiparts_are_not_read(self, writer: Program, kind: str) -> None:
        response = writer.client.post(
            API + writer.uploads, b"x", kind, query_params={"path": "a.txt"}
        )
        assert (response.status_code, code(response)) == (415, "content_type")

    @pytest.mark.parametrize("end", ["", "\r\n--x", "\r\n--x\r\n", "\r\n--xx--\r\n"])
    def test_a_form_that_ends_in_the_middle_is_not_taken_for_a_whole_one(
        self, cast: Cast, writer: Program, end: str
    ) -> None:
        body = (
            '--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
            f"{'The first half. ' * 20_000}{end}"
        )
        response = writer.client.post(
            API + writer.uploads, body.encode(), "multipart/form-data; boundary=x"
        )
        assert (response.status_code, code(response)) == (400, "incomplete")
        assert count(cast.acme) == 0

    def test_a_form_without_a_boundary(self, writer: Program) -> None:
        response = writer.client.post(API + writer.uploads, b"x", "multipart/form-data")
        assert response.status_code == 400

    def test_a_compressed_body_is_not_taken_for_the_file(self, writer: Program) -> None:
        response = writer.upload(b"\x1f\x8b", Content_Encoding="gzip")
        assert (response.status_code, code(response)) == (415, "content_encoding")

    def test_less_than_was_announced_is_not_kept(self, cast: Cast, writer: Program) -> None:
        request = {
            "REQUEST_METHOD": "POST",
            "PATH_INFO": API + writer.uploads,
            "QUERY_STRING": "path=a.txt",
            "CONTENT_TYPE": "text/plain",
            "CONTENT_LENGTH": "100",
            "HTTP_AUTHORIZATION": f"Bearer {writer.raw}",
            "wsgi.input": BytesIO(b"half"),
        }
        response = writer.client.request(**request)
        assert (response.status_code, code(response)) == (400, "incomplete")
        assert count(cast.acme) == 0


class TestPaths:
    @pytest.mark.parametrize(
        "path",
        ["../../etc/passwd", "/etc/passwd", "a/../../b", "a//b", "a/", ".", "..", "a/./b", " ",
         "a\0b", "a\nb", "\x1b[2J", "x" * 501, "...", "/"],
    )  # fmt: skip
    def test_what_is_no_path_in_a_collection_is_refused(
        self, cast: Cast, writer: Program, path: str
    ) -> None:
        response = writer.upload(path=path)
        assert (response.status_code, code(response)) == (422, "bad_path")
        assert count(cast.acme) == 0

    def test_a_form_cannot_smuggle_one_in(self, cast: Cast, writer: Program) -> None:
        for path in ("../../etc/passwd", "a\0b"):
            file = SimpleUploadedFile("a.txt", b"x")
            response = writer.client.post(API + writer.uploads, {"file": file, "path": path})
            assert (response.status_code, code(response)) == (422, "bad_path")
        file = SimpleUploadedFile("a.txt", b"x")
        file._name = "../../etc/passwd"
        response = writer.client.post(API + writer.uploads, {"file": file})
        assert response.json()["document"]["path"] == "passwd"

    def test_a_path_is_needed(self, writer: Program) -> None:
        response = writer.client.post(API + writer.uploads, b"x", "text/plain")
        assert (response.status_code, code(response)) == (400, "path_missing")

    def test_odd_characters_are_replaced_as_everywhere(self, writer: Program) -> None:
        path = "a:b/\u202efdp.exe"
        document = writer.upload(path=path).json()["document"]
        assert document["path"] == "a_b/fdp.exe"
        (found,) = writer.get(writer.uploads, path=path).json()["documents"]
        assert found["id"] == document["id"]


class TestReading:
    def test_collections_with_their_counts(self, writer: Program) -> None:
        writer.uploaded()
        (found,) = writer.get("/collections").json()["collections"]
        assert found["id"] == str(writer.collection.id)
        assert found["documents"] == {"total": 1, "ready": 0, "failed": 0, "unfinished": 1}

    def test_pages_follow_each_other_to_the_end(self, writer: Program) -> None:
        made = [writer.uploaded(f"{n}".encode(), f"{n}.txt") for n in range(7)]
        seen, cursor = [], ""
        while True:
            page = writer.get(writer.uploads, limit="3", cursor=cursor).json()
            seen += [each["id"] for each in page["documents"]]
            cursor = page["next"]
            if cursor is None:
                break
        assert seen == made[::-1]

    def test_documents_of_the_same_moment_are_not_lost_between_pages(
        self, cast: Cast, writer: Program
    ) -> None:
        made = {writer.uploaded(f"{n}".encode(), f"{n}.txt") for n in range(5)}
        with tenant_scope(cast.acme.id):
            Document.objects.update(created_at=timezone.now())
        first = writer.get(writer.uploads, limit="2").json()
        second = writer.get(writer.uploads, limit="200", cursor=first["next"]).json()
        seen = [each["id"] for each in first["documents"] + second["documents"]]
        assert len(seen) == 5
        assert set(seen) == made

    def test_states_and_paths_are_filters(self, cast: Cast, writer: Program) -> None:
        old = writer.uploaded(b"1")
        set_state(old, cast.acme, state="superseded")
        new = writer.uploaded(b"2")
        set_state(writer.uploaded(b"3", "x.txt"), cast.acme, state="failed", error_code="damaged")

        def ids(**query: str) -> list[str]:
            return [each["id"] for each in writer.get(writer.uploads, **query).json()["documents"]]

        assert len(ids()) == 2
        assert ids(state="superseded") == [old]
        assert ids(state="unfinished") == [new]
        assert ids(path="leave.txt") == [new, old]
        assert ids(path="a\0b") == []
        (failed,) = writer.get(writer.uploads, state="failed").json()["documents"]
        assert failed["error"] == {"code": "damaged", "message": ""}

    @pytest.mark.parametrize(
        ("query", "expected"),
        [
            ({"cursor": "x"}, "bad_cursor"),
            ({"cursor": "é"}, "bad_cursor"),
            ({"cursor": "MjAyNi0wMS0wMSAw"}, "bad_cursor"),
            ({"limit": "0"}, "bad_limit"),
            ({"limit": "201"}, "bad_limit"),
            ({"limit": "-1"}, "bad_limit"),
            ({"limit": "9" * 5000}, "bad_limit"),
            ({"limit": "٣"}, "bad_limit"),
            ({"state": "gone"}, "bad_state"),
        ],
    )
    def test_questions_that_mean_nothing(
        self, writer: Program, query: dict[str, str], expected: str
    ) -> None:
        response = writer.get(writer.uploads, **query)
        assert (response.status_code, code(response)) == (422, expected)


class TestChanging:
    def test_deleting(self, cast: Cast, writer: Program) -> None:
        document = writer.uploaded()
        assert writer.delete(f"/documents/{document}").status_code == 204
        assert writer.delete(f"/documents/{document}").status_code == 404
        assert count(cast.acme) == 0

    def test_a_failed_document_is_read_again(self, cast: Cast, writer: Program) -> None:
        document = writer.uploaded()
        set_state(document, cast.acme, state="failed", error_code="encoding")
        response = writer.post(f"/documents/{document}/retry", {"encoding": "cp1252"})
        assert response.status_code == 202
        assert response.json()["document"]["state"] == "received"
        with tenant_scope(cast.acme.id):
            assert Document.objects.get().encoding == "cp1252"
        response = writer.post(f"/documents/{document}/retry")
        assert (response.status_code, code(response)) == (409, "not_retryable")

    @pytest.mark.parametrize(
        ("body", "expected"),
        [
            ({"encoding": "klingon"}, "bad_encoding"),
            ({"encoding": "a\0b"}, "bad_encoding"),
            ({"encoding": 5}, "bad_field"),
            ({"ocr": "yes"}, "bad_field"),
            ({"state": "ready"}, "bad_field"),
        ],
    )
    def test_fields_that_are_not_known(
        self, writer: Program, body: dict[str, object], expected: str
    ) -> None:
        response = writer.post(f"/documents/{writer.uploaded()}/retry", body)
        assert (response.status_code, code(response)) == (422, expected)

    @pytest.mark.parametrize(
        ("data", "kind", "expected"),
        [
            ("{", "application/json", (400, "bad_json")),
            ("[" * 50_000, "application/json", (400, "bad_json")),
            ("[]", "application/json", (400, "bad_json")),
            (b"\xff", "application/json", (400, "bad_json")),
            ('{"password": "' + "x" * 70_000 + '"}', "application/json", (413, "too_large")),
            ("password=x", "application/x-www-form-urlencoded", (415, "content_type")),
            ("{}", "application/json", (422, "bad_field")),
        ],
    )
    def test_bodies_that_are_no_json(
        self, writer: Program, data: Any, kind: str, expected: tuple[int, str]
    ) -> None:
        address = f"{API}/documents/{writer.uploaded()}/password"
        response = writer.client.generic("POST", address, data, kind)
        assert (response.status_code, code(response)) == expected

    def test_a_password_is_given_as_it_is_and_kept_nowhere(
        self, cast: Cast, writer: Program, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        document, given = writer.uploaded(), []

        def unlock(*, password: str, **_: object) -> None:
            given.append(password)
            if password == "wrong":
                raise WrongPassword("The password is wrong.")

        monkeypatch.setattr(services, "unlock_document", unlock)
        address = f"/documents/{document}/password"
        response = writer.post(address, {"password": "wrong"}, Idempotency_Key="1")
        assert (response.status_code, code(response)) == (422, "wrong_password")
        for password in ("  \t four ", "another"):
            response = writer.post(address, {"password": password}, Idempotency_Key="1")
            assert response.status_code == 202
        assert given == ["wrong", "  \t four "]
        row = IdempotencyKey.objects.values().get()
        assert row["fingerprint"] == idempotency._hash("POST", API + address)
        assert "four" not in str(row)

    def test_a_document_that_waits_for_no_password(self, writer: Program) -> None:
        response = writer.post(f"/documents/{writer.uploaded()}/password", {"password": "x"})
        assert (response.status_code, code(response)) == (409, "not_retryable")


class TestBatches:
    def test_what_is_sent_together_is_counted_together(self, writer: Program) -> None:
        made = writer.post("/batches", {"collection_id": str(writer.collection.id), "expected": 3})
        assert made.status_code == 201
        batch = made.json()["batch"]
        assert batch["source"] == "api"
        query = {"path": "a.txt", "batch": batch["id"]}
        for _ in range(2):
            response = writer.client.post(
                API + writer.uploads, b"x", "text/plain", query_params=query
            )
        assert response.json()["document"]["batch_id"] == batch["id"]
        found = writer.get(f"/batches/{batch['id']}").json()["batch"]
        assert (found["expected"], found["unchanged"]) == (3, 1)
        assert found["documents"]["received"] == 1
        assert found["finished"] is False
        assert made.headers["Location"] == f"{API}/batches/{batch['id']}"

    @pytest.mark.parametrize(
        ("change", "status"),
        [
            ({"collection_id": str(NOBODY)}, 404),
            ({"collection_id": "x"}, 404),
            ({"expected": -1}, 422),
            ({"expected": 2**31}, 422),
            ({"expected": True}, 422),
            ({"expected": 1e3}, 422),
        ],
    )
    def test_batches_of_nothing(
        self, writer: Program, change: dict[str, object], status: int
    ) -> None:
        body = {"collection_id": str(writer.collection.id), **change}
        assert writer.post("/batches", body).status_code == status

    @pytest.mark.parametrize("batch", ["x", str(NOBODY), "a\0b"])
    def test_a_batch_that_is_not_there(self, writer: Program, batch: str) -> None:
        query = {"path": "a.txt", "batch": batch}
        response = writer.client.post(API + writer.uploads, b"x", "text/plain", query_params=query)
        assert response.status_code == 404

    def test_a_batch_of_another_collection(self, cast: Cast, writer: Program) -> None:
        other = services.create_collection(tenant=cast.acme, user=None, name="Other")
        batch = services.open_batch(
            tenant=cast.acme, collection=other, user=None, source=Batch.Source.API
        )
        query = {"path": "a.txt", "batch": str(batch.id)}
        response = writer.client.post(API + writer.uploads, b"x", "text/plain", query_params=query)
        assert (response.status_code, code(response)) == (422, "other_collection")


def every_operation() -> Iterator[tuple[str, str]]:
    for path, item in DOCUMENT["paths"].items():
        for method in item:
            if method != "parameters":
                yield method, path


def address(path: str, **ids: object) -> str:
    return API + re.sub(r"{(\w+)}", lambda found: str(ids.get(found[1], NOBODY)), path)


class TestKeys:
    @pytest.mark.parametrize(
        "header",
        [None, "", "Bearer", "Bearer ", "Bearer rk_x", "Basic YTpi", "Token x", "Bearer \xff\xfe",
         "Bearer " + "x" * 5000],
    )  # fmt: skip
    def test_without_a_key_that_works(self, header: str | None) -> None:
        client = Client(headers={} if header is None else {"Authorization": header})
        for method, path in every_operation():
            response = getattr(client, method)(address(path))
            assert (response.status_code, code(response)) == (401, "unauthorized")
            assert response.headers["WWW-Authenticate"].startswith("Bearer")

    def test_a_revoked_key_stops_at_once(self, cast: Cast, writer: Program) -> None:
        assert writer.get("/collections").status_code == 200
        assert writer.key is not None
        revoke_key(key=writer.key, actor=cast.alice)
        for method, path in every_operation():
            assert getattr(writer.client, method)(address(path)).status_code == 401

    def test_an_expired_key(self, cast: Cast, writer: Program) -> None:
        ApiKey.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
        assert writer.get("/collections").status_code == 401

    @pytest.mark.parametrize("name", ["access_token", "key", "path"])
    def test_a_key_in_the_address_is_refused_even_beside_one_in_the_header(
        self, writer: Program, name: str
    ) -> None:
        for method, path in every_operation():
            where = f"{address(path)}?{name}={writer.raw}"
            for client in (writer.client, Client()):
                response = getattr(client, method)(where)
                assert (response.status_code, code(response)) == (400, "key_in_address")

    def test_a_path_that_only_looks_a_little_like_a_key(self, writer: Program) -> None:
        assert writer.upload(path="network_plan/rk_1.txt").status_code == 201

    def test_a_session_opens_nothing(self, cast: Cast, handbook: Collection) -> None:
        assert signed_in(cast.alice).get(f"{API}/collections").status_code == 401

    def test_no_cookie_is_set_and_none_is_needed(self, writer: Program) -> None:
        client = Client(enforce_csrf_checks=True, headers={"Authorization": f"Bearer {writer.raw}"})
        response = client.post(
            API + writer.uploads, b"x", "text/plain", query_params={"path": "a.txt"}
        )
        assert response.status_code == 201
        assert not response.cookies
        assert "Cookie" not in response.headers.get("Vary", "")

    def test_a_reading_key_only_reads(self, reader: Program) -> None:
        for method, path in every_operation():
            status = getattr(reader.client, method)(address(path)).status_code
            assert (status == 403) == (method != "get")

    def test_a_reading_key_changes_nothing(self, writer: Program, reader: Program) -> None:
        document = writer.uploaded()
        for response in (
            reader.upload(b"x"),
            reader.delete(f"/documents/{document}"),
            reader.post(f"/documents/{document}/retry"),
            reader.post("/batches", {"collection_id": str(reader.collection.id)}),
        ):
            assert (response.status_code, code(response)) == (403, "forbidden")
        assert reader.get(f"/documents/{document}").status_code == 200

    def test_another_tenants_key_finds_nothing(
        self, cast: Cast, writer: Program, rival: Program
    ) -> None:
        document = writer.uploaded()
        batch = writer.post("/batches", {"collection_id": str(writer.collection.id)}).json()
        ids = {
            "document_id": document,
            "batch_id": batch["batch"]["id"],
            "collection_id": writer.collection.id,
        }
        for method, path in every_operation():
            if "{" in path:
                where = address(path, **ids)
                query = {"path": "a.txt"}
                body = '{"password": "x"}' if "password" in path else ""
                response = rival.client.generic(
                    method.upper(), where, body, "application/json", query_params=query
                )
                nothing = rival.client.generic(
                    method.upper(), address(path), body, "application/json", query_params=query
                )
                assert response.status_code == 404, where
                assert response.content == nothing.content, "it tells that there is something"
        assert rival.get("/collections").json() == {"collections": []}
        response = rival.post("/batches", {"collection_id": str(writer.collection.id)})
        assert response.status_code == 404
        assert count(cast.acme) == 1
        assert count(cast.rival) == 0

    def test_a_narrowed_key_opens_its_collections_only(
        self, cast: Cast, writer: Program, handbook: Collection
    ) -> None:
        other = services.create_collection(tenant=cast.acme, user=None, name="Other")
        narrow = program(cast.acme, cast.alice, other, KeyScope.MANAGE, collection_ids=[other.id])
        document = writer.uploaded()
        found = narrow.get("/collections").json()["collections"]
        assert [each["name"] for each in found] == ["Other"]
        assert narrow.get(writer.uploads).status_code == 404
        assert narrow.get(f"/documents/{document}").status_code == 404
        assert narrow.delete(f"/documents/{document}").status_code == 404
        assert narrow.post("/batches", {"collection_id": str(handbook.id)}).status_code == 404
        batch = writer.post("/batches", {"collection_id": str(handbook.id)}).json()["batch"]["id"]
        assert narrow.get(f"/batches/{batch}").status_code == 404
        assert narrow.upload(b"x").status_code == 201


class TestMethods:
    @pytest.mark.parametrize("method", ["PUT", "PATCH", "TRACE", "CONNECT", "PROPFIND", "X" * 300])
    def test_others_are_not_allowed(self, writer: Program, method: str) -> None:
        for path, item in DOCUMENT["paths"].items():
            response = writer.client.generic(method, address(path))
            assert (response.status_code, code(response)) == (405, "method_not_allowed")
            known = {each.upper() for each in item} - {"PARAMETERS"}
            known |= {"OPTIONS"} | ({"HEAD"} if "GET" in known else set())
            assert set(response.headers["Allow"].split(", ")) == known

    def test_options_name_the_methods_and_need_no_key(self, handbook: Collection) -> None:
        response = Client().options(f"{API}/collections")
        assert response.status_code == 204
        assert response.headers["Allow"] == "GET, HEAD, OPTIONS"
        assert not [name for name in response.headers if name.startswith("Access-Control")]

    def test_head_is_get_without_its_body(self, writer: Program) -> None:
        response = writer.client.head(f"{API}/collections")
        assert response.status_code == 200
        assert response.content == b""
        assert Client().head(f"{API}/collections").status_code == 401

    @pytest.mark.parametrize(
        "path", ["", "/", "/nothing", "/documents/1", "/collections/", "/documents/../../admin"]
    )
    def test_other_addresses_hold_nothing(self, writer: Program, path: str) -> None:
        response = writer.client.get(f"{API}/{path}")
        assert (response.status_code, code(response)) == (404, "not_found")
        assert writer.client.post(f"{API}/{path}").status_code == 404

    def test_a_fault_of_ours_is_told_in_json_and_nothing_of_it(
        self, writer: Program, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        def broken(**_: object) -> None:
            raise RuntimeError("a secret")

        monkeypatch.setattr(services, "receive_upload", broken)
        response = writer.upload(Idempotency_Key="1")
        assert (response.status_code, code(response)) == (500, "internal_error")
        assert b"secret" not in response.content
        assert writer.raw not in caplog.text
        monkeypatch.undo()
        assert writer.upload(Idempotency_Key="1").status_code == 201

    def test_a_storage_that_is_away_is_said_and_the_request_may_come_again(
        self, cast: Cast, writer: Program, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def away(*_: object) -> str:
            raise StorageUnavailable("The file storage does not answer. Try again.")

        monkeypatch.setattr("apps.documents.files.store", away)
        response = writer.upload(Idempotency_Key="1")
        assert (response.status_code, code(response)) == (503, "storage_unavailable")
        assert int(response.headers["Retry-After"]) > 0
        assert count(cast.acme) == 0
        monkeypatch.undo()
        assert writer.upload(Idempotency_Key="1").status_code == 201

    def test_a_database_that_is_away_is_said(
        self, writer: Program, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def away(*_: object) -> None:
            raise OperationalError("gone")

        monkeypatch.setattr(views.queries, "collections_of", away)
        response = writer.get("/collections")
        assert (response.status_code, code(response)) == (503, "unavailable")
        assert int(response.headers["Retry-After"]) > 0


class TestOnce:
    def test_the_first_answer_is_given_again(self, cast: Cast, writer: Program) -> None:
        first = writer.upload(Idempotency_Key="a")
        set_state(first.json()["document"]["id"], cast.acme, state="ready", chunk_count=3)
        again = writer.upload(Idempotency_Key="a")
        assert again.status_code == 201
        assert again.json() == first.json()
        assert again.headers["Idempotent-Replayed"] == "true"
        assert "Idempotent-Replayed" not in first.headers

    def test_a_forms_own_bytes_do_not_matter(self, writer: Program) -> None:
        answers = []
        for boundary in ("one", "other"):
            body = (
                f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="a.txt"'
                f"\r\n\r\nHello\r\n--{boundary}--\r\n"
            )
            answers.append(
                writer.client.post(
                    API + writer.uploads,
                    body.encode(),
                    f"multipart/form-data; boundary={boundary}",
                    headers={"Idempotency-Key": "a"},
                )
            )
        assert [each.status_code for each in answers] == [201, 201]
        assert answers[0].json() == answers[1].json()

    def test_another_request_with_the_same_key_is_refused(
        self, cast: Cast, writer: Program
    ) -> None:
        writer.upload(Idempotency_Key="a")
        for response in (
            writer.upload(b"other", Idempotency_Key="a"),
            writer.upload(path="other.txt", Idempotency_Key="a"),
            writer.post(
                "/batches", {"collection_id": str(writer.collection.id)}, Idempotency_Key="a"
            ),
        ):
            assert (response.status_code, code(response)) == (422, "idempotency_key_reused")
        assert count(cast.acme) == 1

    def test_keys_of_two_programs_do_not_meet(
        self, cast: Cast, writer: Program, handbook: Collection
    ) -> None:
        other = program(cast.acme, cast.alice, handbook, KeyScope.MANAGE)
        first = writer.upload(Idempotency_Key="a")
        second = other.upload(b"Another file", "x.txt", Idempotency_Key="a")
        assert (first.status_code, second.status_code) == (201, 201)

    def test_while_it_is_under_way_the_others_are_told_to_come_back(
        self, writer: Program, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        receive, met = services.receive_upload, []

        def slow(**arguments: Any) -> Document:
            if not met:
                met.append(None)
                met[0] = writer.upload(Idempotency_Key="a")
            return receive(**arguments)

        monkeypatch.setattr(services, "receive_upload", slow)
        assert writer.upload(Idempotency_Key="a").status_code == 201
        assert (met[0].status_code, code(met[0])) == (409, "in_progress")
        assert int(met[0].headers["Retry-After"]) > 0

    def test_a_request_that_died_is_taken_over_after_its_time(
        self, cast: Cast, writer: Program
    ) -> None:
        first = writer.upload(Idempotency_Key="a").json()
        IdempotencyKey.objects.update(status=None, answer={})
        assert writer.upload(Idempotency_Key="a").status_code == 409
        IdempotencyKey.objects.update(locked_until=timezone.now())
        reused = writer.upload(b"other", Idempotency_Key="a")
        assert code(reused) == "idempotency_key_reused"
        again = writer.upload(Idempotency_Key="a")
        assert again.status_code == 200
        assert again.json()["document"]["id"] == first["document"]["id"]
        assert count(cast.acme) == 1

    def test_whoever_was_overtaken_keeps_no_answer(
        self, cast: Cast, writer: Program, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        opened = services.open_batch

        def overtaken(**arguments: Any) -> Batch:
            IdempotencyKey.objects.update(fence=9)
            return opened(**arguments)

        monkeypatch.setattr(services, "open_batch", overtaken)
        body = {"collection_id": str(writer.collection.id)}
        response = writer.post("/batches", body, Idempotency_Key="a")
        assert (response.status_code, code(response)) == (409, "in_progress")
        with tenant_scope(cast.acme.id):
            assert not Batch.objects.exists()

    def test_a_refusal_changed_nothing_and_is_not_kept(self, cast: Cast, writer: Program) -> None:
        document = writer.uploaded()
        path = f"/documents/{document}/retry"
        assert writer.post(path, Idempotency_Key="a").status_code == 409
        set_state(document, cast.acme, state="failed")
        first = writer.post(path, Idempotency_Key="a")
        again = writer.post(path, Idempotency_Key="a")
        assert (first.status_code, again.status_code) == (202, 202)
        assert "Idempotent-Replayed" in again.headers

    def test_after_a_day_a_key_is_new(self, writer: Program) -> None:
        writer.upload(Idempotency_Key="a")
        IdempotencyKey.objects.update(expires_at=timezone.now())
        assert writer.upload(b"other", "x.txt", Idempotency_Key="a").status_code == 201
        IdempotencyKey.objects.update(expires_at=timezone.now())
        assert idempotency.forget_expired() == 1
        assert not IdempotencyKey.objects.exists()

    def test_nothing_of_a_deleted_document_is_kept(self, writer: Program) -> None:
        document = writer.upload(path="secret.txt", Idempotency_Key="a").json()["document"]
        row = str(IdempotencyKey.objects.values().get())
        assert "secret" not in row
        assert document["sha256"] not in row
        writer.delete(f"/documents/{document['id']}")
        response = writer.upload(path="secret.txt", Idempotency_Key="a")
        assert (response.status_code, code(response)) == (410, "gone")

    def test_a_tenant_goes_with_its_answers(self, cast: Cast, writer: Program) -> None:
        writer.upload(Idempotency_Key="a")
        services.delete_tenant(tenant=cast.acme, actor=None)
        assert not IdempotencyKey.objects.exists()
        assert writer.get("/collections").status_code == 401

    @pytest.mark.parametrize("key", ["", "x" * 256, "é", "a\tb", "\x7f"])
    def test_keys_that_are_none(self, cast: Cast, writer: Program, key: str) -> None:
        response = writer.upload(Idempotency_Key=key)
        assert (response.status_code, code(response)) == (400, "bad_idempotency_key")
        assert count(cast.acme) == 0

    def test_batches_are_opened_once(self, cast: Cast, writer: Program) -> None:
        body = {"collection_id": str(writer.collection.id), "expected": 2}
        answers = [writer.post("/batches", body, Idempotency_Key="b") for _ in range(2)]
        assert answers[0].json() == answers[1].json()
        with tenant_scope(cast.acme.id):
            assert Batch.objects.count() == 1


@pytest.mark.django_db(transaction=True)
class TestAtTheSameTime:
    @pytest.mark.parametrize("what", ["upload", "batch"])
    def test_ten_requests_with_one_key_are_one(
        self, cast: Cast, writer: Program, what: str
    ) -> None:
        ready = threading.Barrier(10)

        def send(_: int) -> tuple[int, str]:
            one = Program(writer.key, writer.raw, writer.collection)
            ready.wait()
            try:
                if what == "upload":
                    response = one.upload(b"x" * 300_000, Idempotency_Key="a")
                else:
                    body = {"collection_id": str(one.collection.id)}
                    response = one.post("/batches", body, Idempotency_Key="a")
                return response.status_code, response.content.decode()
            finally:
                connections.close_all()

        with ThreadPoolExecutor(10) as pool:
            answers = list(pool.map(send, range(10)))
        assert {status for status, _ in answers} <= {201, 409}
        done = {
            json.dumps(json.loads(body), sort_keys=True)
            for status, body in answers
            if status == 201
        }
        assert len(done) == 1
        with tenant_scope(cast.acme.id):
            assert (Document if what == "upload" else Batch).objects.count() == 1


def resolve(schema: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in schema:
        found: Any = DOCUMENT
        for part in schema["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        return dict(found)
    return schema


def problems(value: Any, schema: dict[str, Any], at: str = "answer") -> list[str]:
    """What of `value` is not as its schema says: the few words of JSON Schema that are used."""
    schema = resolve(schema)
    if "anyOf" in schema:
        found = [problems(value, each, at) for each in schema["anyOf"]]
        return [] if [] in found else found[0]
    kinds: dict[str, type] = {"string": str, "integer": int, "boolean": bool, "object": dict,
                              "array": list, "null": type(None)}  # fmt: skip
    if type(value) is not kinds[schema["type"]]:
        return [f"{at} is {value!r}, not {schema['type']}"]
    wrong = []
    if "enum" in schema and value not in schema["enum"]:
        wrong.append(f"{at} is {value!r}")
    if "pattern" in schema and not re.search(schema["pattern"], value):
        wrong.append(f"{at} is {value!r}")
    if value.__class__ is int and value < schema.get("minimum", value):
        wrong.append(f"{at} is {value}")
    if schema.get("format") == "uuid":
        uuid.UUID(value)
    if schema.get("format") == "date-time":
        assert datetime.fromisoformat(value).tzinfo
    for each in value if schema["type"] == "array" else []:
        wrong += problems(each, schema["items"], f"{at}[]")
    if schema["type"] == "object":
        properties = schema["properties"]
        wrong += [f"{at} lacks {name}" for name in schema.get("required", []) if name not in value]
        wrong += [f"{at} has {name}" for name in value if name not in properties]
        for name in properties.keys() & value.keys():
            wrong += problems(value[name], properties[name], f"{at}.{name}")
    return wrong


def check(response: HttpResponse, method: str, path: str) -> None:
    answers = DOCUMENT["paths"][path][method]["responses"]
    assert str(response.status_code) in answers, f"{method} {path}: {response.status_code}"
    content = answers[str(response.status_code)].get("content")
    if content is None:
        assert response.content == b""
    else:
        assert response.headers["Content-Type"] == "application/json"
        assert problems(response.json(), content["application/json"]["schema"]) == []


class TestDescription:
    def test_it_is_there_for_everybody(self) -> None:
        response = Client().get(f"{API}/openapi.json")
        assert response.json() == json.loads(json.dumps(DOCUMENT))
        assert response.json()["openapi"] == "3.1.0"

    def test_it_names_every_address_and_method(self) -> None:
        (api,) = [each for each in get_resolver().url_patterns if str(each.pattern) == "api/v1/"]
        found = {
            (method.lower(), "/" + re.sub(r"<uuid:(\w+)>", r"{\1}", str(each.pattern)))
            for each in api.url_patterns
            for method in getattr(each.callback, "operations", ())
            if method != "HEAD"
        }
        assert found == set(every_operation())

    def test_every_reference_leads_somewhere(self) -> None:
        names = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(DOCUMENT)))
        assert names == set(DOCUMENT["components"]["schemas"])

    def test_every_operation_answers_as_it_says(self, cast: Cast, writer: Program) -> None:
        document = writer.uploaded()
        set_state(document, cast.acme, state="failed", error_code="encoding", error_message="?")
        batch = writer.post("/batches", {"collection_id": str(writer.collection.id)}).json()
        ids = {
            "document_id": document,
            "batch_id": batch["batch"]["id"],
            "collection_id": writer.collection.id,
        }
        good: dict[str, object] = {
            "/documents/{document_id}/retry": {"encoding": "cp1252"},
            "/documents/{document_id}/password": {"password": "x"},
            "/batches": {"collection_id": str(writer.collection.id), "expected": 1},
        }
        last = sorted(every_operation(), key=lambda each: each[0] == "delete")
        for method, path in last:
            for where in (address(path, **ids), address(path)):
                for body in (json.dumps(good.get(path, {})), "", "{", '{"x": 1}'):
                    for query in ({"path": "a.txt", "state": "failed"}, {"limit": "x"}):
                        response = writer.client.generic(
                            method.upper(), where, body, "application/json", query_params=query
                        )
                        check(response, method, path)

    def test_good_answers_are_among_those_that_are_checked(
        self, cast: Cast, writer: Program
    ) -> None:
        upload = "/collections/{collection_id}/documents"
        check(writer.upload(), "post", upload)
        check(writer.upload(), "post", upload)
        check(writer.get("/collections"), "get", "/collections")
        check(writer.get(writer.uploads), "get", upload)
        document = writer.uploaded(b"2")
        set_state(document, cast.acme, state="failed", error_code="x", ready_at=timezone.now())
        where = "/documents/{document_id}"
        check(writer.get(f"/documents/{document}"), "get", where)
        check(writer.post(f"/documents/{document}/retry"), "post", f"{where}/retry")
        check(writer.delete(f"/documents/{document}"), "delete", where)
        made = writer.post("/batches", {"collection_id": str(writer.collection.id)})
        check(made, "post", "/batches")
        check(writer.get(f"/batches/{made.json()['batch']['id']}"), "get", "/batches/{batch_id}")


@pytest.mark.django_db
class TestTags:
    def test_tags_come_with_an_upload(self, writer: Program) -> None:
        answer = writer.client.post(
            API + writer.uploads,
            b"Leave.",
            "application/octet-stream",
            query_params={"path": "a.txt", "tags": "Policies, 2026"},
        )
        assert answer.json()["document"]["tags"] == ["2026", "policies"]

    def test_the_same_answer_again_holds_them(self, writer: Program) -> None:
        for _ in range(2):
            answer = writer.client.post(
                API + writer.uploads,
                b"Leave.",
                "application/octet-stream",
                query_params={"path": "a.txt", "tags": "policies"},
                headers={"Idempotency-Key": "once"},
            )
            assert answer.json()["document"]["tags"] == ["policies"]
        assert "policies" not in str(IdempotencyKey.objects.get().answer)

    def test_too_many_tags_are_refused(self, writer: Program) -> None:
        answer = writer.client.post(
            API + writer.uploads,
            b"Leave.",
            "application/octet-stream",
            query_params={"path": "a.txt", "tags": ",".join(map(str, range(30)))},
        )
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "tags_refused")
