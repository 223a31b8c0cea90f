"""The pages of what tokens cost: for operations, empty, full, printed and confirmed."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import timedelta
from fractions import Fraction
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import transaction
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from apps.capacity.catalogue.selectors import rentals
from apps.capacity.economics.selectors import read_measured
from apps.capacity.models import Gpu, ListPrice, LoadTest
from apps.gateway.calling import catalogue
from apps.gateway.ledger.booking import book
from apps.gateway.ledger.prices import cost_micros, price_rule
from apps.gateway.models import GatewayUpstream, Price
from apps.gateway.types import Call, Caller, Source, Usage
from apps.telemetry.models import AuditEvent
from tests.capacity.factories import KNEE, TARGET, make_test
from tests.cast import Cast, signed_in

pytestmark = pytest.mark.django_db

PAGE = "/ops/capacity/costs/"
PAGES = (PAGE, f"{PAGE}memo/", f"{PAGE}memo.md", f"{PAGE}price/")


@pytest.fixture
def ops(cast: Cast) -> Client:
    return signed_in(cast.olga)


@pytest.fixture
def load_test() -> LoadTest:
    return make_test(finished_at=timezone.now())


def text_of(response: Any) -> str:
    assert response.status_code == 200
    return str(response.content.decode())


@pytest.mark.parametrize("page", PAGES)
def test_only_operations_see_it(cast: Cast, page: str) -> None:
    assert signed_in(cast.alice).get(page).status_code == 404
    assert Client().get(page).status_code == 302


def test_without_a_knee_the_page_says_what_to_do(ops: Client) -> None:
    make_test(knee=None)
    make_test(knee=KNEE, state=LoadTest.State.CANCELLED)
    make_test(knee=KNEE.model_copy(update={"found": False, "reason": "untrustworthy"}))
    page = text_of(ops.get(PAGE))
    assert "No knee was measured yet" in page
    assert "nothing to write of yet" in text_of(ops.get(f"{PAGE}memo/"))
    assert ops.get(f"{PAGE}memo.md").status_code == 404
    assert ops.get(f"{PAGE}price/").status_code == 302


def test_the_newest_knee_is_shown_with_its_price(ops: Client, load_test: LoadTest) -> None:
    make_test(name="Older", finished_at=timezone.now() - timedelta(days=1))
    page = text_of(ops.get(PAGE))
    assert "Sweep of the engine" in page
    # 0.08 dollars an hour over 38 tokens a second.
    assert "$0.585" in page
    assert 'id="output-per-s">38<' in page


def book_tokens(cast: Cast, prompt: int, output: int, upstream: str = "engine") -> None:
    """One call of this much, now."""
    caller = Caller(cast.acme.id, "UTC", Source.CHAT, cast.alice.id, None, None)
    call = Call("generate", "m", upstream, usage=Usage(prompt, 0, output), total_ms=1)
    with transaction.atomic():
        book(caller, uuid.uuid4(), call, None)


def test_the_ledgers_use_is_tokens_over_what_the_knee_makes(
    ops: Client, cast: Cast, load_test: LoadTest
) -> None:
    assert "nothing was booked at" in text_of(ops.get(PAGE))
    book_tokens(cast, 3000, 500)
    book_tokens(cast, 10**6, 10**6, upstream="another")
    page = text_of(ops.get(PAGE, {"days": "1"}))
    assert "3,000 tokens read and 500 written in 1 call" in page
    assert "by tokens written" in page


def test_more_than_the_knee_makes_is_said(ops: Client, cast: Cast, load_test: LoadTest) -> None:
    book_tokens(cast, 1000, 100)
    words = "More was booked than the knee makes"
    assert words not in text_of(ops.get(PAGE, {"days": "90"}))
    book_tokens(cast, 10**10, 10**9)
    page = text_of(ops.get(PAGE, {"days": "90", "mix": "ledger"}))
    assert words in page
    assert "as in the ledger at engine, the last 90 days" in page


def test_a_test_without_an_upstream_says_why_its_use_is_not_known(ops: Client) -> None:
    make_test(target=TARGET.model_copy(update={"upstream": ""}))
    assert "names no upstream of the gateway" in text_of(ops.get(PAGE))


def test_names_are_escaped_everywhere(ops: Client) -> None:
    evil = "<script>alert(1)</script> | `x` [a](b) 漢字"
    make_test(
        name=evil,
        conditions={"model": evil, "engine": evil, "machine": evil, "precision": 7, "gpus": "no"},
    )
    for page in (PAGE, f"{PAGE}memo/", f"{PAGE}price/"):
        assert "<script>alert" not in text_of(ops.get(page))
    written = text_of(ops.get(f"{PAGE}memo.md"))
    assert "<script>" not in written.replace("\\<", "")
    assert "\\| \\`x\\` \\[a\\](b) 漢字" in written


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hour", "nan"),
        ("hour", "Infinity"),
        ("hour", "-1"),
        ("hour", "1e400"),
        ("hour", "9" * 500),
        ("busy", "0"),
        ("busy", "101"),
        ("volume", "-5"),
        ("volume", "x' OR 1=1"),
        ("days", "366"),
        ("price", "rental:999999:low"),
        ("price", "rental:x"),
        ("api", "-1"),
        ("endpoint", "<b>"),
        ("mix", "both"),
        ("shared", "\x00"),
    ],
)
def test_what_makes_no_sense_is_said_at_its_field(
    ops: Client, load_test: LoadTest, name: str, value: str
) -> None:
    page = text_of(ops.get(PAGE, {name: value}))
    assert "errorlist" in page
    assert "Nothing was computed" in page
    assert text_of(ops.get(f"{PAGE}memo/", {name: value}))


@pytest.mark.parametrize("test_id", ["x", str(uuid.UUID(int=7)), "'", "\x00"])
def test_a_test_that_there_is_not_is_404(ops: Client, load_test: LoadTest, test_id: str) -> None:
    for page in PAGES:
        assert ops.get(page, {"test": test_id}).status_code == 404


def test_a_sweep_without_a_price_asks_for_one(ops: Client) -> None:
    make_test(conditions={"hour_micros": None})
    assert "Choose the price of an hour above" in text_of(ops.get(PAGE))
    page = text_of(ops.get(PAGE, {"price": "typed", "hour": "3.60"}))
    # 3.60 an hour over 38 tokens a second: 1,000 micros a second.
    assert "$26.32" in page
    assert "Needed for this kind of price" in text_of(ops.get(PAGE, {"price": "typed"}))


def test_a_bought_machine_is_amortised(ops: Client, load_test: LoadTest) -> None:
    asked = {
        "price": "own",
        "purchase": "8760",
        "years": "1",
        "power_w": "1000",
        "kwh": "0.30",
        "hosting": "73",
    }
    # 730 a month for the purchase, 219 for power, 73 for hosting: 1,022 over 730 hours.
    assert "$1.40" in text_of(ops.get(PAGE, asked))


def test_a_price_of_another_gpu_is_not_taken_for_a_measurement(ops: Client) -> None:
    rental = rentals("H100 SXM")[0]
    make_test(conditions={"gpu": rental.gpu.name, "gpus": 4})
    right = text_of(ops.get(PAGE, {"price": f"rental:{rental.id}:high"}))
    assert "nobody measured it" not in right.split("What others take")[0]
    assert f"4 × {rental.gpu.name}" in right
    other = rentals("L40S")[0]
    wrong = text_of(ops.get(PAGE, {"price": f"rental:{other.id}:low"}))
    assert f"This is the price of {other.gpu.name}" in wrong


def test_old_list_figures_say_how_old_they_are(ops: Client, load_test: LoadTest) -> None:
    today = timezone.now().date()
    for days, provider in ((89, "Fresh"), (91, "Stale")):
        ListPrice.objects.create(
            provider=provider,
            model="m",
            input_micros_per_mtok=1,
            output_micros_per_mtok=1,
            source="a list",
            as_of=today - timedelta(days=days),
        )
    page = text_of(ops.get(PAGE))
    assert "91 days old" in page
    assert "89 days old" not in page


def test_an_empty_catalogue_still_has_costs(ops: Client, load_test: LoadTest) -> None:
    ListPrice.objects.all().delete()
    Gpu.objects.all().delete()
    page = text_of(ops.get(PAGE))
    assert "No list price of a managed API is in the catalogue" in page
    assert "Choose a managed API above" in page
    assert "choose a managed API" in text_of(ops.get(f"{PAGE}memo/"))


def test_the_currency_is_the_sites(ops: Client, load_test: LoadTest, settings: Settings) -> None:
    settings.CURRENCY = "CHF"
    page = text_of(ops.get(PAGE))
    assert "CHF\u00a00.585" in page
    assert "began with prices in US dollars" in page


@pytest.fixture
def upstream() -> Iterator[GatewayUpstream]:
    made = GatewayUpstream.objects.create(
        name="engine", kind=GatewayUpstream.Kind.OPENAI, url="http://127.0.0.1:9/v1"
    )
    catalogue.forget()
    yield made
    catalogue.forget()


def test_a_measured_price_is_shown_before_it_is_set(
    ops: Client, load_test: LoadTest, upstream: GatewayUpstream
) -> None:
    page = text_of(ops.get(f"{PAGE}price/"))
    assert "Use this measured price?" in page
    assert '<option value="engine" selected>' in page
    assert not Price.objects.exists()


@pytest.mark.parametrize("share", ["100", "40"])
def test_an_hour_at_the_knee_is_booked_at_the_price_of_an_hour(
    ops: Client, cast: Cast, load_test: LoadTest, upstream: GatewayUpstream, share: str
) -> None:
    answer = ops.post(
        f"{PAGE}price/?test={load_test.id}", {"upstream": "engine", "share": share}, follow=True
    )
    assert "are booked at this price from now on" in text_of(answer)
    price = Price.objects.get()
    assert (price.upstream, price.upstream_model) == ("engine", "")
    assert price.valid_from <= timezone.now()
    assert str(load_test.id)[:8] in price.note
    assert "Sweep of the engine" in price.note
    event = AuditEvent.objects.get(action="price.added")
    assert (event.actor_id, event.subject_id) == (cast.olga.id, str(price.pk))
    busy = Fraction(int(share), 100)
    usage = Usage(int(390 * 3600 * busy), 0, int(38 * 3600 * busy))
    assert abs(cost_micros(usage, price_rule(price)) - 80_000) <= 1


def test_an_upstream_that_there_is_not_gets_no_price(
    ops: Client, load_test: LoadTest, upstream: GatewayUpstream
) -> None:
    for name in ("", "nobody", "<b>", "embedding"):
        answer = ops.post(f"{PAGE}price/", {"upstream": name, "share": "100"}, follow=True)
        assert "has no upstream" in text_of(answer)
    assert not Price.objects.exists()


def test_an_hour_that_cannot_be_divided_is_not_set(ops: Client, upstream: GatewayUpstream) -> None:
    make_test(with_points=False)
    answer = ops.get(f"{PAGE}price/", follow=True)
    assert "its hour cannot be divided" in text_of(answer)
    assert "–" in text_of(ops.get(PAGE))


def test_figures_that_cannot_be_read_are_no_test(ops: Client) -> None:
    broken = make_test()
    LoadTest.objects.filter(id=broken.id).update(
        result={"knee": {**KNEE.model_dump(mode="json"), "output_per_s": "many"}}
    )
    assert read_measured(broken.id) is None
    LoadTest.objects.filter(id=broken.id).update(result={"knee": None})
    assert read_measured(broken.id) is None
    assert "No knee was measured yet" in text_of(ops.get(PAGE))


def test_a_knee_that_was_always_kept_makes_costs_an_upper_bound(ops: Client) -> None:
    knee = KNEE.model_copy(
        update={
            "found": False,
            "reason": "always_kept",
            "load": None,
            "load_low": None,
            "load_high": None,
        }
    )
    make_test(knee=knee)
    page = text_of(ops.get(PAGE))
    assert "each cost is an upper bound" in page
    assert "The knee has no interval" in page


def run(*arguments: str) -> str:
    out = StringIO()
    call_command("capacity-costs", *arguments, stdout=out)
    return out.getvalue()


def test_the_command_prints_what_the_page_shows(
    load_test: LoadTest, upstream: GatewayUpstream, tmp_path: Path
) -> None:
    memo = tmp_path / "memo.md"
    printed = run(str(load_test.id), "--memo", str(memo), "--set-price", "engine", "--busy", "25")
    assert "$0.585" in printed
    assert "120 requests, 0 failed" in printed
    assert memo.read_text().startswith("# What SmolLM2")
    assert "25\xa0% of the knee" in Price.objects.get().note


@pytest.mark.parametrize(
    "arguments",
    [
        ("nonsense",),
        (str(uuid.UUID(int=7)),),
        ("--hour", "nan"),
        ("--busy", "0"),
        ("--purchase", "10"),
        ("--set-price", "nobody"),
    ],
)
def test_the_command_says_what_is_wrong(load_test: LoadTest, arguments: tuple[str, ...]) -> None:
    with pytest.raises(CommandError) as raised:
        run(*arguments)
    assert raised.value.returncode == 2
    assert str(raised.value)


def test_the_command_without_a_knee_says_what_to_run(cast: Cast) -> None:
    with pytest.raises(CommandError, match=r"manage\.py loadtest"):
        run()
