"""Prices: which there are, and a new one."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime

from apps.gateway.calling import catalogue
from apps.gateway.ledger.prices import price_in_force
from apps.gateway.ledger.pricing import PerHour, PerTokens, PriceRefused, set_price
from apps.gateway.models import Price

WRONG_USE = 2
_MICROS = 1_000_000


class Command(BaseCommand):
    help = (
        "list: every price, and which are in force. set: a price of an upstream from a moment on, "
        "in units of the site's currency: per million tokens, or per hour with the throughput "
        "that was measured."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        actions.add_parser("list", help="every price")
        one = actions.add_parser("set", help="a price from a moment on")
        one.add_argument("upstream", help="as the catalogue names it")
        one.add_argument("--model", default="", help="what the upstream calls it (any)")
        one.add_argument("--input", type=_number, metavar="PRICE", help="of a million tokens read")
        one.add_argument("--cached", type=_number, metavar="PRICE", help="... from its cache")
        one.add_argument("--output", type=_number, metavar="PRICE", help="... written")
        one.add_argument("--hour", type=_number, metavar="PRICE", help="of an hour of its machine")
        one.add_argument("--input-tps", type=float, metavar="N", help="tokens read a second")
        one.add_argument("--output-tps", type=float, metavar="N", help="tokens written a second")
        one.add_argument("--from", dest="valid_from", default="", metavar="DATE", help="UTC (now)")
        one.add_argument("--note", default="", help="where the figures are from")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["action"] == "list":
            self._list()
        else:
            self._set(options)

    def _list(self) -> None:
        prices = list(Price.objects.order_by("upstream", "upstream_model", "valid_from"))
        rules, now = catalogue.current().prices, timezone.now()
        for price in prices:
            force = price_in_force(rules, price.upstream, price.upstream_model, now)
            mark = "*" if force is not None and force.id == price.id else " "
            self.stdout.write(f"{mark} {_told(price)}")
        if not prices:
            self.stdout.write("No prices: calls are booked with their tokens, and cost nothing.")

    def _set(self, options: dict[str, Any]) -> None:
        names = sorted(upstream.name for upstream in catalogue.current().upstreams)
        if options["upstream"] not in names:
            raise _wrong(
                f"There is no upstream {options['upstream']!r}. There are: "
                f"{', '.join(names) or 'none yet'}."
            )
        try:
            price = set_price(
                upstream=options["upstream"],
                upstream_model=options["model"],
                rate=_rate(options),
                valid_from=_moment(options["valid_from"]),
                note=options["note"][:200],
            )
        except PriceRefused as exc:
            raise _wrong(str(exc)) from exc
        catalogue.forget()
        self.stdout.write(f"Set: {_told(price)}")
        if price.valid_from < timezone.now():
            self.stdout.write("Calls that are booked already keep what they were booked at.")


def _rate(options: dict[str, Any]) -> PerTokens | PerHour:
    hourly = [options[name] for name in ("hour", "input_tps", "output_tps")]
    listed = [options[name] for name in ("input", "output")]
    if None not in hourly and listed == [None, None] and options["cached"] is None:
        return PerHour(*hourly)
    if None not in listed and hourly == [None] * 3:
        return PerTokens(options["input"], options["output"], options["cached"])
    raise _wrong(
        "Give --input and --output (and --cached), or --hour with --input-tps and --output-tps."
    )


def _number(text: str) -> Decimal:
    """Exact: 0.15 is not a float."""
    try:
        return Decimal(text)
    except InvalidOperation as exc:
        raise ValueError(text) from exc


def _moment(text: str) -> datetime:
    if not text:
        return timezone.now()
    try:
        day = parse_date(text)
        moment = parse_datetime(text)
    except ValueError as exc:
        raise _wrong(f"{text[:40]!r} is no day that there is.") from exc
    if moment is None and isinstance(day, date):
        moment = datetime.combine(day, time())
    if moment is None:
        raise _wrong("--from is a day, such as 2026-12-01, or a moment: 2026-12-01T08:00+01:00.")
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _told(price: Price) -> str:
    name = f"{price.upstream} {price.upstream_model or '(any model)'}"
    since = f"from {price.valid_from.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    note = f" ({price.note})" if price.note else ""
    return f"{name}: {_figures(price)}, {since}{note}"


def _figures(price: Price) -> str:
    currency = settings.CURRENCY
    if price.hour_micros is not None:
        return (
            f"{_units(price.hour_micros)} {currency} an hour at {price.input_tokens_per_s:g} "
            f"tokens read and {price.output_tokens_per_s:g} written a second"
        )
    cached = price.cached_input_micros_per_mtok
    middle = "" if cached is None else f", cached {_units(cached)}"
    return (
        f"{_units(price.input_micros_per_mtok)} in{middle}, "
        f"{_units(price.output_micros_per_mtok)} out {currency} a million tokens"
    )


def _units(micros: int) -> str:
    return f"{Decimal(micros) / _MICROS:f}"


def _wrong(words: str) -> CommandError:
    return CommandError(words, returncode=WRONG_USE)
