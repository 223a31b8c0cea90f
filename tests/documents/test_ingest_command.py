"""`manage.py ingest`: what it sends, what it says, and that doing it again changes nothing."""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from apps.documents import sending, services
from apps.documents.errors import WrongPassword
from apps.documents.management.terminal import Progress, printable
from apps.documents.models import Batch, Collection, Document, DocumentState, Job
from apps.documents.sending import find_files
from apps.tenants.models import Tenant
from apps.tenants.scope import tenant_scope

pytestmark = pytest.mark.django_db


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "papers"
    (made / "law" / "old").mkdir(parents=True)
    (made / "leave.txt").write_text("Leave is 25 days.")
    (made / "law" / "a.md").write_text("# Law A")
    (made / "law" / "old" / "b.md").write_text("# Law B")
    return made


def ingest(*arguments: object, collection: str = "Handbook") -> tuple[int, str, str]:
    """Exit status, stdout, stderr."""
    out, err = io.StringIO(), io.StringIO()
    line = [str(argument) for argument in arguments]
    try:
        call_command(
            "ingest", *line, "--tenant=acme", f"--collection={collection}", stdout=out, stderr=err
        )
    except CommandError as exc:
        return exc.returncode, out.getvalue(), err.getvalue() + str(exc)
    return 0, out.getvalue(), err.getvalue()


def report(*arguments: object) -> dict[str, Any]:
    _, out, _ = ingest(*arguments, "--json")
    found: dict[str, Any] = json.loads(out)
    return found


def states(*arguments: object) -> dict[str, str]:
    return {each["path"]: each["state"] for each in report(*arguments)["documents"]}


def rows(collection: Collection) -> list[Document]:
    with tenant_scope(collection.tenant_id):
        return list(Document.objects.filter(collection=collection).order_by("path", "version"))


def end(collection: Collection, **fields: object) -> None:
    """What a worker does in the end."""
    with tenant_scope(collection.tenant_id):
        Document.objects.filter(
            collection=collection, state__in=["received", "parsing", "indexing"]
        ).update(**fields)
        Job.objects.filter(tenant_id=collection.tenant_id).delete()


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], None]:
    """Have something done while the command waits."""

    def work(step: Callable[[], None]) -> None:
        monkeypatch.setattr(sending.time, "sleep", lambda seconds: step())

    return work


class TestSending:
    def test_a_folder_keeps_its_paths(self, collection: Collection, folder: Path) -> None:
        code, out, _ = ingest(folder)
        assert code == 0
        assert [each.path for each in rows(collection)] == [
            "law/a.md",
            "law/old/b.md",
            "leave.txt",
        ]
        assert "3 files in" in out
        assert "3 received" in out

    def test_all_of_them_get_the_tags(self, collection: Collection, folder: Path) -> None:
        assert ingest(folder, "--tag", "Law", "--tag", " 2026 ")[0] == 0
        assert {tuple(each.tags) for each in rows(collection)} == {("2026", "law")}

    def test_a_tag_that_is_too_long_is_refused_before_anything_is_sent(
        self, collection: Collection, folder: Path
    ) -> None:
        code, _, err = ingest(folder, "--tag", "x" * 51)
        assert (code, rows(collection)) == (2, [])
        assert "at most 50 characters" in err

    def test_they_are_one_batch(self, collection: Collection, folder: Path) -> None:
        ingest(folder)
        with tenant_scope(collection.tenant_id):
            batch = Batch.objects.get()
        assert (batch.source, batch.expected) == (Batch.Source.COMMAND, 3)
        assert {each.batch_id for each in rows(collection)} == {batch.id}

    def test_again_changes_nothing(self, collection: Collection, folder: Path) -> None:
        ingest(folder)
        end(collection, state=DocumentState.READY)
        before = rows(collection)
        assert set(states(folder).values()) == {"unchanged"}
        assert ingest(folder)[0] == 0
        assert [vars(row) | {"_state": 0} for row in rows(collection)] == [
            vars(row) | {"_state": 0} for row in before
        ]
        with tenant_scope(collection.tenant_id):
            assert Batch.objects.count() == 1

    def test_a_changed_file_is_the_next_version(self, collection: Collection, folder: Path) -> None:
        ingest(folder)
        end(collection, state=DocumentState.READY)
        (folder / "leave.txt").write_text("Leave is 30 days.")
        found = report(folder)
        assert found["counts"] == {"total": 3, "unchanged": 2, "received": 1}
        assert [each["version"] for each in found["documents"] if each["state"] == "received"] == [
            2
        ]

    def test_failed_ones_stay_failed_unless_told(
        self, collection: Collection, folder: Path
    ) -> None:
        ingest(folder)
        end(collection, state="failed", error_code="damaged", error_message="It is broken.")
        code, out, err = ingest(folder)
        assert code == 1
        assert "3 of 3 files failed" in err
        assert "damaged: It is broken." in out
        assert {each.state for each in rows(collection)} == {"failed"}
        assert set(states(folder, "--retry").values()) == {"received"}
        assert {each.state for each in rows(collection)} == {"received"}

    def test_the_same_content_twice_is_one_document(
        self, collection: Collection, folder: Path
    ) -> None:
        (folder / "copy.txt").write_text("Leave is 25 days.")
        found = report(folder)
        assert len(rows(collection)) == 3
        (copy,) = [each for each in found["documents"] if each["code"] == "duplicate"]
        assert copy["path"] == "leave.txt"
        assert "copy.txt" in copy["message"]
        with tenant_scope(collection.tenant_id):
            assert Batch.objects.get().unchanged == 1

    def test_an_empty_and_a_large_file_fail_alone(
        self, collection: Collection, folder: Path, settings: Settings
    ) -> None:
        settings.UPLOAD_MAX_BYTES = 1024
        (folder / "empty.txt").touch()
        (folder / "large.txt").write_bytes(b"x" * 1025)
        found = {each["path"]: each["code"] for each in report(folder)["documents"]}
        assert found["empty.txt"] == "empty"
        assert found["large.txt"] == "too_large"
        assert len(rows(collection)) == 3
        assert states(folder)["empty.txt"] == "failed"
        with tenant_scope(collection.tenant_id):
            assert Batch.objects.count() == 1

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
    def test_a_file_nobody_may_read_fails_alone(self, collection: Collection, folder: Path) -> None:
        (folder / "leave.txt").chmod(0)
        assert states(folder)["leave.txt"] == "failed"
        assert len(rows(collection)) == 2

    def test_a_file_that_vanishes_fails_alone(
        self, collection: Collection, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        found = find_files([folder])
        (folder / "leave.txt").unlink()
        monkeypatch.setattr(sending, "find_files", lambda sources: found)
        assert states(folder)["leave.txt"] == "failed"
        assert len(rows(collection)) == 2

    def test_two_files_that_would_have_one_path_are_not_mixed_up(
        self, collection: Collection, tmp_path: Path
    ) -> None:
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            (tmp_path / name / "a.txt").write_text(name)
        found = report(tmp_path / "one", tmp_path / "two")
        assert {each["code"] for each in found["documents"]} == {"", "same_path"}
        assert [each.version for each in rows(collection)] == [1]

    def test_names_that_steer_a_terminal_do_not_reach_it(
        self, collection: Collection, folder: Path
    ) -> None:
        (folder / "\x1b[2Jevil\u202efdp.txt").write_text("x")
        _, out, _ = ingest(folder)
        assert "\x1b" not in out
        assert "\u202e" not in out

    def test_stopping_leaves_what_was_sent(
        self, collection: Collection, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        send, sent = services.receive_upload, []

        def interrupt(**arguments: Any) -> Document:
            if sent:
                raise KeyboardInterrupt
            sent.append(1)
            return send(**arguments)

        monkeypatch.setattr(services, "receive_upload", interrupt)
        with pytest.raises(SystemExit) as stopped:
            ingest(folder)
        assert stopped.value.code == 130
        assert len(rows(collection)) == 1
        monkeypatch.undo()
        ingest(folder)
        assert len(rows(collection)) == 3


class TestFinding:
    def test_hidden_files_and_folders_are_skipped(self, folder: Path) -> None:
        (folder / ".git").mkdir()
        (folder / ".git" / "config").write_text("x")
        (folder / ".env").write_text("SECRET=1")
        assert set(find_files([folder]).items) == {"law/a.md", "law/old/b.md", "leave.txt"}

    def test_a_link_is_followed_only_inside_the_folder(self, folder: Path, tmp_path: Path) -> None:
        (tmp_path / "secret.txt").write_text("x")
        (folder / "out.txt").symlink_to(tmp_path / "secret.txt")
        (folder / "in.txt").symlink_to(folder / "leave.txt")
        (folder / "up").symlink_to(tmp_path)
        (folder / "loop").symlink_to(folder)
        (folder / "broken").symlink_to(folder / "nothing")
        found = find_files([folder])
        assert "in.txt" in found.items
        assert not {"out.txt", "up", "broken"} & set(found.items)
        assert [link.name for link in found.links] == ["out.txt"]

    def test_pipes_are_not_opened(self, folder: Path) -> None:
        os.mkfifo(folder / "pipe")
        assert "pipe" not in find_files([folder]).items

    def test_a_file_named_twice_is_sent_once(self, folder: Path) -> None:
        found = find_files([folder, folder / "leave.txt"])
        assert len(found.items) == 3
        assert not found.refused

    def test_names_that_are_no_text_are_taken(self, folder: Path) -> None:
        (Path(os.fsdecode(bytes(folder) + b"/caf\xe9.txt"))).write_text("x")
        assert "caf.txt" in find_files([folder]).items


class TestWrongUse:
    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (["/nowhere"], "no file or folder '/nowhere'"),
            (["a\0b"], "no file or folder"),
            ([".", "--passwords=x"], "add --wait"),
            ([".", "--wait", "--encoding=klingon"], "no encoding 'klingon'"),
            ([".", "--wait", "--passwords=/nowhere"], "cannot be read"),
        ],
    )
    def test_it_is_told_what_to_do(
        self, collection: Collection, arguments: list[str], words: str
    ) -> None:
        code, _, err = ingest(*arguments)
        assert code == 2
        assert words in err

    def test_an_unknown_collection_is_made_only_when_told(
        self, collection: Collection, tenant: Tenant, folder: Path
    ) -> None:
        code, _, err = ingest(folder, collection="Elsewhere")
        assert code == 2
        assert "Collections: Handbook. Add --create" in err
        assert ingest(folder, "--create", collection="Elsewhere")[0] == 0
        with tenant_scope(tenant.id):
            assert Collection.objects.get(name="Elsewhere").documents.count() == 3

    def test_an_unknown_tenant_is_named(self, folder: Path) -> None:
        code, _, err = ingest(folder)
        assert code == 2
        assert "no tenant 'acme'" in err

    @pytest.mark.parametrize("data", [b"a.pdf no tab\n", b"a.pdf\t\xff\n"])
    def test_a_bad_file_of_passwords(
        self, collection: Collection, tmp_path: Path, data: bytes
    ) -> None:
        (tmp_path / "passwords").write_bytes(data)
        code, _, err = ingest(tmp_path, "--wait", f"--passwords={tmp_path / 'passwords'}")
        assert code == 2
        assert str(tmp_path) in err


class TestWaiting:
    def test_it_follows_to_the_end_and_tells_the_outcome(
        self, collection: Collection, folder: Path, worker: Any
    ) -> None:
        worker(lambda: end(collection, state="ready", page_count=2, chunk_count=7))
        code, out, _ = ingest(folder, "--wait")
        assert code == 0
        assert re.search(r"^law/a\.md +ready +2 +7 +\d", out, re.MULTILINE)
        assert "3 ready" in out

    def test_a_deleted_document_is_not_waited_for(
        self, collection: Collection, folder: Path, worker: Any
    ) -> None:
        def delete() -> None:
            with tenant_scope(collection.tenant_id):
                Document.objects.filter(collection=collection).delete()

        worker(delete)
        assert {each["code"] for each in report(folder, "--wait")["documents"]} == {"deleted"}

    def test_a_password_is_given_as_it_stands(
        self, collection: Collection, folder: Path, worker: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        given = []

        def unlock(*, document: Document, password: str, **_: object) -> None:
            given.append((document.path, password))
            raise WrongPassword("The password is wrong.")

        monkeypatch.setattr(services, "unlock_document", unlock)
        passwords = folder.parent / "passwords.tsv"
        passwords.write_text("law/a.md\t  four \tblanks  \nother\tx\n")
        worker(lambda: end(collection, state="failed", error_code="password"))
        found = report(folder, "--wait", f"--passwords={passwords}")
        assert given == [("law/a.md", "  four \tblanks  ")]
        codes = {each["path"]: each["code"] for each in found["documents"]}
        assert codes["law/a.md"] == "wrong_password"
        assert codes["leave.txt"] == "password"
        assert "blanks" not in json.dumps(found)

    def test_an_encoding_is_used_where_a_text_asks_for_one(
        self, collection: Collection, folder: Path, worker: Any
    ) -> None:
        looks = iter(["failed", "ready", "ready"])

        def step() -> None:
            state = next(looks)
            end(collection, state=state, error_code="encoding" if state == "failed" else "")

        worker(step)
        found = report(folder, "--wait", "--encoding=cp1252")
        assert {each["state"] for each in found["documents"]} == {"ready"}
        assert {each.encoding for each in rows(collection)} == {"cp1252"}


class TestTerminal:
    def test_a_log_gets_plain_lines(self, monkeypatch: pytest.MonkeyPatch) -> None:
        stream, now = io.StringIO(), iter(range(0, 1000, 3))
        monkeypatch.setattr("time.monotonic", lambda: float(next(now)))
        progress = Progress(stream, "Sent", 100)
        for done in range(10):
            progress.show(done, "a\nb")
        progress.clear()
        assert stream.getvalue().splitlines()[0] == "Sent 0 of 100  a�b"
        assert "\r" not in stream.getvalue()

    def test_a_terminal_gets_one_line(self, monkeypatch: pytest.MonkeyPatch) -> None:
        class Terminal(io.StringIO):
            def isatty(self) -> bool:
                return True

        stream, now = Terminal(), iter(range(0, 1000, 3))
        monkeypatch.setattr("time.monotonic", lambda: float(next(now)))
        progress = Progress(stream, "Sent", 100)
        for done in (0, 50):
            progress.show(done)
        progress.clear()
        assert "[############............] Sent 50 of 100, about" in stream.getvalue()
        assert "\n" not in stream.getvalue()

    def test_what_a_terminal_cannot_show_is_replaced(self) -> None:
        stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
        assert printable("é\x1b[2J", stream) == "??[2J"
