"""The ledger as a file: every call of the period, exact, and no cell that runs in a spreadsheet."""

from __future__ import annotations

import csv
import gzip
import io
import uuid
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.http import StreamingHttpResponse

from apps.documents.models import Collection
from apps.gateway.models import LedgerEntry
from apps.ops.export import PIECE, as_csv, defused, header
from apps.tenants.models import ApiKey, Tenant, User
from apps.tenants.scope import tenant_scope
from apps.tenants.tokens import hash_token
from tests.cast import Cast, signed_in
from tests.gateway.entries import booked, medley

# The file is read by other threads, with connections of their own.
pytestmark = pytest.mark.django_db(transaction=True)

MARCH = {"period": "own", "from": "2026-03-01", "to": "2026-03-31"}


def pieces_of(
    user: User, page: str = "/t/acme/costs/export/", headers: dict[str, str] | None = None
) -> list[bytes]:
    """What is sent, piece by piece."""
    response = signed_in(user).get(page, MARCH, headers=headers)
    assert response.status_code == 200
    assert isinstance(response, StreamingHttpResponse)

    async def collect() -> list[bytes]:
        return [piece async for piece in response]  # type: ignore[union-attr]

    return async_to_sync(collect)()


def lines_of(user: User, page: str = "/t/acme/costs/export/") -> list[dict[str, str]]:
    text = b"".join(pieces_of(user, page)).decode("utf-8")
    assert text.startswith("\ufeff")
    return list(csv.DictReader(io.StringIO(text.removeprefix("\ufeff"))))


def call(tenant: Tenant, **changes: Any) -> LedgerEntry:
    return booked(tenant.id, changes.pop("at", datetime(2026, 3, 10, 12, tzinfo=UTC)), **changes)


def test_it_has_a_line_a_call_and_adds_up_to_the_micro(cast: Cast) -> None:
    march = datetime(2026, 3, 2, tzinfo=UTC)
    LedgerEntry.objects.bulk_create(medley(cast.acme.id, PIECE + 300, begin=march, hours=600))
    call(cast.rival, cost_micros=99)
    call(cast.acme, at=march - timedelta(days=2), cost_micros=99)
    pieces = pieces_of(cast.alice)
    assert len(pieces) == 4  # the heads, two pages, and the end
    lines = lines_of(cast.alice)
    rows = list(LedgerEntry.objects.filter(tenant_id=cast.acme.id, at__gte=march).order_by("id"))
    assert [line["request"] for line in lines] == [str(row.request_id) for row in rows]
    known = [row for row in rows if row.price_id is not None or not row.upstream]
    assert 0 < len(known) < len(rows)
    costs = [Decimal(line["cost (USD)"]) for line in lines if line["cost (USD)"]]
    assert sum(costs) * 10**6 == sum(row.cost_micros for row in known)
    assert len(costs) == len(known)
    for column, field in (
        ("input tokens", "prompt_tokens"),
        ("of them cached", "cached_tokens"),
        ("output tokens", "output_tokens"),
    ):
        assert sum(int(line[column]) for line in lines) == sum(getattr(row, field) for row in rows)


def test_an_unknown_cost_is_left_empty(cast: Cast) -> None:
    call(cast.acme, price_id=None, cost_micros=0)
    call(cast.acme, price_id=None, upstream="", cache="hit", cost_micros=0, saved_micros=7)
    assert [line["cost (USD)"] for line in lines_of(cast.alice)] == ["", "0.000000"]
    assert lines_of(cast.alice)[1]["saved (USD)"] == "0.000007"


def test_its_name_has_tenant_and_days(cast: Cast) -> None:
    response = signed_in(cast.alice).get("/t/acme/costs/export/", MARCH)
    assert response["Content-Disposition"] == (
        'attachment; filename="costs_acme_2026-03-01_2026-03-31.csv"'
    )
    assert response["Content-Type"] == "text/csv; charset=utf-8"
    assert response["Cache-Control"] == "no-store"


def test_times_are_where_the_tenant_is_and_in_utc(cast: Cast) -> None:
    Tenant.objects.filter(id=cast.acme.id).update(time_zone="Asia/Kolkata")
    call(cast.acme, at=datetime(2026, 3, 31, 18, 29, 59, tzinfo=UTC))
    call(cast.acme, at=datetime(2026, 3, 31, 18, 30, tzinfo=UTC))
    (line,) = lines_of(cast.alice)
    assert line["time"] == "2026-03-31 23:59:59+05:30"
    assert line["time (UTC)"] == "2026-03-31 18:29:59"


HOSTILE = [
    *("=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "  =1+1"),
    *("＝1+1", "＋1", "－1", "＠x", "\N{RIGHT-TO-LEFT MARK}=1", "\N{ZERO WIDTH SPACE}=1"),
]


@pytest.mark.parametrize("name", HOSTILE)
def test_no_cell_runs(cast: Cast, name: str) -> None:
    with tenant_scope(cast.acme.id):
        shelf = Collection.objects.create(tenant=cast.acme, name=name)
    key = ApiKey.objects.create(
        tenant=cast.acme, name=name, prefix="rk_", key_hash=hash_token(name)
    )
    User.objects.filter(id=cast.bob.id).update(email=f"{name.strip()}@example.com")
    Tenant.objects.filter(id=cast.acme.id).update(name=name)
    changes = {"model": name, "upstream": name, "upstream_model": name, "cache_reason": name}
    who = {"user_id": cast.bob.id, "key_id": key.id, "collection_ids": [shelf.id]}
    call(cast.acme, **changes, **who)
    for user, page in ((cast.alice, "/t/acme/costs/export/"), (cast.olga, "/ops/costs/export/")):
        (line,) = lines_of(user, page)
        named = ["model", "upstream", "model at upstream", "cache bypassed because", "organisation"]
        if user == cast.alice:
            named += ["key", "collections", "person"]
            named.remove("organisation")
        for column in named:
            assert line[column].startswith("'"), column
        assert not any(cell[:1] in {*"=+-@＝＋－＠\t\r\n"} and cell for cell in line.values())


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("plain", "plain"),
        ("", ""),
        ("2-3", "2-3"),
        ("a=b", "a=b"),
        ("anna@example.com", "anna@example.com"),
        ("=1", "'=1"),
        ("Sales;=1+1", "Sales;'=1+1"),
        ('x",=1', "x\",'=1"),
        ("one\ntwo", "one two"),
        ("\x00=1", "' =1"),
        ("−1", "'−1"),
        ("naïve – façade 日本", "naïve – façade 日本"),
    ],
)
def test_only_what_could_be_a_formula_is_changed(text: str, cell: str) -> None:
    assert defused(text) == cell


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_no_separator_of_another_country_opens_a_cell_that_runs(separator: str) -> None:
    line = as_csv([[defused('a";=1'), defused("b\t=1"), defused("c,=1")]])
    for cell in line.replace('"', "").split(separator):
        assert not cell.startswith("=")


def test_a_file_without_calls_has_its_heads(cast: Cast) -> None:
    assert b"".join(pieces_of(cast.alice)).decode() == "\ufeff" + as_csv([header()])


def test_operations_get_identifiers_instead_of_names(cast: Cast) -> None:
    with tenant_scope(cast.acme.id):
        shelf = Collection.objects.create(tenant=cast.acme, name="Handbook")
    call(cast.acme, user_id=cast.bob.id, collection_ids=[shelf.id])
    call(cast.rival, collection_ids=[uuid.UUID(int=1), uuid.UUID(int=2)])
    ours, theirs = lines_of(cast.olga, "/ops/costs/export/")
    assert (ours["organisation"], theirs["organisation"]) == ("Acme", "Rival")
    assert (ours["person"], ours["collections"]) == (
        *(f"Person {cast.bob.id}", f"Collection {shelf.id}"),
    )
    assert theirs["collections"] == f"{uuid.UUID(int=1)}; {uuid.UUID(int=2)}"


def test_all_of_several_collections_are_named(cast: Cast) -> None:
    with tenant_scope(cast.acme.id):
        ids = [
            Collection.objects.create(tenant=cast.acme, name=name).id for name in ("Laws", "=Bad")
        ]
    call(cast.acme, collection_ids=[*ids, uuid.UUID(int=3)])
    (line,) = lines_of(cast.alice)
    assert line["collections"] == f"Laws; '=Bad; {uuid.UUID(int=3)}"


def test_it_is_packed_for_who_takes_that(cast: Cast) -> None:
    LedgerEntry.objects.bulk_create(
        medley(cast.acme.id, PIECE + 1, begin=datetime(2026, 3, 2, tzinfo=UTC), hours=600)
    )
    plain = b"".join(pieces_of(cast.alice))
    packed = b"".join(pieces_of(cast.alice, headers={"Accept-Encoding": "br, gzip"}))
    assert gzip.decompress(packed) == plain
    assert len(packed) < len(plain) / 2


def test_managers_get_names_and_others_of_the_tenant_get_nothing(cast: Cast) -> None:
    call(cast.acme, user_id=cast.bob.id)
    (line,) = lines_of(cast.alice)
    assert line["person"] == "bob@example.com"
    for who in (cast.carl, cast.bob):
        assert signed_in(who).get("/t/acme/costs/export/").status_code == 403
