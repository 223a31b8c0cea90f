"""Which models are offered: the settings' own, and what operations have configured."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest
from django.db import connection
from django.db.utils import OperationalError
from pytest_django import Settings
from pytest_django.fixtures import DjangoAssertNumQueries

from apps.gateway.calling import catalogue
from apps.gateway.errors import StoreDown, UnknownModel
from apps.gateway.models import GatewayModel, GatewayRoute, GatewayUpstream, Price

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def own(settings: Settings) -> None:
    settings.TGI_URL = "http://tgi.test:8080"
    settings.OPENAI_URL = "http://llama.test/v1"
    settings.OPENAI_MODEL = "small"
    settings.TEI_URL = "http://tei.test"


def upstream(name: str = "gpu-1", **fields: object) -> GatewayUpstream:
    return GatewayUpstream.objects.create(
        **{"name": name, "kind": "openai", "url": "http://gpu.test/v1", **fields}
    )


def model(alias: str = "large", *at: GatewayUpstream, **fields: object) -> GatewayModel:
    row = GatewayModel.objects.create(alias=alias, label=alias.title(), **fields)
    for one in at:
        GatewayRoute.objects.create(model=row, upstream=one, upstream_model="org/large", weight=2)
    return row


def test_the_settings_models_are_offered_with_the_first_as_default() -> None:
    offered = catalogue.current()
    assert [m.alias for m in offered.models] == ["tgi", "openai", "embedding", "reranker"]
    assert offered.find("").alias == "tgi"
    assert offered.find("openai").label == "small"
    assert offered.find("", "embedding").routes[0].upstream.kind == "tei"
    assert offered.find("openai").routes[0].model == "small"


def test_settings_that_change_count_at_once(settings: Settings) -> None:
    assert catalogue.current().find("").alias == "tgi"
    settings.TGI_URL = ""
    assert catalogue.current().find("").alias == "openai"


def test_without_any_server_the_message_says_what_to_set(settings: Settings) -> None:
    settings.TGI_URL = settings.OPENAI_URL = ""
    with pytest.raises(UnknownModel, match="none: set OPENAI_URL or TGI_URL"):
        catalogue.current().find("")


def test_an_unknown_model_is_refused_with_those_of_its_kind() -> None:
    with pytest.raises(UnknownModel, match=r"called 'gpt-9'. Offered: tgi, openai\."):
        catalogue.current().find("gpt-9")
    with pytest.raises(UnknownModel):
        catalogue.current().find("tgi", "embedding")


def test_a_very_long_name_is_cut_in_the_message() -> None:
    with pytest.raises(UnknownModel) as caught:
        catalogue.current().find("x" * 10_000)
    assert len(str(caught.value)) < 200


def test_configured_models_come_after_the_settings_unless_placed_before() -> None:
    at = upstream()
    model("late", at)
    model("early", at, position=10)
    chat = [m.alias for m in catalogue.current().models if m.kind == "chat"]
    assert chat == ["early", "tgi", "openai", "late"]


def test_a_route_carries_the_upstream_its_bounds_and_the_name_there() -> None:
    model("large", upstream(max_concurrency=3, deadline_s=9.0))
    [route] = catalogue.current().find("large").routes
    assert (route.upstream.name, route.model, route.weight) == ("gpu-1", "org/large", 2)
    assert (route.upstream.max_concurrency, route.upstream.deadline_s) == (3, 9.0)


def test_the_key_comes_from_the_environment_and_is_never_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("UPSTREAM_KEY_GPU", "sk-secret")
    upstream(key_variable="UPSTREAM_KEY_GPU")
    found = catalogue.current().upstream("gpu-1")
    assert found is not None
    assert found.key == "sk-secret"
    assert "sk-secret" not in repr(found)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"key_variable": "UPSTREAM_KEY_UNSET"}, "UPSTREAM_KEY_UNSET is not set"),
        ({"key_variable": "SECRET_KEY"}, "must begin with UPSTREAM_KEY_"),
        ({"key_variable": "PATH"}, "must begin with UPSTREAM_KEY_"),
        ({"url": "file:///etc/passwd"}, "http:// or https://"),
        ({"url": "http://"}, "names no host"),
        ({"url": "http://me:pw@gpu.test"}, "name its variable"),
        ({"url": "http://gpu.test:99999/v1"}, "no address"),
        ({"url": "http://gpu.test/v1?key=1"}, "path"),
        ({"name": "tgi"}, "settings have one of that name"),
    ],
    ids=lambda value: str(value) if isinstance(value, str) else None,
)
def test_an_upstream_that_cannot_be_used_is_left_out_and_named(
    fields: dict[str, str], told: str, caplog: pytest.LogCaptureFixture
) -> None:
    model("large", upstream(**fields))
    offered = catalogue.current()
    with pytest.raises(UnknownModel):
        offered.find("large")
    assert offered.find("").alias == "tgi"
    assert any(told in problem for problem in offered.problems)
    assert told in caplog.text
    assert "pw" not in caplog.text


def test_a_configured_model_never_shadows_one_of_the_settings() -> None:
    model("tgi", upstream())
    offered = catalogue.current()
    assert offered.find("tgi").routes[0].upstream.name == "tgi"
    assert "model tgi: the settings have one of that name" in offered.problems


def test_a_model_keeps_those_routes_that_can_serve_it() -> None:
    model("large", upstream(), upstream("reader", kind="tei"))
    offered = catalogue.current()
    assert [r.upstream.name for r in offered.find("large").routes] == ["gpu-1"]
    assert any("serves no chat model" in problem for problem in offered.problems)


def test_what_is_disabled_is_not_offered() -> None:
    model("off", upstream(), enabled=False)
    model("nowhere", upstream("gpu-2", enabled=False))
    aliases = {m.alias for m in catalogue.current().models}
    assert not {"off", "nowhere"} & aliases


def test_an_hourly_price_becomes_one_per_token() -> None:
    Price.objects.create(
        upstream="tgi",
        valid_from=datetime(2026, 1, 1, tzinfo=UTC),
        hour_micros=3_600_000,  # 1,000 micros a second
        input_tokens_per_s=2000.0,
        output_tokens_per_s=100.0,
    )
    [price] = catalogue.current().prices
    assert price.input_micros_per_mtok == price.cached_input_micros_per_mtok == 500_000
    assert price.output_micros_per_mtok == 10_000_000


def test_the_snapshot_is_kept_for_seconds(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    catalogue.current()
    with django_assert_num_queries(0):
        first = catalogue.current()
        assert catalogue.current() is first


def test_a_change_counts_at_once_where_it_was_made_and_later_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    catalogue.current()
    model("large", upstream())
    with pytest.raises(UnknownModel):
        catalogue.current().find("large")
    monkeypatch.setattr(catalogue, "SNAPSHOT_S", 0.0)
    assert catalogue.current().find("large")


def test_what_has_not_changed_is_not_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    model("large", upstream())
    first = catalogue.current()
    monkeypatch.setattr(catalogue, "SNAPSHOT_S", 0.0)
    assert catalogue.current() is first


def fail(*args: object) -> None:
    raise OperationalError("the server is gone")


def test_without_the_database_an_older_snapshot_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    model("large", upstream())
    catalogue.current()
    monkeypatch.setattr(catalogue, "SNAPSHOT_S", 0.0)
    with connection.execute_wrapper(fail):
        assert catalogue.current().find("large")


def test_without_the_database_and_a_snapshot_it_is_refused() -> None:
    with connection.execute_wrapper(fail), pytest.raises(StoreDown, match="database"):
        catalogue.current()


@pytest.mark.django_db(transaction=True)
async def test_many_calls_at_once_read_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    reads = 0
    inner = catalogue.read_configured

    def counted() -> object:
        nonlocal reads
        reads += 1
        return inner()

    monkeypatch.setattr(catalogue, "read_configured", counted)
    offered = await asyncio.gather(*(catalogue.load() for _ in range(64)))
    assert reads == 1
    assert len({id(one) for one in offered}) == 1
