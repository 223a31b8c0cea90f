"""System checks: settings that are right one by one and wrong together.

`manage.py check` and every command that works with the database run them. An error stops the
command; a warning says what will not work. Each says what to change.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

import psycopg
from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.http.request import validate_host

from apps.documents.sources.places import is_own_folder, is_own_prefix, root_of


def _error(number: int, message: str, hint: str) -> Error:
    return Error(message, hint=hint, id=f"ragsite.E{number:03}")


def _warning(number: int, message: str, hint: str) -> Warning:
    return Warning(message, hint=hint, id=f"ragsite.W{number:03}")


@register(Tags.security)
def check_origins(**_: Any) -> list[CheckMessage]:
    """Where the site is reached at."""
    found: list[CheckMessage] = []
    if "*" in settings.ALLOWED_HOSTS:
        found.append(
            _error(
                1,
                "ALLOWED_HOSTS contains *: links in password mails would go to any host.",
                "List the host names the site is reached at.",
            )
        )
    for origin in settings.SITE_ORIGINS:
        parts = urlsplit(origin)
        if parts.scheme not in ("http", "https") or not parts.netloc or parts.path or parts.query:
            found.append(
                _error(
                    2,
                    f"SITE_ORIGINS contains {origin!r}, which is not an origin.",
                    "Write scheme, host and port only, such as https://docs.example.com.",
                )
            )
        elif not validate_host((parts.hostname or "").lower(), settings.ALLOWED_HOSTS):
            found.append(
                _error(
                    3,
                    f"SITE_ORIGINS contains {origin}, whose host ALLOWED_HOSTS does not.",
                    f"Add {parts.hostname} to ALLOWED_HOSTS, or take the origin out.",
                )
            )
    return found


@register(Tags.security)
def check_exposure(**_: Any) -> list[CheckMessage]:
    """What strangers could use."""
    found: list[CheckMessage] = []
    public = any(origin.startswith("https://") for origin in settings.SITE_ORIGINS)
    if settings.DEBUG and public:
        found.append(
            _error(
                4,
                "DEBUG is on and SITE_ORIGINS has an https origin: debug pages show settings.",
                "Set DEBUG=0.",
            )
        )
    if public and not settings.ALLAUTH_TRUSTED_PROXY_COUNT:
        found.append(
            _warning(
                1,
                "SITE_ORIGINS has an https origin and TRUSTED_PROXIES is 0: everyone behind the "
                "proxy counts as one address, and can use up the others' tries to sign in.",
                "Set TRUSTED_PROXIES to the number of proxies in front of the site.",
            )
        )
    return found


@register(Tags.security)
def check_single_sign_on(**_: Any) -> list[CheckMessage]:
    values = {
        "OIDC_ISSUER": settings.OIDC_ISSUER,
        "OIDC_CLIENT_ID": settings.OIDC_CLIENT_ID,
        "OIDC_CLIENT_SECRET": settings.OIDC_CLIENT_SECRET,
    }
    missing = [name for name, value in values.items() if not value]
    if not missing or len(missing) == len(values):
        return []
    return [
        _error(
            5,
            f"Single sign-on is set up in part: {', '.join(missing)} is empty.",
            "Set all of OIDC_ISSUER, OIDC_CLIENT_ID and OIDC_CLIENT_SECRET, or none.",
        )
    ]


@register()
def check_retrieval(**_: Any) -> list[CheckMessage]:
    """How documents are cut and passages found."""
    found: list[CheckMessage] = []
    if settings.CHUNK_OVERLAP_TOKENS >= settings.CHUNK_TOKENS:
        found.append(
            _error(
                6,
                f"CHUNK_OVERLAP_TOKENS ({settings.CHUNK_OVERLAP_TOKENS}) is not less than "
                f"CHUNK_TOKENS ({settings.CHUNK_TOKENS}): chunks would never move on.",
                "Set it to a fifth of CHUNK_TOKENS or less.",
            )
        )
    needed = {"cross-encoder": "RERANKER_MODEL", "tei": "TEI_RERANK_URL"}.get(settings.RERANKER)
    if needed and not getattr(settings, needed):
        found.append(
            _error(
                7,
                f"RERANKER is {settings.RERANKER} and {needed} is empty.",
                f"Set {needed}, or RERANKER=late-interaction.",
            )
        )
    return found


@register()
def check_generation(**_: Any) -> list[CheckMessage]:
    answer, context = settings.GENERATION_MAX_TOKENS, settings.GENERATION_CONTEXT_TOKENS
    if answer < context:
        return []
    return [
        _error(
            8,
            f"GENERATION_MAX_TOKENS ({answer}) is not less than GENERATION_CONTEXT_TOKENS "
            f"({context}): no room is left for the question and the passages.",
            "Make the context at least twice the longest answer.",
        )
    ]


@register()
def check_storage(**_: Any) -> list[CheckMessage]:
    """Where uploaded files are kept, and that nobody may watch that place."""
    found: list[CheckMessage] = []
    keys = [name for name in ("S3_ACCESS_KEY", "S3_SECRET_KEY") if getattr(settings, name)]
    others = [name for name in ("S3_ENDPOINT_URL", "S3_REGION") if getattr(settings, name)]
    if len(keys) == 1:
        found.append(
            _error(
                12,
                f"Of the store's keys, only {keys[0]} is set.",
                "Set S3_ACCESS_KEY and S3_SECRET_KEY, or neither to use the machine's role.",
            )
        )
    uses_s3 = settings.S3_BUCKET or settings.WATCH_S3
    if (keys or others or settings.S3_PREFIX) and not uses_s3:
        found.append(
            _error(
                13,
                f"S3_BUCKET is empty though {[*keys, *others, 'S3_PREFIX'][0]} is set: files would "
                "go to the disk.",
                "Set S3_BUCKET, or none of the S3_ settings.",
            )
        )
    if uses_s3 and not others:
        found.append(
            _error(
                14,
                "S3 is used, and S3_ENDPOINT_URL and S3_REGION are empty.",
                "Set S3_REGION for AWS, or S3_ENDPOINT_URL for another store.",
            )
        )
    return found


@register()
def check_watching(**_: Any) -> list[CheckMessage]:
    """Roots that do not do what they seem to say."""
    found: list[CheckMessage] = []
    for root in map(root_of, settings.WATCH_ROOTS):
        if not root.startswith("/") or ".." in root.split("/"):
            found.append(
                _error(
                    15,
                    f"WATCH_ROOTS contains {root!r}, which is no absolute path.",
                    "Write /srv/watched, or acme=/srv/handbooks.",
                )
            )
        elif is_own_folder(root):
            found.append(
                _error(
                    16,
                    f"WATCH_ROOTS contains {root}, which holds or is within what the site keeps: "
                    "a tenant could read the files of the others.",
                    "Name a folder outside of VAR_DIR and MEDIA_ROOT.",
                )
            )
    found += [
        _error(
            16,
            f"WATCH_S3 contains {root}, which holds or is within what the site keeps: a tenant "
            "could read the files of the others.",
            "Name another bucket, or a prefix outside of S3_PREFIX.",
        )
        for root in map(root_of, settings.WATCH_S3)
        if is_own_prefix(root)
    ]
    return found


@register()
def check_servers(**_: Any) -> list[CheckMessage]:
    """What is not configured, outside the one-machine stack (which configures all of it)."""
    if not settings.DATABASE_URL:
        return [
            _warning(
                2,
                "DATABASE_URL is empty: there is no database.",
                "Start the site with `make run`, or set DATABASE_URL, DATABASE_OWNER_URL and "
                "REDIS_URL.",
            )
        ]
    found: list[CheckMessage] = []
    if not settings.REDIS_URL:
        found.append(
            _warning(3, "REDIS_URL is empty: no document is read, no answer streams.", "Set it.")
        )
    if settings.EMBEDDER == "tei" and not settings.TEI_URL:
        found.append(
            _warning(
                4,
                "EMBEDDER is tei and TEI_URL is empty: passages are found by their words only.",
                "Set TEI_URL, or EMBEDDER=sentence-transformers.",
            )
        )
    if not (settings.TGI_URL or settings.OPENAI_URL):
        found.append(
            _warning(
                5,
                "No generator is configured: answers are quoted passages.",
                "Set TGI_URL, or OPENAI_URL and OPENAI_MODEL.",
            )
        )
    return found


@register()
def check_roles_differ(**_: Any) -> list[CheckMessage]:
    """By the URLs alone. Only `migrate` needs the owner's: the site runs best without it."""
    roles = {settings.DATABASES[alias]["USER"] for alias in ("default", "owner")}
    if not settings.DATABASE_OWNER_URL or len(roles) == 2:
        return []
    return [
        _error(
            9,
            f"DATABASE_URL and DATABASE_OWNER_URL are the same role, {roles.pop()!r}: whoever "
            "owns the tables can lift row-level security.",
            "Let DATABASE_OWNER_URL own the tables, and DATABASE_URL be a role without rights of "
            "its own; `manage.py prepare_database` grants it what it needs.",
        )
    ]


@register(Tags.database)
def check_role_is_bound(databases: Sequence[str] | None = None, **_: Any) -> list[CheckMessage]:
    """By asking PostgreSQL who the site is."""
    if not databases or not settings.DATABASE_URL:
        return []
    try:
        with psycopg.connect(settings.DATABASE_URL, connect_timeout=5) as connection:
            role, is_above, is_owner = _role(connection)
    except psycopg.OperationalError as exc:
        return [
            _warning(
                6,
                f"The database of DATABASE_URL does not answer ({type(exc).__name__}), so its "
                "role's rights are not known.",
                "Check host, port, role and password.",
            )
        ]
    found: list[CheckMessage] = []
    if is_above:
        found.append(
            _error(
                10,
                f"The role {role!r} is a superuser or has BYPASSRLS: row-level security does not "
                "bind it, and tenants could see each other's text.",
                f'ALTER ROLE "{role}" NOSUPERUSER NOBYPASSRLS, or use another role.',
            )
        )
    elif is_owner:
        found.append(
            _error(
                11,
                f"The role {role!r} owns tables, or belongs to the role that does: it can lift "
                "row-level security.",
                "Set DATABASE_URL to a role that owns nothing and belongs to no other.",
            )
        )
    return found


def _role(connection: psycopg.Connection[Any]) -> tuple[str, bool, bool]:
    """Its name; whether policies do not bind it; whether it may change tables that have them."""
    row = connection.execute(
        """
        SELECT current_user, rolsuper OR rolbypassrls, EXISTS (
            SELECT FROM pg_class JOIN pg_policy ON polrelid = pg_class.oid
            WHERE pg_has_role(current_user, relowner, 'MEMBER'))
        FROM pg_roles WHERE rolname = current_user
        """
    ).fetchone()
    assert row is not None  # noqa: S101 - the current user is in pg_roles; for the type checker
    return row[0], row[1], row[2]
