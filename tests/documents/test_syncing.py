"""Keeping in step: what comes, changes and goes; and what is left alone when it is not sure."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pytest
from pytest_django import Settings

from apps.documents import services, syncing, watching
from apps.documents.ingestion import ingest_next
from apps.documents.models import Batch, Collection, Document, Source, SourceFile, SourceRun
from apps.documents.sources.folder import FolderReader
from apps.tenants.models import Tenant
from apps.tenants.scope import tenant_scope
from tests.documents.conftest import Upload
from tests.documents.s3 import Bucket, unused_url

pytestmark = pytest.mark.django_db

Sync = Callable[[], Source]


@pytest.fixture
def folder(tmp_path: Path, settings: Settings) -> Path:
    """What acme may watch."""
    settings.WATCH_ROOTS = [str(tmp_path / "watched")]
    settings.WATCH_SETTLE_S = 0
    made = tmp_path / "watched" / "acme"
    made.mkdir(parents=True)
    return made


@pytest.fixture
def source(tenant: Tenant, collection: Collection, folder: Path) -> Source:
    return watching.add_source(
        tenant=tenant,
        collection=collection,
        user=None,
        kind="folder",
        location=str(folder),
        every_minutes=15,
    )


def run(source: Source) -> Source:
    """A whole run, all its slices."""
    SourceRun.objects.filter(source_id=source.id).update(due_at="2020-01-01T00:00Z")
    while True:
        assert syncing.sync_next()
        with tenant_scope(source.tenant_id):
            found = Source.objects.select_related("tenant").filter(id=source.id).first()
        if found is None:
            return source
        if not found.outcome["unfinished"]:
            return found


def counts(source: Source) -> dict[str, int]:
    """The numbers of the last run that are not 0."""
    numbers = {name: value for name, value in source.outcome.items() if isinstance(value, int)}
    return {name: value for name, value in numbers.items() if value}


def paths(tenant: Tenant) -> list[str]:
    with tenant_scope(tenant.id):
        return sorted(Document.objects.values_list("path", flat=True))


def put(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


# --- What happens --------------------------------------------------------------------------------


def test_files_come_with_their_paths_and_stay_unread_while_they_are_the_same(
    source: Source, folder: Path, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(folder, "a.txt", "one")
    put(folder, "rules/leave.md", "two")
    done = run(source)
    assert counts(done) == {"added": 2}
    assert paths(tenant) == ["a.txt", "rules/leave.md"]
    with tenant_scope(tenant.id):
        assert {each.source for each in Batch.objects.all()} == {Batch.Source.SYNC}

    def unread(*_: object) -> None:
        raise AssertionError("read although it is unchanged")

    monkeypatch.setattr(FolderReader, "open_file", unread)
    assert counts(run(source)) == {"unchanged": 2}


def test_other_bytes_are_the_next_version_and_a_touched_file_is_not(
    source: Source, folder: Path, tenant: Tenant
) -> None:
    put(folder, "a.txt", "one")
    put(folder, "b.txt", "same")
    run(source)
    put(folder, "a.txt", "another")
    os.utime(folder / "b.txt", (1, 1))
    assert counts(run(source)) == {"changed": 1, "unchanged": 1}
    with tenant_scope(tenant.id):
        versions = list(Document.objects.filter(path="a.txt").values_list("version", flat=True))
    assert sorted(versions) == [1, 2]
    assert counts(run(source)) == {"unchanged": 2}


def test_what_is_gone_goes_and_what_people_put_there_stays(
    source: Source, folder: Path, tenant: Tenant, upload: Upload
) -> None:
    upload(b"a person's own", "own.txt")
    put(folder, "a.txt", "one")
    put(folder, "b.txt", "two")
    run(source)
    (folder / "a.txt").unlink()
    assert counts(run(source)) == {"removed": 1, "unchanged": 1}
    assert paths(tenant) == ["b.txt", "own.txt"]


def test_a_file_does_not_come_over_a_persons_document(
    source: Source, folder: Path, tenant: Tenant, upload: Upload
) -> None:
    own = upload(b"a person's own", "own.txt")
    put(folder, "own.txt", "not theirs")
    done = run(source)
    assert counts(done) == {"refused": 1}
    assert done.outcome["refusals"][0]["code"] == "path_taken"
    (folder / "own.txt").unlink()
    run(source)
    assert paths(tenant) == ["own.txt"]
    services.delete_document(tenant=tenant, document=own, actor=None)


def test_a_persons_version_over_a_file_outlives_it(
    source: Source, folder: Path, tenant: Tenant, upload: Upload
) -> None:
    put(folder, "a.txt", "one")
    put(folder, "b.txt", "two")
    run(source)
    upload(b"a person's own version", "a.txt")
    (folder / "a.txt").unlink()
    assert counts(run(source)) == {"unchanged": 1}
    assert paths(tenant) == ["a.txt", "a.txt", "b.txt"]


def test_same_bytes_are_one_document_and_the_second_comes_when_the_first_goes(
    source: Source, folder: Path, tenant: Tenant
) -> None:
    put(folder, "a.txt", "the same")
    put(folder, "b.txt", "the same")
    put(folder, "c.txt", "other")
    assert counts(run(source)) == {"added": 2, "same": 1}
    assert counts(run(source)) == {"unchanged": 2, "same": 1}
    (folder / "a.txt").unlink()
    run(source)
    assert paths(tenant) == ["b.txt", "c.txt"]
    assert counts(run(source)) == {"unchanged": 2}


def test_a_renamed_file_moves_in_one_run(source: Source, folder: Path, tenant: Tenant) -> None:
    put(folder, "old.txt", "the same")
    put(folder, "c.txt", "other")
    run(source)
    (folder / "old.txt").rename(folder / "new.txt")
    assert counts(run(source)) == {"added": 1, "removed": 1, "unchanged": 1}
    assert paths(tenant) == ["c.txt", "new.txt"]


def test_a_file_that_becomes_another_ones_bytes_does_not_stay_as_it_was(
    source: Source, folder: Path, tenant: Tenant
) -> None:
    put(folder, "a.txt", "one")
    put(folder, "b.txt", "two")
    run(source)
    put(folder, "a.txt", "two")
    assert counts(run(source)) == {"removed": 1, "same": 1, "unchanged": 1}
    assert paths(tenant) == ["b.txt"]


def test_a_file_that_changes_back_while_its_change_is_on_its_way_waits(
    source: Source, folder: Path, tenant: Tenant
) -> None:
    put(folder, "a.txt", "one")
    run(source)
    put(folder, "a.txt", "two")
    run(source)
    put(folder, "a.txt", "one")
    assert counts(run(source))["waiting"] == 1
    with tenant_scope(tenant.id):
        Document.objects.filter(version=1).update(state="superseded")
        Document.objects.filter(version=2).update(state="ready")
    assert counts(run(source)) == {"changed": 1}
    with tenant_scope(tenant.id):
        newest = Document.objects.order_by("-version").first()
        assert newest is not None
        assert (newest.version, newest.size_bytes) == (3, 3)


def test_a_document_that_a_person_deletes_stays_deleted_until_its_file_changes(
    source: Source, folder: Path, tenant: Tenant
) -> None:
    put(folder, "a.txt", "one")
    run(source)
    with tenant_scope(tenant.id):
        document = Document.objects.get()
    services.delete_document(tenant=tenant, document=document, actor=None)
    run(source)
    assert paths(tenant) == []
    put(folder, "a.txt", "changed")
    run(source)
    assert paths(tenant) == ["a.txt"]


# --- What is not sure ----------------------------------------------------------------------------


def test_a_folder_that_is_gone_removes_nothing(
    source: Source, folder: Path, tenant: Tenant
) -> None:
    put(folder, "a.txt", "one")
    run(source)
    folder.rename(folder.parent / "away")
    done = run(source)
    assert done.outcome["code"] == "source_unreachable"
    assert paths(tenant) == ["a.txt"]
    (folder.parent / "away").rename(folder)
    assert counts(run(source)) == {"unchanged": 1}


def test_an_empty_folder_removes_nothing_until_it_is_confirmed(
    source: Source, folder: Path, tenant: Tenant
) -> None:
    put(folder, "a.txt", "one")
    run(source)
    (folder / "a.txt").unlink()  # as a mount that is gone looks
    done = run(source)
    assert (counts(done), done.outcome["code"]) == ({"held": 1}, "removals_held")
    assert paths(tenant) == ["a.txt"]
    watching.allow_removals(tenant=tenant, source=source, actor=None, count=1)
    assert counts(run(source)) == {"removed": 1}
    assert paths(tenant) == []


def test_most_of_many_files_wait_for_a_confirmation_of_so_many(
    source: Source, folder: Path, tenant: Tenant
) -> None:
    files = [put(folder, f"{number}.txt", f"text {number}") for number in range(12)]
    run(source)
    for file in files[:7]:
        file.unlink()
    assert counts(run(source)) == {"held": 7, "unchanged": 5}
    watching.allow_removals(tenant=tenant, source=source, actor=None, count=7)
    files[7].unlink()  # one more than was confirmed
    assert counts(run(source)) == {"held": 8, "unchanged": 4}
    watching.allow_removals(tenant=tenant, source=source, actor=None, count=8)
    assert counts(run(source)) == {"removed": 8, "unchanged": 4}
    assert len(paths(tenant)) == 4


def test_a_folder_that_cannot_be_read_in_full_removes_nothing(
    source: Source, folder: Path, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(folder, "a.txt", "one")
    put(folder, "shut/b.txt", "two")
    run(source)
    real = os.open

    def refuse(path: object, *args: object, **options: object) -> int:
        if path == "shut":
            raise PermissionError(13, "Permission denied")
        return real(path, *args, **options)  # type: ignore[arg-type]

    (folder / "a.txt").unlink()
    monkeypatch.setattr(os, "open", refuse)
    done = run(source)
    assert done.outcome["code"] == "incomplete"
    assert paths(tenant) == ["a.txt", "shut/b.txt"]
    monkeypatch.undo()
    run(source)
    assert paths(tenant) == ["shut/b.txt"]


def test_a_file_that_was_written_a_moment_ago_waits(
    source: Source, folder: Path, tenant: Tenant, settings: Settings
) -> None:
    settings.WATCH_SETTLE_S = 60
    put(folder, "a.txt", "half of it")
    os.utime(folder / "a.txt", (1, 1))  # copying sets the time of the bytes
    assert counts(run(source)) == {"waiting": 1}
    settings.WATCH_SETTLE_S = 0
    assert counts(run(source)) == {"added": 1}


def test_a_file_that_grows_while_it_is_read_waits(
    source: Source, folder: Path, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = put(folder, "a.txt", "half of it")
    read = os.read

    def growing(handle: int, size: int) -> bytes:
        with path.open("a") as file:
            file.write("more")
        return read(handle, size)

    with monkeypatch.context() as patched:
        patched.setattr("apps.documents.sources.folder.os.read", growing)
        assert counts(run(source)) == {"waiting": 1}
    assert paths(tenant) == []
    assert counts(run(source)) == {"added": 1}


# --- Killed, paused, removed ---------------------------------------------------------------------


def test_a_worker_killed_after_a_document_and_before_it_was_noted_doubles_nothing(
    source: Source, folder: Path, tenant: Tenant
) -> None:
    put(folder, "a.txt", "one")
    put(folder, "b.txt", "two")
    run(source)
    with tenant_scope(tenant.id):
        SourceFile.objects.filter(path="a.txt").delete()
    assert counts(run(source)) == {"unchanged": 2}
    (folder / "a.txt").unlink()
    run(source)
    assert paths(tenant) == ["b.txt"]


def test_work_goes_on_in_slices(
    source: Source, folder: Path, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(syncing, "SLICE_S", 0.0)
    for number in range(3):
        put(folder, f"{number}.txt", f"text {number}")
    monkeypatch.setattr(syncing._Run, "_is_over", _after(1))
    done = run(source)
    assert counts(done) == {"added": 3}
    with tenant_scope(tenant.id):
        assert Batch.objects.count() == 1


def _after(files: int) -> Callable[[syncing._Run], bool]:
    """The end of a slice after so many files."""

    def is_over(self: syncing._Run) -> bool:
        self.seen = getattr(self, "seen", 0) + 1  # type: ignore[attr-defined]
        self.outcome.unfinished = self.seen > files  # type: ignore[attr-defined]
        return self.outcome.unfinished

    return is_over


def test_a_source_is_taken_by_one_and_by_another_when_that_one_is_dead(source: Source) -> None:
    turn = watching.take()
    assert turn is not None
    assert watching.take() is None
    SourceRun.objects.update(lease_expires_at="2020-01-01T00:00Z")
    again = watching.take()
    assert again is not None
    assert again.fence == turn.fence + 1
    assert not watching.renew(turn)
    watching.leave(turn, due_in_minutes=5)
    assert watching.renew(again)


def test_a_paused_source_rests(source: Source, folder: Path, tenant: Tenant) -> None:
    put(folder, "a.txt", "one")
    watching.pause_source(tenant=tenant, source=source, actor=None)
    watching.run_source_now(tenant=tenant, source=source)
    assert not syncing.sync_next()
    watching.resume_source(tenant=tenant, source=source, actor=None)
    assert syncing.sync_next()
    assert not syncing.sync_next()
    assert paths(tenant) == ["a.txt"]


@pytest.mark.parametrize("keep", [True, False])
def test_a_removed_source_leaves_its_documents_or_takes_them_along(
    source: Source, folder: Path, tenant: Tenant, upload: Upload, keep: bool
) -> None:
    upload(b"a person's own", "own.txt")
    put(folder, "a.txt", "one")
    run(source)
    watching.remove_source(tenant=tenant, source=source, actor=None, keep_documents=keep)
    assert syncing.sync_next() is not keep
    assert paths(tenant) == (["a.txt", "own.txt"] if keep else ["own.txt"])
    with tenant_scope(tenant.id):
        assert not Source.objects.exists()
        assert not SourceFile.objects.exists()
    assert not SourceRun.objects.exists()
    assert (folder / "a.txt").exists()


def test_a_source_that_is_added_again_takes_its_documents_back(
    source: Source, folder: Path, tenant: Tenant, collection: Collection
) -> None:
    put(folder, "a.txt", "one")
    put(folder, "b.txt", "two")
    run(source)
    watching.remove_source(tenant=tenant, source=source, actor=None, keep_documents=True)
    again = watching.add_source(
        tenant=tenant,
        collection=collection,
        user=None,
        kind="folder",
        location=str(folder),
        every_minutes=15,
    )
    put(folder, "b.txt", "changed")
    assert counts(run(again)) == {"changed": 1, "unchanged": 1}


def test_a_collection_that_is_deleted_takes_its_sources_along(
    source: Source, folder: Path, tenant: Tenant, collection: Collection
) -> None:
    put(folder, "a.txt", "one")
    run(source)
    services.delete_collection(tenant=tenant, collection=collection, actor=None)
    assert not SourceRun.objects.exists()
    assert not syncing.sync_next()


def test_a_root_that_is_taken_out_of_the_settings_is_read_no_more(
    source: Source, folder: Path, tenant: Tenant, settings: Settings
) -> None:
    put(folder, "a.txt", "one")
    run(source)
    settings.WATCH_ROOTS = []
    put(folder, "b.txt", "two")
    assert run(source).outcome["code"] == "source_not_allowed"
    assert paths(tenant) == ["a.txt"]


# --- Hostile -------------------------------------------------------------------------------------


def test_links_devices_and_pipes_are_not_followed_and_nothing_hangs(
    source: Source, folder: Path, tenant: Tenant, tmp_path: Path
) -> None:
    secret = put(tmp_path, "secret/secret.txt", "of somebody else")
    (folder / "passwd.txt").symlink_to("/etc/passwd")
    (folder / "up").symlink_to(tmp_path)
    (folder / "secret.txt").symlink_to(secret)
    (folder / "loop").symlink_to(folder)
    os.mkfifo(folder / "pipe.txt")
    put(folder, "honest.txt", "text")
    put(folder, ".hidden/a.txt", "hidden")
    put(folder, ".env", "hidden")
    put(folder, "~$draft.docx", "leavings")
    put(folder, "draft.txt~", "leavings")
    put(folder, "video.mp4.part", "leavings")
    done = run(source)
    assert paths(tenant) == ["honest.txt"]
    assert counts(done) == {"added": 1, "refused": 5}
    assert {each["code"] for each in done.outcome["refusals"]} == {"not_a_file"}


def test_a_folder_swapped_for_a_link_after_it_was_listed_leads_nowhere(
    source: Source, folder: Path, tenant: Tenant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = put(tmp_path, "elsewhere/a.txt", "of somebody else").parent
    put(folder, "inner/a.txt", "text")
    listing = FolderReader.list_files

    def swap(self: FolderReader):  # type: ignore[no-untyped-def]
        found = listing(self)
        if not (folder / "inner").is_symlink():
            shutil.rmtree(folder / "inner")
            (folder / "inner").symlink_to(elsewhere)
        return found

    monkeypatch.setattr(FolderReader, "list_files", swap)
    done = run(source)
    assert paths(tenant) == []
    assert done.outcome["refusals"][0]["code"] == "file_unreadable"


def test_a_file_swapped_for_a_link_or_a_pipe_after_it_was_listed_leads_nowhere(
    source: Source, folder: Path, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(folder, "a.txt", "text")
    put(folder, "b.txt", "text 2")
    listing = FolderReader.list_files

    def swap(self: FolderReader):  # type: ignore[no-untyped-def]
        found = listing(self)
        for name in ("a.txt", "b.txt"):
            (folder / name).unlink()
        (folder / "a.txt").symlink_to("/etc/passwd")
        os.mkfifo(folder / "b.txt")
        return found

    monkeypatch.setattr(FolderReader, "list_files", swap)
    done = run(source)
    assert paths(tenant) == []
    assert done.outcome["refused"] == 2


def test_a_watched_folder_that_becomes_a_link_is_not_entered(
    source: Source, folder: Path, tenant: Tenant
) -> None:
    put(folder, "a.txt", "one")
    run(source)
    shutil.rmtree(folder)
    folder.symlink_to("/etc")
    assert run(source).outcome["code"] == "source_unreachable"
    assert paths(tenant) == ["a.txt"]


def test_odd_names_become_clean_paths_and_do_not_take_turns(
    source: Source, folder: Path, tenant: Tenant
) -> None:
    top = os.fsencode(folder)
    for name, text in (
        (b"line\nbreak.txt", "1"),
        (b"linebreak.txt", "2"),
        (b"\xff\xfe.txt", "3"),
        ("right\u202etxt.exe".encode(), "4"),
        ("é".encode() * 120 + b".txt", "5"),
    ):
        with open(os.path.join(top, name), "w") as file:
            file.write(text)
    deep = folder
    for _ in range(5):
        deep = deep / ("d" * 150)
    put(deep, "long.txt", "6")
    done = run(source)
    assert counts(done) == {"added": 5, "refused": 1}
    assert done.outcome["refusals"][0]["path"] == "linebreak.txt"
    assert all(path.isprintable() and len(path) <= 500 for path in paths(tenant))
    assert counts(run(source)) == {"unchanged": 5, "refused": 1}


def test_more_files_than_allowed_are_refused_together(
    source: Source, folder: Path, tenant: Tenant, settings: Settings
) -> None:
    settings.WATCH_FILES_MAX = 3
    for number in range(4):
        put(folder, f"{number}.txt", f"text {number}")
    assert run(source).outcome["code"] == "too_many_files"
    assert paths(tenant) == []


def test_files_that_are_no_documents_are_refused_by_name_and_not_read_again(
    source: Source, folder: Path, tenant: Tenant, settings: Settings
) -> None:
    settings.UPLOAD_MAX_BYTES = 1024
    put(folder, "empty.txt", "")
    put(folder, "large.txt", "x" * 2000)
    done = run(source)
    assert {each["path"]: each["code"] for each in done.outcome["refusals"]} == {
        "empty.txt": "empty",
        "large.txt": "too_large",
    }
    assert counts(run(source)) == {"refused": 2}
    put(folder, "empty.txt", "no more")
    assert counts(run(source)) == {"added": 1, "refused": 1}


@pytest.mark.slow
def test_ten_thousand_files_are_looked_at_in_seconds(
    source: Source, folder: Path, tenant: Tenant
) -> None:
    for number in range(10_000):
        inner = folder / f"{number % 100:02}"
        inner.mkdir(exist_ok=True)
        (inner / f"{number}.txt").write_text(str(number))
    reader = FolderReader(str(folder.parent), ("acme",))
    listing = reader.list_files()
    with tenant_scope(tenant.id):
        SourceFile.objects.bulk_create(
            SourceFile(
                tenant=tenant,
                source=source,
                path=each.path,
                size_bytes=each.size_bytes,
                stamp=each.stamp,
            )
            for each in listing.entries
        )
    start = time.perf_counter()
    done = run(source)
    assert counts(done) == {"unchanged": 10_000}
    took_s = time.perf_counter() - start
    print(f"10,000 unchanged files: {took_s:.2f} s")  # noqa: T201
    assert took_s < 8


# --- S3 ------------------------------------------------------------------------------------------


@pytest.fixture
def prefix(tenant: Tenant, collection: Collection, bucket: Bucket, settings: Settings) -> Source:
    settings.WATCH_S3 = [f"acme={bucket.name}/in"]
    return watching.add_source(
        tenant=tenant,
        collection=collection,
        user=None,
        kind="s3",
        location=f"s3://{bucket.name}/in/rules",
        every_minutes=15,
    )


def test_a_prefix_is_kept_in_step_too(prefix: Source, bucket: Bucket, tenant: Tenant) -> None:
    bucket.put("in/rules/a.txt", b"one")
    bucket.put("in/rules/deep/b.txt", b"two")
    bucket.put("in/rules/.hidden/c.txt", b"hidden")
    bucket.put("in/rules/folder/", b"")
    bucket.put("in/other.txt", b"outside")
    assert counts(run(prefix)) == {"added": 2}
    assert paths(tenant) == ["a.txt", "deep/b.txt"]
    bucket.put("in/rules/a.txt", b"changed")
    bucket.delete("in/rules/deep/b.txt")
    assert counts(run(prefix)) == {"changed": 1, "removed": 1}
    assert counts(run(prefix)) == {"unchanged": 1}
    assert ingest_next()


def test_an_object_replaced_after_it_was_listed_waits(
    prefix: Source, bucket: Bucket, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    from apps.documents.sources.s3 import PrefixReader

    bucket.put("in/rules/a.txt", b"one")
    listing = PrefixReader.list_files

    def replace(self: PrefixReader):  # type: ignore[no-untyped-def]
        found = listing(self)
        bucket.put("in/rules/a.txt", b"two")
        return found

    with monkeypatch.context() as patched:
        patched.setattr(PrefixReader, "list_files", replace)
        assert counts(run(prefix)) == {"waiting": 1}
    assert counts(run(prefix)) == {"added": 1}


def test_a_store_that_is_away_removes_nothing(
    prefix: Source, bucket: Bucket, tenant: Tenant, settings: Settings
) -> None:
    bucket.put("in/rules/a.txt", b"one")
    run(prefix)
    settings.S3_ENDPOINT_URL = unused_url()
    assert run(prefix).outcome["code"] == "source_unreachable"
    assert paths(tenant) == ["a.txt"]


def test_when_the_files_own_storage_is_away_the_run_ends_and_is_made_up_for(
    source: Source,
    folder: Path,
    tenant: Tenant,
    stored_in_s3: Bucket,
    s3_url: str,
    settings: Settings,
) -> None:
    from tests.documents.s3 import store_at

    put(folder, "a.txt", "one")
    store_at(settings, stored_in_s3.name, unused_url())
    done = run(source)
    assert (counts(done), done.outcome["code"]) == ({}, "storage_unavailable")
    store_at(settings, stored_in_s3.name, s3_url)
    assert counts(run(source)) == {"added": 1}


def test_another_tenants_document_of_the_same_bytes_is_another_document(
    source: Source, folder: Path, tenant: Tenant
) -> None:
    rival = Tenant.objects.create(slug="rival", name="Rival")
    theirs = services.create_collection(tenant=rival, user=None, name="Handbook")
    services.receive_upload(
        tenant=rival, collection=theirs, user=None, path="a.txt", file=BytesIO(b"one")
    )
    put(folder, "a.txt", "one")
    assert counts(run(source)) == {"added": 1}
