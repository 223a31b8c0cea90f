"""Watched folders on the collection's page, and where they may be."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from apps.documents import services, syncing, watching
from apps.documents.errors import SourceNotAllowed, SourceTaken
from apps.documents.models import Collection, Document, Source, SourceRun
from apps.documents.sources import normalize, places_of
from apps.tenants.scope import tenant_scope
from tests.cast import Cast, signed_in

pytestmark = pytest.mark.django_db


@pytest.fixture
def root(tmp_path: Path, settings: Settings) -> Path:
    settings.WATCH_ROOTS = [str(tmp_path / "watched"), f"rival={tmp_path}/theirs"]
    settings.WATCH_S3 = ["lake/in", "rival=lake/theirs/"]
    settings.WATCH_SETTLE_S = 0
    (tmp_path / "watched" / "acme" / "rules").mkdir(parents=True)
    return tmp_path


@pytest.fixture
def handbook(cast: Cast) -> Collection:
    return services.create_collection(tenant=cast.acme, user=cast.carl, name="Handbook")


@pytest.fixture
def carl(cast: Cast) -> Client:
    return signed_in(cast.carl)


def page(name: str, *ids: object) -> str:
    return reverse(f"documents:{name}", args=["acme", *ids])


def add(client: Client, collection: Collection, location: object, **changes: object):  # type: ignore[no-untyped-def]
    data = {"kind": "folder", "location": str(location), "every_minutes": 15, **changes}
    return client.post(page("add_source", collection.id), data, headers={"HX-Request": "true"})


def the_source(cast: Cast) -> Source:
    with tenant_scope(cast.acme.id):
        return Source.objects.get()


# --- Where ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "location", "kept"),
    [
        ("folder", "{root}/watched/acme/rules/", "{root}/watched/acme/rules"),
        ("folder", " {root}//watched/./acme ", "{root}/watched/acme"),
        ("s3", "s3://lake/in/acme/rules", "lake/in/acme/rules/"),
        ("s3", "lake/in/acme/", "lake/in/acme/"),
    ],
)
def test_a_place_of_the_tenants_own_is_kept_in_one_spelling(
    root: Path, kind: str, location: str, kept: str
) -> None:
    location = location.format(root=root)
    assert normalize(kind, location, tenant_slug="acme") == kept.format(root=root)


@pytest.mark.parametrize(
    ("kind", "location"),
    [
        ("folder", "{root}/watched"),
        ("folder", "{root}/watched/rival"),
        ("folder", "{root}/watched/acme/../rival"),
        ("folder", "{root}/watched/acmes"),
        ("folder", "{root}/theirs"),
        ("folder", "/etc"),
        ("folder", "/"),
        ("folder", ""),
        ("folder", "watched/acme"),
        ("folder", "{root}/watched/acme/a\nb"),
        ("folder", "{root}/watched/acme/\udcff"),
        ("s3", "lake"),
        ("s3", "lake/in"),
        ("s3", "lake/in/rival"),
        ("s3", "lake/theirs"),
        ("s3", "lake/in/acme/../rival"),
        ("s3", "other/in/acme"),
        ("s3", ""),
    ],
)
def test_any_other_place_is_refused(root: Path, kind: str, location: str) -> None:
    with pytest.raises(SourceNotAllowed):
        normalize(kind, location.format(root=root), tenant_slug="acme")


def test_a_root_for_one_tenant_is_that_tenants(root: Path) -> None:
    assert normalize("folder", f"{root}/theirs", tenant_slug="rival") == f"{root}/theirs"
    assert places_of("rival") == {
        "folder": [f"{root}/watched/rival/", f"{root}/theirs/"],
        "s3": ["lake/in/rival/", "lake/theirs/"],
    }


def test_what_the_site_keeps_may_never_be_watched(root: Path, settings: Settings) -> None:
    """All tenants' files are there."""
    media = Path(settings.MEDIA_ROOT)
    media.mkdir(parents=True, exist_ok=True)
    (root / "link").symlink_to(media)
    settings.WATCH_ROOTS = [f"acme={media}/documents", f"acme={root}", f"acme={root}/link"]
    settings.S3_BUCKET, settings.S3_PREFIX = "lake", "kept/files"
    settings.WATCH_S3 = ["acme=lake", "acme=lake/kept", "acme=lake/kept/files/documents"]
    assert places_of("acme") == {}
    settings.WATCH_S3 = ["acme=lake/kept/other", "acme=lake/keptfiles"]
    assert places_of("acme") == {"s3": ["lake/kept/other/", "lake/keptfiles/"]}


# --- The page ------------------------------------------------------------------------------------


def test_the_page_says_how_to_turn_it_on(carl: Client, handbook: Collection) -> None:
    shown = carl.get(page("sources", handbook.id)).content.decode()
    assert "WATCH_ROOTS" in shown
    assert "add/" not in shown


def test_a_folder_is_added_run_paused_and_removed(
    carl: Client, handbook: Collection, cast: Cast, root: Path
) -> None:
    (root / "watched" / "acme" / "rules" / "leave.txt").write_text("25 days")
    (root / "watched" / "acme" / "rules" / "link.txt").symlink_to("/etc/passwd")
    shown = add(carl, handbook, root / "watched" / "acme" / "rules").content.decode()
    assert "Not looked at yet" in shown
    assert "as soon as a worker is free" in shown
    assert syncing.sync_next()
    shown = carl.get(page("sources", handbook.id)).content.decode()
    assert "1 added" in shown
    assert "1 refused" in shown
    assert "link.txt" in shown
    assert "In step" in shown
    source = the_source(cast)
    change = page("change_source", handbook.id, source.id)
    assert carl.post(change, {"action": "pause"}).status_code == 302
    assert "Paused" in carl.get(page("sources", handbook.id)).content.decode()
    carl.post(change, {"action": "resume"})
    carl.post(change, {"action": "run"})
    assert SourceRun.objects.get().due_at is not None
    assert carl.post(change, {"action": "remove"}).status_code == 400
    assert carl.post(change, {"action": "explode"}).status_code == 400
    carl.post(change, {"action": "remove", "keep": "0"})
    assert "Being removed" in carl.get(page("sources", handbook.id)).content.decode()
    assert syncing.sync_next()
    with tenant_scope(cast.acme.id):
        assert not Source.objects.exists()
        assert not Document.objects.exists()


def test_the_list_of_documents_follows_while_a_run_is_watched(
    carl: Client, handbook: Collection, root: Path
) -> None:
    asked = {"HX-Request": "true", "HX-Trigger": "sources-list"}
    here = page("sources", handbook.id)
    assert 'hx-trigger="every' not in carl.get(here, headers=asked).content.decode()
    add(carl, handbook, root / "watched" / "acme" / "rules")
    answer = carl.get(here, headers=asked)
    assert 'hx-trigger="every' in answer.content.decode()
    assert answer["HX-Trigger"] == "sources-moved"
    assert syncing.sync_next()
    assert 'hx-trigger="every' not in carl.get(here, headers=asked).content.decode()
    assert "sources/" in carl.get(page("collection", handbook.id)).content.decode()


def test_removals_that_wait_are_confirmed_on_the_page(
    carl: Client, handbook: Collection, cast: Cast, root: Path
) -> None:
    file = root / "watched" / "acme" / "rules" / "leave.txt"
    file.write_text("25 days")
    add(carl, handbook, file.parent)
    assert syncing.sync_next()
    file.unlink()
    source = the_source(cast)
    watching.run_source_now(tenant=cast.acme, source=source)
    assert syncing.sync_next()
    shown = carl.get(page("sources", handbook.id)).content.decode()
    assert "Remove the 1 document<" in shown
    carl.post(page("change_source", handbook.id, source.id), {"action": "confirm", "count": "1"})
    assert syncing.sync_next()
    with tenant_scope(cast.acme.id):
        assert not Document.objects.exists()


@pytest.mark.parametrize("location", ["/etc", "/srv/watched/rival", "", "x" * 600, "\x00"])
def test_a_place_that_may_not_be_watched_is_refused_in_words(
    carl: Client, handbook: Collection, cast: Cast, root: Path, location: str
) -> None:
    shown = add(carl, handbook, location)
    assert shown.status_code == 200
    assert "errorlist" in shown.content.decode()
    with tenant_scope(cast.acme.id):
        assert not Source.objects.exists()


def test_wrong_kinds_and_intervals_are_refused(
    carl: Client, handbook: Collection, cast: Cast, root: Path, settings: Settings
) -> None:
    place = root / "watched" / "acme"
    settings.WATCH_S3 = []
    for changes in ({"kind": "s3"}, {"kind": "ftp"}, {"every_minutes": 0}, {"every_minutes": "x"}):
        assert "errorlist" in add(carl, handbook, place, **changes).content.decode()


def test_a_place_is_watched_once(handbook: Collection, cast: Cast, root: Path) -> None:
    def watch() -> Source:
        return watching.add_source(
            tenant=cast.acme,
            collection=handbook,
            user=None,
            kind="folder",
            location=f"{root}/watched/acme",
            every_minutes=5,
        )

    watch()
    with pytest.raises(SourceTaken):
        watch()


def test_what_a_file_is_called_is_shown_escaped(
    carl: Client, handbook: Collection, root: Path
) -> None:
    (root / "watched" / "acme" / "rules" / "<img src=x onerror=alert(1)>").symlink_to("/etc")
    add(carl, handbook, root / "watched" / "acme" / "rules")
    assert syncing.sync_next()
    assert "<img src=x" not in carl.get(page("sources", handbook.id)).content.decode()


def test_members_and_strangers_see_and_change_nothing(
    handbook: Collection, cast: Cast, root: Path, carl: Client
) -> None:
    add(carl, handbook, root / "watched" / "acme" / "rules")
    source = the_source(cast)
    change = page("change_source", handbook.id, source.id)
    for user, status in ((cast.bob, 403), (cast.mallory, 404)):
        client = signed_in(user)
        assert client.get(page("sources", handbook.id)).status_code == status
        assert add(client, handbook, root / "watched" / "acme").status_code == status
        assert client.post(change, {"action": "remove", "keep": "0"}).status_code == status
    other = services.create_collection(tenant=cast.acme, user=None, name="Other")
    assert carl.post(page("change_source", other.id, source.id)).status_code == 404
