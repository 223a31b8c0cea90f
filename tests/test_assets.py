"""Static files lie under an address of their own version, so that browsers keep them for good."""

from __future__ import annotations

from pathlib import Path

from django.conf import settings
from django.templatetags.static import static
from django.test import Client

from ragsite.assets import assets_version


def filled(folder: Path) -> Path:
    (folder / "css").mkdir()
    (folder / "css" / "site.css").write_text("a { color: red }")
    (folder / "main.js").write_text("go();")
    return folder


def test_the_version_changes_with_any_file(tmp_path: Path) -> None:
    folder = filled(tmp_path)
    versions = [assets_version(folder)]
    for change in (
        lambda: (folder / "css" / "site.css").write_text("a { color: blue }"),
        lambda: (folder / "main.js").rename(folder / "other.js"),
        lambda: (folder / "more.js").write_text(""),
    ):
        change()
        versions.append(assets_version(folder))
    assert len(set(versions)) == len(versions)


def test_the_version_is_that_of_the_files_alone(tmp_path: Path) -> None:
    folder = filled(tmp_path)
    before = assets_version(folder)
    for path in folder.rglob("*.js"):
        path.touch()
    assert assets_version(folder) == before


def test_a_file_may_be_kept_for_good_under_its_address() -> None:
    answer = Client().get(static("css/site.css"))
    assert answer.status_code == 200
    assert "immutable" in answer.headers["Cache-Control"]
    answer.close()


def test_an_address_of_another_version_is_not_answered_with_this_one() -> None:
    other = static("css/site.css").replace(settings.STATIC_URL, "/static/000000000000/")
    assert Client().get(other).status_code == 404
