"""What a new site knows of models, GPUs and prices, and how it is read."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from pytest_django import Settings

from apps.capacity.arithmetic import KV16, kv_bytes_per_token
from apps.capacity.catalogue.first import GPUS, LIST_PRICES, MODELS, RENTALS
from apps.capacity.catalogue.seeding import seed_catalogue
from apps.capacity.catalogue.selectors import (
    chip_of,
    chips,
    list_prices,
    rentals,
    shape_of,
    shapes,
)
from apps.capacity.errors import CatalogueError
from apps.capacity.models import Gpu, ListPrice, ModelShape, RentalPrice

pytestmark = pytest.mark.django_db

# Bytes of a token's keys and values in 16 bits, as the reference lists them.
KV_BYTES = {
    "Llama-3.1-8B": 131_072,
    "Llama-3.1-70B": 327_680,
    "Llama-3.2-1B": 32_768,
    "Llama-3.2-3B": 114_688,
    "Qwen2.5-0.5B": 12_288,
    "Qwen2.5-7B": 57_344,
    "Qwen2.5-72B": 327_680,
    "Mistral-7B-v0.1": 131_072,
    "Mistral-7B-v0.3": 131_072,
    "Mixtral-8x7B": 131_072,
    "gemma-2-9b": 344_064,
    "SmolLM2-135M": 23_040,
    "SmolLM2-360M": 40_960,
    "SmolLM2-1.7B": 196_608,
    "DeepSeek-V2": 69_120,
    "DeepSeek-V3": 70_272,
}


@pytest.fixture(autouse=True)
def _seeded() -> None:
    """Tests that commit empty every table: what migrating put there may be gone."""
    seed_catalogue()


def test_all_models_are_known_and_take_the_kv_they_should() -> None:
    assert {s.name: kv_bytes_per_token(s, KV16).value for s in shapes()} == KV_BYTES


def test_gpus_are_read_with_their_source_and_date() -> None:
    assert [chip.name for chip in chips()] == sorted(row["name"] for row in GPUS)
    h100 = chip_of("H100 SXM")
    assert h100.memory_bytes == 80 * 10**9
    assert (h100.bandwidth_gb_s, h100.bf16_tflops, h100.fp8_tflops) == (3350, 989, 1979)
    assert "ml-engineering" in h100.source
    assert "read 1 December 2026" in h100.source
    assert "Uncertain" in chip_of("A10G").source


def test_every_row_says_where_it_is_from() -> None:
    for row in (*MODELS, *GPUS, *RENTALS, *LIST_PRICES):
        assert row["source"], row
        assert row.get("as_of", date(2026, 12, 1)) <= date(2026, 12, 1), row


def test_seeding_again_adds_nothing_and_changes_nothing() -> None:
    Gpu.objects.filter(name="L4").update(bandwidth_gb_s=1)
    added = seed_catalogue()
    assert set(added.values()) == {0}
    assert chip_of("L4").bandwidth_gb_s == 1
    assert ModelShape.objects.count() == len(MODELS)
    assert RentalPrice.objects.count() == len(RENTALS)
    assert ListPrice.objects.count() == len(LIST_PRICES)


def test_what_is_missing_is_added_again() -> None:
    ModelShape.objects.filter(name="Llama-3.1-8B").delete()
    assert seed_catalogue()["ModelShape"] == 1


def test_dollars_are_not_taken_for_another_currency(settings: Settings) -> None:
    RentalPrice.objects.all().delete()
    ListPrice.objects.all().delete()
    ModelShape.objects.filter(name="Llama-3.1-8B").delete()
    settings.CURRENCY = "EUR"
    assert seed_catalogue() == {"ModelShape": 1, "Gpu": 0}
    assert not RentalPrice.objects.exists()
    assert not ListPrice.objects.exists()


def test_unknown_names_are_told() -> None:
    with pytest.raises(CatalogueError, match="no model 'GPT-9'"):
        shape_of("GPT-9")
    with pytest.raises(CatalogueError, match="no GPU 'H900'"):
        chip_of("H900")


def test_the_newest_rental_of_each_provider_counts() -> None:
    found = {row.provider: row for row in rentals("H100 SXM")}
    assert found["RunPod"].as_of == date(2026, 9, 25)
    assert found["RunPod"].low_micros_per_hour == 2_690_000
    assert found["AWS"].high_micros_per_hour == 6_880_000
    prices = [row.low_micros_per_hour for row in rentals("H100 SXM")]
    assert prices == sorted(prices)
    assert rentals("A10G") == []
    assert {row.gpu.name for row in rentals()} == {
        "L4",
        "L40S",
        "A100 80 GB SXM",
        "H100 SXM",
        "H200",
    }


def test_the_newest_list_price_of_each_model_counts() -> None:
    old = ListPrice.objects.get(provider="OpenAI", model="GPT-4.1 mini")
    ListPrice.objects.create(
        provider="OpenAI",
        model="GPT-4.1 mini",
        input_micros_per_mtok=1,
        output_micros_per_mtok=2,
        source="a test",
        as_of=old.as_of + timedelta(days=1),
    )
    (found,) = [p for p in list_prices() if p.model == "GPT-4.1 mini"]
    assert found.output_micros_per_mtok == 2


def test_list_prices_are_chosen_by_offer_and_by_model() -> None:
    assert {p.offer for p in list_prices(offer="endpoint")} == {"endpoint"}
    like = {p.provider for p in list_prices(offer="api", comparable_to="Llama-3.1-8B")}
    assert like == {"DeepInfra", "Fireworks", "Groq", "Together"}
    assert list_prices(comparable_to="none such") == []
    names = {row["name"] for row in MODELS}
    assert {p.comparable_to for p in list_prices()} <= names | {""}
