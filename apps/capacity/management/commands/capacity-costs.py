"""What tokens cost on a measured machine, as text; the memo as a file; its price in the gateway."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from apps.capacity.economics.costing import Costs, Range, compute
from apps.capacity.economics.forms import OWN, TYPED, CostsForm, test_id_of
from apps.capacity.economics.markdown import memo_markdown
from apps.capacity.economics.measured import Measured
from apps.capacity.economics.memo import write_memo
from apps.capacity.economics.selectors import read_measured, tests_with_a_knee
from apps.capacity.economics.services import measured_price, set_measured_price
from apps.capacity.economics.words import money, percent, rounded, tokens
from apps.capacity.errors import PlanInvalid
from apps.documents.management.terminal import printable

WRONG_USE = 2
_APIS = 5
_HEAD = ("Use of the knee", "written, all", "written", "read", "both")


class Command(BaseCommand):
    help = (
        "What a million tokens cost at the knee of a load test, beside what others take, and from "
        "which volume owning wins. Sums are in units of the site's currency."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("test", nargs="?", default="", help="its id (the newest with a knee)")
        parser.add_argument("--hour", default="", help="an hour of the machine (as in the test)")
        parser.add_argument("--purchase", default="", help="or: what it was bought for,")
        parser.add_argument("--years", default="", help="... used for so many years,")
        parser.add_argument("--power", default="", dest="power_w", help="... at so many watts,")
        parser.add_argument("--kwh", default="", help="... at this price of a kWh,")
        parser.add_argument("--hosting", default="", help="... hosted for this a month")
        parser.add_argument("--days", default="7", help="of the ledger: 1, 7, 30 or 90 (7)")
        parser.add_argument("--mix", default="test", help="of tokens: test or ledger (test)")
        parser.add_argument("--busy", default="40", metavar="PERCENT", help="planned use (40)")
        parser.add_argument("--volume", default="", metavar="MILLION", help="tokens a month")
        parser.add_argument("--shared", default="", help="fixed costs a month beside machines")
        parser.add_argument("--marginal", default="", help="of a million tokens, beside the hours")
        parser.add_argument("--memo", type=Path, metavar="FILE", help="write the memo, Markdown")
        parser.add_argument(
            "--set-price",
            default="",
            metavar="UPSTREAM",
            help="book calls there at this price from now on, for the use that --busy says",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        costs = _compute(options)
        for line in _lines(costs):
            self.stdout.write(printable(line.replace("\xa0", " "), sys.stdout))
        if options["memo"]:
            memo = write_memo(costs, today=timezone.now().date())
            options["memo"].write_text(memo_markdown(memo), encoding="utf-8")
            self.stdout.write(f"Memo: {options['memo']}")
        if options["set_price"]:
            self._set_price(costs, options["set_price"])

    def _set_price(self, costs: Costs, upstream: str) -> None:
        choices = costs.choices
        try:
            price = measured_price(choices.measured, choices.hour, choices.busy)
            set_measured_price(price=price, upstream=upstream, actor=None)
        except PlanInvalid as exc:
            raise _wrong(str(exc)) from exc
        self.stdout.write(f"Calls to {upstream} are booked at this price from now on.")


def _compute(options: dict[str, Any]) -> Costs:
    measured = _measured(options["test"])
    names = [name for name in CostsForm.base_fields if name in options and name != "test"]
    source = OWN if options["purchase"] else TYPED if options["hour"] else ""
    asked = {name: options[name] for name in names}
    form = CostsForm(
        {**asked, **({"price": source} if source else {})},
        tests=tests_with_a_knee(),
        measured=measured,
    )
    if not form.is_valid():
        wrong = (f"{name}: {' '.join(map(str, errors))}" for name, errors in form.errors.items())
        raise _wrong(" ".join(wrong))
    choices = form.choices()
    if choices is None:
        raise _wrong("No price of an hour was given with this test: give --hour or --purchase.")
    try:
        return compute(choices)
    except PlanInvalid as exc:
        raise _wrong(str(exc)) from exc


def _measured(asked: str) -> Measured:
    test_id = test_id_of(asked) if asked else None
    measured = read_measured(test_id) if test_id or not asked else None
    if measured is None:
        raise _wrong(
            f"There is no load test {asked[:40]!r} with a knee."
            if asked
            else "No knee was measured yet: run `manage.py loadtest` with promises first."
        )
    return measured


def _lines(costs: Costs) -> Iterator[str]:
    choices = costs.choices
    measured = choices.measured
    yield f"{measured.test.name} ({measured.test.id})"
    yield (
        f"Measured at {rounded(measured.load)} ({measured.plan.arrivals}), "
        f"{measured.requests} requests, {measured.failed} failed: "
        f"{rounded(measured.made.input_per_s)} tokens read and "
        f"{rounded(measured.made.output_per_s)} written a second."
    )
    yield f"An hour: {money(choices.hour.micros)}, {choices.hour.words}. {choices.hour.warning}"
    yield ""
    yield "A million tokens: written with all of the cost; written and read, divided; both."
    yield "".join(f"{head:>16}" for head in _HEAD)
    for row in costs.rows:
        share = percent(row.usage.share)
        label = f"ledger {share}" if row.usage.is_ledger else share
        cells = (row.all_on_output, row.split_output, row.split_input, row.together)
        yield f"{label:>16}" + "".join(f"{_value(cell):>16}" for cell in cells)
    full = costs.rows[0].all_on_output
    if full and full.low is not None and full.high is not None:
        yield f"At the knee's 95 % interval: {money(full.low)} to {money(full.high)} written."
    yield ""
    for api in costs.apis[:_APIS]:
        price = api.price
        yield (
            f"{money(api.blended):>10} {price.provider}: {price.model} "
            f"(list figure, {price.as_of}, {price.source})"
        )
    yield ""
    memo = write_memo(costs, today=timezone.now().date())
    yield memo.recommendation
    even = costs.even
    if even is not None and even.one_tokens is not None:
        made = costs.planned.capacity_tokens
        yield (
            f"One machine is earned back at {tokens(even.one_tokens)} tokens a month, and makes "
            f"{tokens(made)} when {percent(choices.busy)} busy."
        )


def _value(cost: Range | None) -> str:
    return money(cost.value) if cost else "–"


def _wrong(words: str) -> CommandError:
    return CommandError(words, returncode=WRONG_USE)
