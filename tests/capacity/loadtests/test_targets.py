"""What may be tested: this machine, and another only by name."""

from __future__ import annotations

import uuid
from contextlib import ExitStack
from typing import Any

import pytest
from pytest_django import Settings

from apps.capacity.errors import TargetRefused
from apps.capacity.load.types import Target
from apps.capacity.loadtests import targets
from apps.capacity.loadtests.keys import key_for
from apps.capacity.loadtests.targets import (
    address_target,
    check_target,
    gateway_target,
    upstream_target,
)
from apps.gateway.models import GatewayModel, GatewayRoute, GatewayUpstream
from apps.tenants.models import ApiKey
from apps.tenants.services.keys import authenticate_key
from tests.cast import Cast

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def engine(settings: Settings) -> None:
    settings.OPENAI_URL, settings.OPENAI_API_KEY = "http://127.0.0.1:9/v1", "engine-key"
    settings.OPENAI_MODEL = "smol"
    settings.TGI_URL = ""


@pytest.fixture
def far(monkeypatch: pytest.MonkeyPatch) -> GatewayUpstream:
    monkeypatch.setenv("UPSTREAM_KEY_FAR", "far-key")
    upstream = GatewayUpstream.objects.create(
        name="far", kind="openai", url="http://192.0.2.1:8000/v1", key_variable="UPSTREAM_KEY_FAR"
    )
    model = GatewayModel.objects.create(alias="big", label="Big")
    GatewayRoute.objects.create(model=model, upstream=upstream, upstream_model="big-70b")
    return upstream


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:8080/v1",
        "http://127.8.8.8/v1",
        "http://[::1]:8080/v1",
        "http://localhost:8080/v1",
        "http://LOCALHOST:8080/v1/",
        "http://[::ffff:127.0.0.1]:8080/v1",
    ],
)
def test_this_machine_is_tested_without_more_words(url: str) -> None:
    target = address_target(url)
    assert target.host == ""
    assert "localhost" not in target.url.lower()  # its address: a name may mean another later
    check_target(target)


@pytest.mark.parametrize(
    "url",
    [
        "http://192.0.2.1/v1",
        "http://10.0.0.1:8000/v1",
        "http://169.254.169.254/v1",
        "http://0.0.0.0:8000/v1",
        "http://[2001:db8::1]/v1",
        "http://[::ffff:192.0.2.1]/v1",
        "https://192.0.2.1/v1",
    ],
)
def test_another_host_is_refused_until_it_is_named(url: str) -> None:
    with pytest.raises(TargetRefused, match="not this machine"):
        address_target(url)
    host = url.split("//")[1].split("/")[0].strip("[]").removesuffix(":8000")
    target = address_target(url, hosts=[host.upper()])
    assert target.host == host
    check_target(target)
    with pytest.raises(TargetRefused):
        address_target(url, hosts=["192.0.2.99"])


@pytest.mark.parametrize(
    "url",
    [
        "",
        "ftp://127.0.0.1/v1",
        "file:///etc/passwd",
        "127.0.0.1:8080",
        "http://user:secret@127.0.0.1/v1",
        "http://@127.0.0.1/v1",
        "http://127.0.0.1:99999/v1",
        "http://127.0.0.1/v1?key=1",
        "http://127.0.0.1/v1#x",
        "http://127.0.0.1 /v1",
        "http://127.0.0.1\\@192.0.2.1/v1",
        "http://127.0.0.1/v1\n",
        "http://lоcalhost/v1",
        "http://no-such-host.invalid/v1",
        "http:///v1",
        "http://" + "a" * 400 + "/v1",
        "http://127.0.0.1:8080",  # without its /v1
    ],
)
def test_what_is_no_address_of_a_server_is_refused_in_words(url: str) -> None:
    with pytest.raises(TargetRefused) as refused:
        address_target(url, hosts=["192.0.2.1"])
    assert len(str(refused.value)) > 10
    assert "secret" not in str(refused.value)


def test_a_name_that_resolves_to_another_machine_as_well_is_not_this_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(targets, "_resolve", lambda host: ["127.0.0.1", "192.0.2.1"])
    with pytest.raises(TargetRefused, match="not this machine"):
        address_target("http://half.example/v1")


def test_a_name_of_this_machine_is_replaced_by_its_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(targets, "_resolve", lambda host: ["::1", "127.0.0.1"])
    assert address_target("http://here.example:80/v1").url == "http://127.0.0.1:80/v1"


def test_the_settings_own_upstream_is_tested_by_its_name() -> None:
    target = upstream_target("openai")
    assert (target.kind, target.url, target.model) == ("openai", "http://127.0.0.1:9/v1", "smol")
    assert (target.via, target.upstream) == ("direct", "openai")
    assert target.metrics_url == "http://127.0.0.1:9/metrics"
    assert "key" not in target.model_dump_json().replace("key_variable", "")


def test_a_configured_upstream_elsewhere_is_named_as_well(far: GatewayUpstream) -> None:
    with pytest.raises(TargetRefused, match=r"192\.0\.2\.1"):
        upstream_target("far")
    target = upstream_target("far", hosts=["192.0.2.1"])
    assert (target.model, target.host) == ("big-70b", "192.0.2.1")


def test_what_there_is_is_offered_where_a_name_is_unknown(far: GatewayUpstream) -> None:
    with pytest.raises(TargetRefused, match="openai"):
        upstream_target("nobody")
    with pytest.raises(TargetRefused, match="big"):
        gateway_target(model="nothing", tenant="acme")
    assert set(targets.upstream_names()) == {"openai", "far"}
    assert targets.model_names() == ["openai", "big"]


def test_the_gateway_is_this_sites_own(settings: Settings, cast: Cast) -> None:
    settings.PORT = 8123
    target = gateway_target(model="openai", tenant="acme")
    assert (target.url, target.via) == ("http://127.0.0.1:8123/v1", "gateway")
    assert (target.upstream, target.tenant) == ("openai", "acme")
    with pytest.raises(TargetRefused, match="no tenant"):
        gateway_target(model="openai", tenant="nobody")


@pytest.mark.parametrize("name", ["SECRET_KEY", "DATABASE_URL", "UPSTREAM_KEY_", "PATH"])
def test_no_other_secret_of_the_process_is_sent(name: str) -> None:
    with pytest.raises(TargetRefused):
        address_target("http://127.0.0.1/v1", key_variable=name)


def key_of(target: Target, **more: Any) -> str:
    given: dict[str, Any] = {"test_id": uuid.uuid4(), "user": None, "lasts_s": 60, **more}
    with key_for(target, **given) as key:
        return key


def test_an_upstream_gets_its_own_key(far: GatewayUpstream) -> None:
    assert key_of(upstream_target("openai")) == "engine-key"
    assert key_of(upstream_target("far", hosts=["192.0.2.1"])) == "far-key"


def test_an_upstreams_key_goes_to_its_own_address_only(far: GatewayUpstream) -> None:
    stored = upstream_target("far", hosts=["192.0.2.1"]).model_copy(
        update={"url": "http://192.0.2.66/v1", "host": "192.0.2.66"}
    )
    with pytest.raises(TargetRefused, match="another address"):
        key_of(stored)


def test_the_key_of_an_address_is_in_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UPSTREAM_KEY_MINE", "mine")
    assert key_of(address_target("http://127.0.0.1/v1", key_variable="UPSTREAM_KEY_MINE")) == "mine"
    assert key_of(address_target("http://127.0.0.1/v1")) == ""


def test_a_key_for_the_gateway_is_made_for_a_point_and_revoked_after_it(cast: Cast) -> None:
    target = gateway_target(model="openai", tenant="acme")
    test_id = uuid.uuid4()
    with key_for(target, test_id=test_id, user=cast.olga, lasts_s=60) as raw:
        key = authenticate_key(raw)
        assert key is not None
        assert (key.tenant, key.may_use_models, key.model_aliases) == (cast.acme, True, ["openai"])
        assert key.collection_ids == [test_id]  # there is no such collection: it opens none
        assert key.expires_at is not None
    assert authenticate_key(raw) is None
    assert ApiKey.objects.get().revoked_at is not None


def test_a_key_is_revoked_where_the_point_fails_as_well(cast: Cast) -> None:
    target = gateway_target(model="openai", tenant="acme")
    stack = ExitStack()
    raw = stack.enter_context(key_for(target, test_id=uuid.uuid4(), user=cast.olga, lasts_s=60))
    with pytest.raises(RuntimeError), stack:
        raise RuntimeError
    assert authenticate_key(raw) is None


def test_the_gateway_is_not_tested_in_nobodys_name(cast: Cast) -> None:
    with pytest.raises(TargetRefused, match="needs a key"):
        key_of(gateway_target(model="openai"), user=cast.olga)
    with pytest.raises(TargetRefused, match="needs a key"):
        key_of(gateway_target(model="openai", tenant="acme"))
    assert key_of(gateway_target(model="openai"), given="a person's own") == "a person's own"
