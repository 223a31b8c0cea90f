"""The planner's page: whose it is, what it shows, and what it answers to what cannot be."""

from __future__ import annotations

from datetime import timedelta
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from apps.capacity.catalogue.seeding import seed_catalogue
from apps.capacity.models import Gpu, ListPrice, ModelShape
from apps.capacity.planning.presets import DEFAULTS, PRESETS
from tests.cast import Cast, signed_in
from tests.gateway.entries import booked

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _catalogue() -> None:
    """Tests that empty the database take with them what a migration put there."""
    seed_catalogue()


@pytest.fixture
def olga(cast: Cast) -> Client:
    return signed_in(cast.olga)


def ask(browser: Client, **changes: str) -> HttpResponse:
    response = browser.get(reverse("capacity:plan"), {**DEFAULTS, **changes})
    assert response.status_code == 200, response.content[:500]
    return response


def text_of(response: HttpResponse) -> str:
    return " ".join(response.content.decode().split())


def test_only_operations_may_plan(cast: Cast, client: Client) -> None:
    url = reverse("capacity:plan")
    assert client.get(url).status_code == 302
    for person in (cast.alice, cast.bob, cast.mallory):
        assert signed_in(person).get(url).status_code == 404
    assert signed_in(cast.olga).get(url).status_code == 200
    assert signed_in(cast.olga).post(url).status_code == 405


def test_at_first_there_are_examples_and_no_plan(olga: Client) -> None:
    page = text_of(olga.get(reverse("capacity:plan")))
    assert "No plan yet" in page
    for preset in PRESETS:
        assert preset.title in page
    assert "step-1" not in page


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.title)
def test_every_example_is_a_whole_plan(preset: object, olga: Client) -> None:
    response = olga.get(f"{reverse('capacity:plan')}?{preset.query}")  # type: ignore[attr-defined]
    plan = response.context["plan"]
    assert plan is not None, dict(response.context["form"].errors)
    assert plan.load.carries
    page = text_of(response)
    for step in range(1, 7):
        assert f'id="step-{step}"' in page


def test_an_address_is_a_plan_even_where_parts_are_missing(olga: Client) -> None:
    response = olga.get(reverse("capacity:plan"), {"model": "Llama-3.1-70B", "gpus": "8"})
    plan = response.context["plan"]
    assert (plan.inputs.shape.name, plan.inputs.gpus) == ("Llama-3.1-70B", 8)
    assert plan.inputs.demand.prompt.mean == float(DEFAULTS["prompt_mean"])


def test_an_empty_catalogue_says_what_to_do(olga: Client) -> None:
    ModelShape.objects.all().delete()
    Gpu.objects.all().delete()
    assert "No plan yet" in text_of(olga.get(reverse("capacity:plan")))
    response = ask(olga)
    assert set(response.context["form"].errors) == {"model", "gpu"}
    assert "add it in the administration" in text_of(response)


def test_every_figure_has_its_formula_and_inputs(olga: Client) -> None:
    page = text_of(ask(olga))
    assert "2 × layers × KV heads × head size × bytes a value = 2 × 32 × 8 × 128 × 2" in page
    assert page.count('class="known-value"') <= page.count('class="formula"')
    assert "an assumption" in page


BAD = ("0", "-1", "nan", "inf", "-inf", "1e30", "", "two", "\u0661\u0662x", "<b>1</b>", "9" * 400)
NUMBERS = sorted(set(DEFAULTS) - {"model", "gpu", "precision", "kv", "source", "tenant", "days"})


@pytest.mark.parametrize("name", [n for n in NUMBERS if n != "draft"])
def test_a_bad_figure_is_answered_at_its_field(name: str, olga: Client) -> None:
    own = {"gpu": "own", "own_memory_gb": "80", "own_bandwidth_gb_s": "3350", "own_tflops": "989"}
    for value in BAD:
        response = ask(olga, **{**own, name: value})
        errors = response.context["form"].errors
        assert set(errors) <= {name, name.replace("_mean", "_p95")}, (value, dict(errors))
        if value not in ("", "0"):
            assert errors, value
        assert "<b>1</b>" not in response.content.decode()
        if errors:
            assert f'id="says-{name}"' in response.content.decode()


@pytest.mark.parametrize("name", ["model", "gpu", "precision", "kv", "source", "days", "draft"])
def test_a_choice_that_does_not_exist_is_answered_at_its_field(name: str, olga: Client) -> None:
    response = ask(olga, **{name: "<script>nothing</script>"})
    assert set(response.context["form"].errors) == {name}
    assert response.context["plan"] is None
    assert "<script>nothing" not in response.content.decode()


def test_extremes_that_are_allowed_are_computed(olga: Client) -> None:
    for changes in (
        {"gpus": "1024"},
        {"peak_per_s": "1000000", "a_day": "100000000000"},
        {"peak_per_s": "0.000001", "a_day": "0.001"},
        {"prompt_mean": "1000000", "prompt_p95": "1000000", "context": "10000000"},
        {"prompt_mean": "1", "prompt_p95": "1", "output_mean": "1", "output_p95": "1"},
        {"context": "1"},
        {"growth": "10000", "reuse": "99.9"},
        {"ttft_ms": "0.001", "tpot_ms": "0.001"},
        {"ttft_ms": "", "tpot_ms": "", "e2e_ms": ""},
        {"memory_share": "1", "reserve_gb": "10000"},
        {"utilisation": "99", "prefill_efficiency": "1", "decode_efficiency": "1"},
        {"hour": "0", "staff": "0", "overhead": "0"},
        {"draft": "Llama-3.2-1B", "acceptance": "100"},
        {"draft": "Llama-3.1-70B", "acceptance": "0", "draft_tokens": "64"},
        {"model": "DeepSeek-V3", "gpus": "16", "gpu": "H200"},
    ):
        response = ask(olga, **changes)
        assert response.context["plan"] is not None, (changes, response.context["form"].errors)


def test_what_does_not_fit_says_what_would_make_it_fit(olga: Client) -> None:
    response = ask(olga, model="Llama-3.1-70B")
    page = text_of(response)
    assert "It does not fit" in page
    assert not response.context["plan"].load.carries
    words = [each for each, _ in response.context["remedies"]]
    assert any("GPUs of this kind" in each for each in words)
    assert any("4-bit" in each for each in words)
    for _, query in response.context["remedies"]:
        again = olga.get(f"{reverse('capacity:plan')}?{query}")
        assert again.context["plan"].sizing.fit.fits, query


def test_htmx_gets_the_plan_alone_and_what_is_wrong_apart(olga: Client) -> None:
    url = reverse("capacity:plan")
    headers = {"HX-Request": "true"}
    good = olga.get(url, DEFAULTS, headers=headers).content.decode()
    assert "<html" not in good
    assert 'id="plan"' in good
    assert good.count('hx-swap-oob="true"') == len(DEFAULTS)
    bad = olga.get(url, {**DEFAULTS, "gpus": "0"}, headers=headers).content.decode()
    assert "Give a whole number from 1 to 1,024." in bad
    assert "step-1" not in bad


def test_demand_is_taken_from_the_ledger_with_its_count(olga: Client, cast: Cast) -> None:
    before = timezone.now() - timedelta(hours=3)
    for n in range(10):
        booked(cast.acme.id, before, prompt_tokens=1000 + n, output_tokens=50, cached_tokens=250)
    booked(cast.rival.id, before, prompt_tokens=9000)
    response = ask(olga, source="ledger", tenant="acme", days="7")
    plan = response.context["plan"]
    assert plan.inputs.demand.prompt.mean == pytest.approx(1004.5)
    assert plan.inputs.demand.prefix_reuse == pytest.approx(0.249, abs=0.001)
    assert "10 answers" in plan.inputs.demand.origin
    page = text_of(response)
    assert "From the ledger of <bdi>Acme</bdi>: lengths of <strong>10</strong>" in page
    fixed = olga.get(f"{reverse('capacity:plan')}?{response.context['fixed_query']}")
    again = fixed.context["plan"].inputs.demand
    assert again.origin == "typed"
    assert again.prompt.mean == pytest.approx(1004.5, abs=1)
    everybody = ask(olga, source="ledger", days="7").context["plan"]
    assert everybody.inputs.demand.prompt.mean > 1700


def test_an_empty_ledger_is_said_at_the_field(olga: Client) -> None:
    response = ask(olga, source="ledger")
    assert set(response.context["form"].errors) == {"source"}
    assert set(ask(olga, source="ledger", tenant="nobody").context["form"].errors) == {"tenant"}
    assert set(ask(olga, source="ledger", tenant="a\x00b").context["form"].errors) == {"tenant"}


def test_the_load_test_is_filled_in_from_the_plan(olga: Client) -> None:
    plan = ask(olga, e2e_ms="20000").context["plan"]
    assert parse_qs(plan.test_query) == {
        "prompt_mean": ["2000"],
        "prompt_stdev": ["1216"],
        "output_mean": ["250"],
        "output_stdev": ["213"],
        "ttft_ms": ["1000"],
        "tpot_ms": ["50"],
        "e2e_ms": ["20000"],
    }


def test_prices_carry_their_source_and_date(olga: Client) -> None:
    ListPrice.objects.create(
        provider="<i>Example</i>",
        model="Llama 3.1 8B",
        comparable_to="Llama-3.1-8B",
        input_micros_per_mtok=50_000,
        output_micros_per_mtok=80_000,
        source="https://example.org/prices",
        as_of="2026-11-01",
    )
    page = text_of(ask(olga))
    assert "https://example.org/prices, 1 Nov 2026" in page
    assert "<i>Example</i>" not in page


def test_links_of_a_plan_lead_to_plans(olga: Client) -> None:
    response = ask(olga)
    for rung, query in response.context["rungs"]:
        if query:
            found = olga.get(f"{reverse('capacity:plan')}?{query}")
            assert found.context["plan"] is not None, rung.advice
    assert urlsplit(f"?{urlencode(DEFAULTS)}").query
