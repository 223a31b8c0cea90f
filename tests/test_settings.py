"""Settings: read loudly, documented, and checked together."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest
from django.conf import settings as site
from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured
from pytest_django import Settings

from ragsite import checks, env
from ragsite.management.commands.settings_reference import reference
from ragsite.stack.postgres import OWNER_ROLE, SUPERUSER
from tests import parts


def ids(found: list[object]) -> list[str]:
    return [str(message.id) for message in found]  # type: ignore[attr-defined]


# --- One by one ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("read", "value"),
    [
        (lambda: env.integer("X", 5, "", minimum=1), "five"),
        (lambda: env.integer("X", 5, "", minimum=1), "0"),
        (lambda: env.number("X", 5.0, ""), "nan"),
        (lambda: env.number("X", 5.0, ""), "-1"),
        (lambda: env.boolean("X", False, ""), "maybe"),
        (lambda: env.url("X", "", "", schemes=("http", "https")), "example.com"),
        (lambda: env.choice("X", "a", "", options=("a", "b")), "c"),
        (lambda: env.currency("X", "USD", ""), "dollars"),
    ],
)
def test_a_value_that_can_not_be_right_names_the_setting(
    monkeypatch: pytest.MonkeyPatch, read: object, value: str
) -> None:
    monkeypatch.setattr(env, "REGISTRY", {})
    monkeypatch.setenv("X", value)
    with pytest.raises(ImproperlyConfigured, match=r"^X "):
        read()  # type: ignore[operator]


def test_a_secret_can_come_from_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(env, "REGISTRY", {})
    (tmp_path / "secret").write_text("hunter2\n")
    monkeypatch.setenv("X_FILE", str(tmp_path / "secret"))
    assert env.text("X", "", "") == "hunter2"
    monkeypatch.setenv("X_FILE", str(tmp_path / "missing"))
    with pytest.raises(ImproperlyConfigured, match="cannot be read"):
        env.text("X", "", "")


def test_the_reference_page_lists_every_setting() -> None:
    page = (site.BASE_DIR / "docs" / "settings.md").read_text()
    assert page == reference(), (
        "run: .venv/bin/python manage.py settings_reference > docs/settings.md"
    )


def test_every_setting_says_what_it_does() -> None:
    assert not [setting.name for setting in env.REGISTRY.values() if len(setting.help) < 10]


# --- Together ------------------------------------------------------------------------------------


def test_the_tests_own_settings_have_no_error() -> None:
    assert not [found for found in run_checks() if found.is_serious()]


@pytest.mark.parametrize(
    ("check", "changes", "expected"),
    [
        (checks.check_origins, {"ALLOWED_HOSTS": ["*"]}, "ragsite.E001"),
        (checks.check_origins, {"SITE_ORIGINS": ["docs.example.com"]}, "ragsite.E002"),
        (checks.check_origins, {"SITE_ORIGINS": ["https://localhost/chat"]}, "ragsite.E002"),
        (checks.check_origins, {"SITE_ORIGINS": ["https://docs.example.com"]}, "ragsite.E003"),
        (
            checks.check_exposure,
            {
                "DEBUG": True,
                "SITE_ORIGINS": ["https://x.example"],
                "ALLAUTH_TRUSTED_PROXY_COUNT": 1,
            },
            "ragsite.E004",
        ),
        (
            checks.check_exposure,
            {"SITE_ORIGINS": ["https://x.example"], "ALLAUTH_TRUSTED_PROXY_COUNT": 0},
            "ragsite.W001",
        ),
        (checks.check_single_sign_on, {"OIDC_ISSUER": "https://id.example"}, "ragsite.E005"),
        (checks.check_single_sign_on, {"OIDC_CLIENT_ID": "ragsite"}, "ragsite.E005"),
        (
            checks.check_retrieval,
            {"CHUNK_OVERLAP_TOKENS": 200, "CHUNK_TOKENS": 200},
            "ragsite.E006",
        ),
        (checks.check_retrieval, {"RERANKER": "cross-encoder"}, "ragsite.E007"),
        (checks.check_retrieval, {"RERANKER": "tei"}, "ragsite.E007"),
        (
            checks.check_generation,
            {"GENERATION_MAX_TOKENS": 2048, "GENERATION_CONTEXT_TOKENS": 2048},
            "ragsite.E008",
        ),
        (
            checks.check_storage,
            {"S3_BUCKET": "b", "S3_REGION": "r", "S3_ACCESS_KEY": "k"},
            "ragsite.E012",
        ),
        (checks.check_storage, {"S3_ENDPOINT_URL": "http://s3"}, "ragsite.E013"),
        (checks.check_storage, {"S3_PREFIX": "ragsite"}, "ragsite.E013"),
        (checks.check_storage, {"S3_BUCKET": "b"}, "ragsite.E014"),
        (checks.check_storage, {"WATCH_S3": ["b/p"]}, "ragsite.E014"),
        (checks.check_watching, {"WATCH_ROOTS": ["acme=srv"]}, "ragsite.E015"),
        (checks.check_watching, {"WATCH_ROOTS": ["/srv/../etc"]}, "ragsite.E015"),
        (checks.check_watching, {"WATCH_ROOTS": ["acme=/"]}, "ragsite.E016"),
        (checks.check_watching, {"WATCH_ROOTS": [f"{site.MEDIA_ROOT}/documents"]}, "ragsite.E016"),
        (checks.check_watching, {"S3_BUCKET": "b", "WATCH_S3": ["b/p"]}, "ragsite.E016"),
        (checks.check_servers, {"DATABASE_URL": ""}, "ragsite.W002"),
        (
            checks.check_servers,
            {"REDIS_URL": "", "TEI_URL": "http://x", "TGI_URL": "http://x"},
            "ragsite.W003",
        ),
        (checks.check_servers, {"TEI_URL": "", "TGI_URL": "http://x"}, "ragsite.W004"),
        (checks.check_servers, {"TEI_URL": "http://x", "TGI_URL": ""}, "ragsite.W005"),
    ],
)
def test_a_wrong_combination_is_found(
    settings: Settings, check: object, changes: dict[str, object], expected: str
) -> None:
    assert ids(check()) != [expected]  # type: ignore[operator]
    for name, value in changes.items():
        setattr(settings, name, value)
    assert ids(check()) == [expected]  # type: ignore[operator]


def test_one_role_for_both_urls_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert checks.check_roles_differ() == []
    monkeypatch.setitem(site.DATABASES["owner"], "USER", site.DATABASES["default"]["USER"])
    assert ids(checks.check_roles_differ()) == ["ragsite.E009"]


def role_ids(settings: Settings, url: str) -> list[str]:
    settings.DATABASE_URL = url
    return ids(checks.check_role_is_bound(databases=["default"]))


@pytest.mark.django_db
def test_the_applications_role_passes() -> None:
    assert checks.check_role_is_bound(databases=["default"]) == []


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("role", "expected"), [(SUPERUSER, "ragsite.E010"), (OWNER_ROLE, "ragsite.E011")]
)
def test_a_role_that_policies_do_not_bind_is_refused(
    settings: Settings, role: str, expected: str
) -> None:
    assert role_ids(settings, parts.postgres.url(role, parts.DATABASE)) == [expected]


@pytest.mark.django_db
def test_a_role_that_may_become_the_owner_is_refused(settings: Settings) -> None:
    admin = parts.postgres.url(SUPERUSER, parts.DATABASE)
    with psycopg.connect(admin, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE climber LOGIN IN ROLE {OWNER_ROLE}")
        try:
            found = role_ids(settings, parts.postgres.url("climber", parts.DATABASE))
        finally:
            connection.execute("DROP ROLE climber")
    assert found == ["ragsite.E011"]


def test_a_database_that_does_not_answer_is_said_without_its_password(settings: Settings) -> None:
    settings.DATABASE_URL = "postgresql://someone:hunter2@127.0.0.1:1/nowhere"
    (found,) = checks.check_role_is_bound(databases=["default"])
    assert found.id == "ragsite.W006"
    assert "hunter2" not in f"{found.msg} {found.hint}"
