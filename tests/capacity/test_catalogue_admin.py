"""Operations look after the catalogue: slips are told in words, and every change is noted."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.utils import timezone

from apps.capacity.catalogue.checkpoint import read_checkpoint
from apps.capacity.catalogue.first import MODELS
from apps.capacity.catalogue.seeding import seed_catalogue
from apps.capacity.catalogue.selectors import shape_of
from apps.capacity.catalogue.services import add_checkpoint
from apps.capacity.errors import CatalogueError
from apps.capacity.models import Gpu, ListPrice, ModelShape, RentalPrice
from apps.telemetry.models import AuditEvent
from tests.capacity.configs import DEEPSEEK_V3, GEMMA_3, LLAMA_8B
from tests.cast import Cast, signed_in

pytestmark = pytest.mark.django_db

FROM_CONFIG = "/admin/capacity/modelshape/from-config/"
SHAPE: dict[str, Any] = {
    key: value for key, value in MODELS[0].items() if not isinstance(value, bool)
} | {
    "name": "Another 8B",
    "attention": "heads",
    "latent_dim": 0,
    "rope_dim": 0,
    "experts": 0,
    "experts_active": 0,
    "window_tokens": 0,
    "window_layers": 0,
    "read_on": "2026-11-30",
}
GPU: dict[str, Any] = {
    "name": "B200",
    "memory_bytes": 180 * 10**9,
    "bandwidth_gb_s": 8000,
    "bf16_tflops": 2250,
    "source": "a test",
    "read_on": "2026-11-30",
}
LIST_PRICE: dict[str, Any] = {
    "offer": "api",
    "provider": "Somebody",
    "model": "some 8B",
    "comparable_to": "Llama-3.1-8B",
    "input_micros_per_mtok": 100_000,
    "output_micros_per_mtok": 200_000,
    "source": "a test",
    "as_of": "2026-11-30",
}


@pytest.fixture
def staff(cast: Cast) -> Client:
    seed_catalogue()
    cast.olga.is_staff = cast.olga.is_superuser = True
    cast.olga.save()
    return signed_in(cast.olga)


def told(browser: Client, kind: str, fields: dict[str, Any]) -> str:
    """What the form says; "" where it was saved."""
    response = browser.post(f"/admin/capacity/{kind}/add/", fields)
    if response.status_code == 302:
        return ""
    return str(response.context["adminform"].form.errors)


def rental(**fields: object) -> dict[str, Any]:
    return {
        "gpu": Gpu.objects.get(name="L4").pk,
        "provider": "Somebody",
        "low_micros_per_hour": 1_000_000,
        "high_micros_per_hour": 2_000_000,
        "source": "a test",
        "as_of": "2026-11-30",
        **fields,
    }


def noted() -> list[str]:
    return sorted(AuditEvent.objects.values_list("action", flat=True))


class TestRows:
    def test_each_is_added_and_noted(self, staff: Client) -> None:
        assert told(staff, "modelshape", SHAPE) == ""
        assert told(staff, "gpu", GPU) == ""
        assert told(staff, "rentalprice", rental()) == ""
        assert told(staff, "listprice", LIST_PRICE) == ""
        assert noted() == [
            "gpu.added",
            "list_price.added",
            "model_shape.added",
            "rental_price.added",
        ]

    def test_changes_and_deletions_are_noted(self, staff: Client) -> None:
        row = Gpu.objects.create(**GPU)
        assert staff.post(f"/admin/capacity/gpu/{row.pk}/change/", GPU).status_code == 302
        staff.post(f"/admin/capacity/gpu/{row.pk}/delete/", {"post": "yes"})
        assert noted() == ["gpu.changed", "gpu.deleted"]

    @pytest.mark.parametrize(
        ("fields", "words"),
        [
            ({"kv_heads": 33}, "kv_heads is more than heads"),
            ({"active_parameters": 9 * 10**9}, "active_parameters is more than parameters"),
            ({"attention": "latent"}, "latent_dim"),
            ({"window_layers": 4}, "need window_tokens"),
            ({"experts": 8}, "need experts_active"),
            ({"vocabulary": 90_000_000}, "vocabulary × hidden is more than all parameters"),
            ({"layers": 0}, "layers"),
            ({"layers": -1}, "greater than or equal to 0"),
            ({"layers": 2_000_000_000}, "layers"),
            ({"parameters": 10**30}, "parameters"),
            ({"layers": "NaN"}, "whole number"),
            ({"source": ""}, "required"),
            ({"read_on": "2099-01-01"}, "not after today"),
            ({"name": "Llama-3.1-8B"}, "already exists"),
        ],
    )
    def test_shapes_that_cannot_be_are_told(
        self, staff: Client, fields: dict[str, Any], words: str
    ) -> None:
        assert words in told(staff, "modelshape", SHAPE | fields)

    @pytest.mark.parametrize(
        ("fields", "words"),
        [
            ({"memory_bytes": 0}, "memory_bytes"),
            ({"bandwidth_gb_s": "nan"}, "number"),
            ({"bandwidth_gb_s": "inf"}, "number"),
            ({"bandwidth_gb_s": 0}, "bandwidth_gb_s"),
            ({"fp8_tflops": -1}, "fp8_tflops"),
            ({"bf16_tflops": 1e300}, "bf16_tflops"),
        ],
    )
    def test_gpus_that_cannot_be_are_told(
        self, staff: Client, fields: dict[str, Any], words: str
    ) -> None:
        assert words in told(staff, "gpu", GPU | fields)

    @pytest.mark.parametrize(
        ("fields", "words"),
        [
            ({"high_micros_per_hour": 1}, "below the low one"),
            ({"low_micros_per_hour": -1}, "Give 0 to"),
            ({"high_micros_per_hour": 10**15}, "Give 0 to"),
            ({"as_of": "1999-01-01"}, "from 2015 on"),
        ],
    )
    def test_rentals_that_cannot_be_are_told(
        self, staff: Client, fields: dict[str, Any], words: str
    ) -> None:
        assert words in told(staff, "rentalprice", rental(**fields))

    @pytest.mark.parametrize(
        ("fields", "words"),
        [
            ({"offer": "endpoint"}, "has a price an hour"),
            ({"offer": "endpoint", "hour_micros": 5}, "no prices a token"),
            ({"hour_micros": 5}, "no price an hour"),
            ({"input_micros_per_mtok": -1}, "Give 0 to"),
            ({"comparable_to": "none such"}, "valid choice"),
        ],
    )
    def test_list_prices_that_cannot_be_are_told(
        self, staff: Client, fields: dict[str, Any], words: str
    ) -> None:
        assert words in told(staff, "listprice", LIST_PRICE | fields)

    def test_a_price_stays_editable_when_its_model_is_gone(self, staff: Client) -> None:
        row = ListPrice.objects.get(provider="DeepInfra", comparable_to="Mixtral-8x7B")
        ModelShape.objects.filter(name="Mixtral-8x7B").delete()
        fields = LIST_PRICE | {"comparable_to": "Mixtral-8x7B"}
        response = staff.post(f"/admin/capacity/listprice/{row.pk}/change/", fields)
        assert response.status_code == 302

    def test_lists_show_figures_and_money_as_they_are_read(self, staff: Client) -> None:
        page = staff.get("/admin/capacity/listprice/?all=").content.decode()
        assert "$0.02" in page
        assert "$10.00" in page
        assert "$6.88" in staff.get("/admin/capacity/rentalprice/").content.decode()
        assert "80 GB" in staff.get("/admin/capacity/gpu/").content.decode()
        assert "8,030,261,248" in staff.get("/admin/capacity/modelshape/").content.decode()


def filled(**fields: object) -> dict[str, Any]:
    return {
        "name": "My 8B",
        "source": "https://models.test/config.json",
        "read_on": "2026-11-30",
        "content": json.dumps(LLAMA_8B),
        **fields,
    }


class TestFromConfig:
    def test_the_list_leads_to_it(self, staff: Client) -> None:
        assert FROM_CONFIG in staff.get("/admin/capacity/modelshape/").content.decode()
        page = staff.get(FROM_CONFIG)
        assert page.status_code == 200
        assert f'value="{timezone.localdate().isoformat()}"' in page.content.decode()

    def test_what_was_read_is_shown_before_it_is_saved(self, staff: Client) -> None:
        page = staff.post(FROM_CONFIG, filled()).content.decode()
        assert "8,030,261,248" in page
        assert "131,072 bytes" in page
        assert "Save My 8B" in page
        assert not ModelShape.objects.filter(name="My 8B").exists()

    def test_the_confirmation_keeps_it_and_is_noted(self, staff: Client) -> None:
        page = staff.post(FROM_CONFIG, filled())
        again = {**page.context["again"], "save": ""}
        response = staff.post(FROM_CONFIG, again)
        row = ModelShape.objects.get(name="My 8B")
        assert response.headers["Location"] == f"/admin/capacity/modelshape/{row.pk}/change/"
        assert shape_of("My 8B").parameters == 8_030_261_248
        assert "https://models.test/config.json; read 30 November 2026" in shape_of("My 8B").source
        assert noted() == ["model_shape.added"]

    @pytest.mark.parametrize("prefix", [b"", b"\xef\xbb\xbf"], ids=["plain", "with a BOM"])
    def test_a_file_is_read_and_sent_on_as_text(self, staff: Client, prefix: bytes) -> None:
        file = SimpleUploadedFile("config.json", prefix + json.dumps(DEEPSEEK_V3).encode())
        page = staff.post(FROM_CONFIG, filled(content="", file=file, name="My V3"))
        assert "512 and 64" in page.content.decode()
        assert json.loads(page.context["again"]["content"]) == DEEPSEEK_V3
        staff.post(FROM_CONFIG, {**page.context["again"], "save": ""})
        assert ModelShape.objects.get(name="My V3").attention == "latent"

    def test_what_is_left_out_is_noted_on_the_row(self, staff: Client) -> None:
        staff.post(FROM_CONFIG, filled(content=json.dumps(GEMMA_3), name="My gemma", save=""))
        assert "Only the text part" in ModelShape.objects.get(name="My gemma").note

    @pytest.mark.parametrize(
        ("fields", "words"),
        [
            ({"content": ""}, "Give the file, or paste its text"),
            ({"content": "[]"}, "is no object in braces"),
            ({"content": json.dumps(LLAMA_8B | {"hidden_size": "<b>x</b>"})}, "hidden_size"),
            ({"name": "Llama-3.1-8B"}, "There is a model"),
            ({"name": ""}, "required"),
            ({"read_on": "2099-01-01"}, "not after today"),
        ],
    )
    def test_what_is_wrong_is_told_at_its_field(
        self, staff: Client, fields: dict[str, Any], words: str
    ) -> None:
        response = staff.post(FROM_CONFIG, filled(save="", **fields))
        page = response.content.decode()
        assert response.status_code == 200
        assert words in page
        assert "<b>x</b>" not in page
        assert "rows" not in response.context
        assert ModelShape.objects.count() == len(MODELS)

    def test_a_file_of_ten_megabytes_is_refused(self, staff: Client) -> None:
        file = SimpleUploadedFile("config.json", b" " * 10_000_000)
        page = staff.post(FROM_CONFIG, filled(content="", file=file)).content.decode()
        assert "more than 1 MiB" in page

    def test_names_that_are_html_are_shown_as_text(self, staff: Client) -> None:
        page = staff.post(FROM_CONFIG, filled(name="<script>alert(1)</script>")).content.decode()
        assert "<script>alert(1)" not in page
        assert "&lt;script&gt;alert(1)" in page

    @pytest.mark.parametrize("name", ["alice", "olga"])
    def test_people_who_are_not_staff_are_kept_out(self, cast: Cast, name: str) -> None:
        browser = signed_in(getattr(cast, name))
        assert browser.get(FROM_CONFIG).status_code == 302
        browser.post(FROM_CONFIG, filled(save=""))
        assert not ModelShape.objects.filter(name="My 8B").exists()

    def test_staff_without_the_right_to_add_are_refused(self, cast: Cast) -> None:
        cast.bob.is_staff = True
        cast.bob.save()
        assert signed_in(cast.bob).post(FROM_CONFIG, filled(save="")).status_code == 403


def test_a_name_that_was_taken_meanwhile_is_refused_and_changes_nothing(cast: Cast) -> None:
    checkpoint = read_checkpoint(json.dumps(LLAMA_8B), name="My 8B")
    day = timezone.localdate()
    add_checkpoint(checkpoint=checkpoint, source="first", read_on=day, actor_id=None)
    with pytest.raises(CatalogueError, match="There is a model 'My 8B' already"):
        add_checkpoint(
            checkpoint=checkpoint, source="second", read_on=day - timedelta(1), actor_id=None
        )
    assert ModelShape.objects.get(name="My 8B").source == "first"
    assert RentalPrice.objects.filter(provider="second").count() == 0
