"""The ledger as a file for spreadsheets: a line a call, read and sent a piece at a time.

A spreadsheet runs what looks like a formula, and people choose the names of keys, collections and
models: cells that could be taken for one get an apostrophe, which spreadsheets show as text.
"""

from __future__ import annotations

import csv
import io
import re
import uuid
import zlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from itertools import islice

from django.conf import settings
from django.http import StreamingHttpResponse
from django.utils.text import slugify

from apps.documents.models import Collection
from apps.gateway.ledger import selectors
from apps.gateway.ledger.days import zone_of
from apps.gateway.models import LedgerEntry
from apps.ops.names import Name, Names
from apps.ops.periods import Chosen
from apps.tenants.aio import in_thread
from apps.tenants.money import exact_amount

PIECE = 2000  # lines, one page of the ledger; some 600 kB
_BOM = "\ufeff"  # without it Excel takes the file for one in the machine's own encoding
# Full-width forms are read like the plain ones. What is not seen, such as a mark that turns the
# direction of writing, may stand before.
_UNSEEN = "\\s\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
_FORMULA = re.compile(f"^[{_UNSEEN}]*[=+\\-@＝＋－＠﹢﹣﹦﹫−]")
# Where a comma is the decimal sign, spreadsheets split lines at other characters, and inside of
# quotes too: what stands behind one of these begins a cell there.
_FORMULA_WITHIN = re.compile(f"(?<=[;,|\"'\t])(?=[{_UNSEEN}]*[=+\\-@＝＋－＠﹢﹣﹦﹫−])")
_CONTROL = re.compile("[\x00-\x1f\x7f\x85\u2028\u2029]+")


@dataclass(frozen=True)
class KnownNames:
    """The names that a file needs, read before it is sent: then there is no scope any more."""

    people: dict[str, Name]
    keys: dict[str, Name]
    collections: dict[str, Name]
    tenants: dict[str, Name]


def known_names(names: Names, tenant_id: uuid.UUID | None, chosen: Chosen) -> KnownNames:
    """Of everybody and everything with a call in the period. Call inside the tenant's scope."""

    lines = selectors.by_each(tenant_id, chosen.period, ("user", "key", "collection", "tenant"))

    def of(dimension: selectors.Dimension, *more: str) -> dict[str, Name]:
        return names.of(dimension, {*more, *(line.key for line in lines[dimension])})

    # A call that used several collections is under none of them.
    own = Collection.objects.filter(tenant_id=tenant_id) if tenant_id else Collection.objects.none()
    shelves = own.values_list("id", flat=True)
    return KnownNames(of("user"), of("key"), of("collection", *map(str, shelves)), of("tenant"))


def export_response(
    tenant_id: uuid.UUID | None, chosen: Chosen, names: KnownNames, *, title: str, packed: bool
) -> StreamingHttpResponse:
    """The file, as a download. `title` goes into its name.

    `packed`: for who takes gzip. The server holds back what a slow reader has not taken yet, and
    of a million lines (some 300 MB) that would be much.
    """
    encoder = Packer() if packed else Encoder()
    response = StreamingHttpResponse(
        _pieces(tenant_id, chosen, names, encoder), content_type="text/csv; charset=utf-8"
    )
    if packed:
        response["Content-Encoding"] = "gzip"
    response["Vary"] = "Accept-Encoding"
    name = f"costs_{slugify(title) or 'site'}_{chosen.file_part}.csv"
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    response["X-Content-Type-Options"] = "nosniff"
    response["Cache-Control"] = "no-store"
    return response


class Encoder:
    """Text as bytes."""

    def encode(self, text: str) -> bytes:
        return text.encode()

    def end(self) -> bytes:
        return b""


class Packer(Encoder):
    """The same with gzip, at its fastest."""

    def __init__(self) -> None:
        self._packing = zlib.compressobj(level=1, wbits=31)

    def encode(self, text: str) -> bytes:
        return self._packing.compress(text.encode())

    def end(self) -> bytes:
        return self._packing.flush()


async def _pieces(
    tenant_id: uuid.UUID | None, chosen: Chosen, names: KnownNames, encoder: Encoder
) -> AsyncIterator[bytes]:
    rows = selectors.rows(tenant_id, chosen.period)

    def next_piece() -> bytes | None:
        lines = [line_of(each, names, chosen.period.time_zone) for each in islice(rows, PIECE)]
        return encoder.encode(as_csv(lines)) if lines else None

    yield encoder.encode(_BOM + as_csv([header()]))
    while (piece := await in_thread(next_piece)) is not None:
        yield piece
    yield encoder.end()


def as_csv(lines: Sequence[Sequence[str]]) -> str:
    """Lines as RFC 4180 has them."""
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\r\n").writerows(lines)
    return buffer.getvalue()


def defused(text: str) -> str:
    """`text` as a cell that no spreadsheet takes for a formula, on one line."""
    one_line = _CONTROL.sub(" ", text)
    within = _FORMULA_WITHIN.sub("'", one_line)
    is_formula = _FORMULA.match(one_line) or text[:1] in {"\t", "\r", "\n"}
    return f"'{within}" if is_formula else within


def header() -> list[str]:
    currency = settings.CURRENCY
    return [
        *("time", "time (UTC)", "organisation", "made for", "hop", "person", "key"),
        *("collections", "conversation", "request", "model", "upstream", "model at upstream"),
        *("cache", "cache bypassed because", "input tokens", "of them cached", "output tokens"),
        *("tokens estimated", f"cost ({currency})", f"saved ({currency})", "saved (ms)"),
        *("waited (ms)", "first token (ms)", "total (ms)", "attempts", "outcome", "error"),
    ]


def line_of(entry: LedgerEntry, names: KnownNames, time_zone: str) -> list[str]:
    """One call. The cost is empty where it is not known: it reached an upstream without a price."""
    is_unpriced = entry.upstream and entry.price_id is None
    local = entry.at.astimezone(zone_of(time_zone))
    return [
        local.isoformat(sep=" ", timespec="seconds"),
        f"{entry.at:%Y-%m-%d %H:%M:%S}",
        _named(names.tenants, str(entry.tenant_id)),
        defused(entry.source),
        defused(entry.hop),
        _named(names.people, str(entry.user_id)) if entry.user_id else "",
        _named(names.keys, str(entry.key_id)) if entry.key_id else "",
        _collections(entry, names),
        str(entry.conversation_id or ""),
        str(entry.request_id),
        *map(defused, (entry.model, entry.upstream, entry.upstream_model)),
        *map(defused, (entry.cache, entry.cache_reason)),
        *map(str, (entry.prompt_tokens, entry.cached_tokens, entry.output_tokens)),
        "yes" if entry.tokens_estimated else "no",
        "" if is_unpriced else exact_amount(entry.cost_micros),
        exact_amount(entry.saved_micros),
        f"{entry.saved_ms:.1f}",
        f"{entry.queue_ms:.1f}",
        "" if entry.first_token_ms is None else f"{entry.first_token_ms:.1f}",
        f"{entry.total_ms:.1f}",
        str(entry.attempts),
        *map(defused, (entry.outcome, entry.error_code)),
    ]


def _named(names: dict[str, Name], key: str) -> str:
    found = names.get(key)
    if found is None:  # a call that was booked while the file was being made
        return key
    return defused(found.line)


def _collections(entry: LedgerEntry, names: KnownNames) -> str:
    ids = [str(each) for each in entry.collection_ids]
    return "; ".join(_named(names.collections, each) for each in ids)
