"""The API's outside: who gets in, what is there, and what a refusal looks like."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from apps.gateway.api import kept_keys, routes
from apps.gateway.api.openapi import document
from apps.gateway.redis import client
from apps.tenants import services
from apps.tenants.models import ApiKey
from tests.cast import Cast, signed_in
from tests.contract.tei import TeiDouble
from tests.contract.tgi import TgiDouble
from tests.gateway.api_world import CHAT, chat, make_key
from tests.gateway.asgi import ask

pytestmark = pytest.mark.django_db(transaction=True)


# --- Who ---


async def test_a_request_without_a_key_is_refused(cast: Cast) -> None:
    answer = await ask("GET", "/v1/models")
    assert answer.status == 401
    assert answer.error["code"] == "invalid_api_key"
    assert answer.error["type"] == "invalid_request_error"
    assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize(
    "sent", ["rk_" + "a" * 43, "Bearer", "x" * 500, "é", "rk_a\\nb", "'; DROP TABLE", "\x7f"]
)
async def test_any_other_text_is_no_key(cast: Cast, sent: str) -> None:
    answer = await ask("GET", "/v1/models", key=sent)
    assert (answer.status, answer.error["code"]) == (401, "invalid_api_key")


@pytest.mark.parametrize("scheme", ["Basic {}", "{}", "Bearer{}", ""])
async def test_only_bearer_counts(key: str, scheme: str) -> None:
    answer = await ask("GET", "/v1/models", headers={"authorization": scheme.format(key)})
    assert answer.status == 401


async def test_an_expired_key_is_refused(cast: Cast, tgi: TgiDouble) -> None:
    raw = await _made(cast, expires_at=timezone.now() - timedelta(seconds=1))
    assert (await ask("GET", "/v1/models", key=raw)).status == 401


async def test_a_revoked_key_is_refused_at_once(cast: Cast, key: str, tgi: TgiDouble) -> None:
    assert (await ask("GET", "/v1/models", key=key)).status == 200
    await _in_thread(lambda: services.revoke_key(key=ApiKey.objects.get(), actor=cast.alice))
    assert (await ask("GET", "/v1/models", key=key)).status == 401


async def test_a_key_that_was_just_used_expires_when_it_says(
    cast: Cast, tgi: TgiDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = await _made(cast, expires_at=timezone.now() + timedelta(hours=1))
    assert (await ask("GET", "/v1/models", key=raw)).status == 200
    later = timezone.now() + timedelta(hours=2)
    monkeypatch.setattr(timezone, "now", lambda: later)
    assert (await ask("GET", "/v1/models", key=raw)).status == 401


async def test_a_revocation_counts_though_redis_has_lost_its_data(
    cast: Cast, key: str, tgi: TgiDouble
) -> None:
    assert (await ask("GET", "/v1/models", key=key)).status == 200
    await _in_thread(lambda: services.revoke_key(key=ApiKey.objects.get(), actor=cast.alice))
    await client().flushdb()
    assert (await ask("GET", "/v1/models", key=key)).status == 401


async def test_a_key_is_looked_up_once_while_none_is_revoked(
    key: str, tgi: TgiDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ask("GET", "/v1/models", key=key)

    def fail(_: str) -> None:
        raise AssertionError("looked up again")

    monkeypatch.setattr(kept_keys, "authenticate_key", fail)
    assert (await ask("GET", "/v1/models", key=key)).status == 200


async def test_a_key_in_the_address_is_refused(key: str) -> None:
    answer = await ask("GET", "/v1/models", key=key, query=f"api_key={key}")
    assert (answer.status, answer.error["code"]) == (400, "key_in_address")
    assert key not in answer.body.decode()


async def test_a_key_that_may_not_use_models_is_told_so(cast: Cast) -> None:
    raw = await _made(cast, may_use_models=False)
    answer = await ask("POST", CHAT, chat(), key=raw)
    assert answer.status == 403
    assert "May use models" in answer.error["message"]


async def test_a_session_is_no_key(cast: Cast) -> None:
    browser = await _in_thread(lambda: signed_in(cast.alice))
    cookie = f"sessionid={browser.cookies['sessionid'].value}"
    answer = await ask("GET", "/v1/models", headers={"cookie": cookie})
    assert answer.status == 401


# --- Models ---


async def test_models_of_every_kind_are_listed(key: str, tgi: TgiDouble, tei: TeiDouble) -> None:
    answer = await ask("GET", "/v1/models", key=key)
    assert answer.status == 200
    listed = answer.json
    assert listed["object"] == "list"
    assert {each["id"] for each in listed["data"]} >= {"tgi", "embedding", "reranker"}
    assert all(
        (each["object"], each["owned_by"], type(each["created"])) == ("model", "ragsite", int)
        for each in listed["data"]
    )


async def test_one_model_is_shown(key: str, tgi: TgiDouble) -> None:
    answer = await ask("GET", "/v1/models/tgi", key=key)
    assert answer.json["id"] == "tgi"


@pytest.mark.parametrize("name", ["gpt-4", "a/b/c", "tgi/", " tgi", "x" * 5000, "tgi\r\nx: y"])
async def test_an_unknown_model_is_not_found(key: str, tgi: TgiDouble, name: str) -> None:
    answer = await ask("GET", f"/v1/models/{name}", key=key)
    assert (answer.status, answer.error["code"]) == (404, "model_not_found")


async def test_a_key_sees_only_its_models(cast: Cast, tgi: TgiDouble, tei: TeiDouble) -> None:
    raw = await _made(cast, model_aliases=["embedding"])
    listed = (await ask("GET", "/v1/models", key=raw)).json["data"]
    assert [each["id"] for each in listed] == ["embedding"]


async def test_a_model_of_others_does_not_exist_for_a_key(cast: Cast, tgi: TgiDouble) -> None:
    raw = await _made(cast, model_aliases=["embedding"])
    closed = await ask("POST", CHAT, chat(), key=raw)
    absent = await ask("POST", CHAT, chat(model="absent"), key=raw)
    assert closed.status == absent.status == 404
    assert closed.error["message"].replace("tgi", "absent") == absent.error["message"]
    assert (await ask("GET", "/v1/models/tgi", key=raw)).status == 404


# --- Addresses ---


@pytest.mark.parametrize("path", ["/v1/", "/v1/nothing", "/v1/models/", "/v1//models", "/v1/chat"])
async def test_other_addresses_are_answered_in_json(path: str) -> None:
    answer = await ask("GET", path)
    assert (answer.status, answer.error["code"]) == (404, "not_found")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", CHAT, "POST, OPTIONS"),
        ("DELETE", "/v1/models", "GET, HEAD, OPTIONS"),
        ("POST", "/v1/models/tgi", "GET, HEAD, OPTIONS"),
        ("PUT", "/v1/embeddings", "POST, OPTIONS"),
        ("BREW", "/v1/rerank", "POST, OPTIONS"),
    ],
)
async def test_other_methods_are_refused_with_those_that_work(
    method: str, path: str, allowed: str
) -> None:
    answer = await ask(method, path)
    assert (answer.status, answer.headers["allow"]) == (405, allowed)
    assert answer.error["code"] == "method_not_allowed"


async def test_options_tells_the_methods_and_no_other_origin_is_let_in() -> None:
    answer = await ask("OPTIONS", CHAT, headers={"origin": "https://elsewhere.example"})
    assert (answer.status, answer.headers["allow"]) == (204, "POST, OPTIONS")
    assert not [name for name in answer.headers if name.startswith("access-control")]


async def test_head_is_get_without_a_body(key: str, tgi: TgiDouble) -> None:
    whole = await ask("GET", "/v1/models", key=key)
    head = await ask("HEAD", "/v1/models", key=key)
    assert (head.status, head.body) == (200, b"")
    assert head.headers["content-length"] == str(len(whole.body))


async def test_a_fault_of_ours_is_logged_without_what_was_asked(
    key: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*_: object) -> None:
        raise ZeroDivisionError("the secret question")

    monkeypatch.setitem(routes._ROUTES, "/v1/rerank", {"POST": broken})
    with caplog.at_level(logging.ERROR):
        answer = await ask("POST", "/v1/rerank", {}, key=key)
    assert (answer.status, answer.error["type"]) == (500, "server_error")
    assert "ZeroDivisionError" in caplog.text
    assert "secret" not in caplog.text + answer.body.decode()


async def test_nothing_is_kept_by_caches_on_the_way(key: str, tgi: TgiDouble) -> None:
    answer = await ask("GET", "/v1/models", key=key)
    assert answer.headers["cache-control"] == "no-store"


# --- The description ---


async def test_the_description_is_public() -> None:
    answer = await ask("GET", "/v1/openapi.json")
    assert answer.status == 200
    assert answer.json["openapi"] == "3.1.0"


def test_the_description_has_every_address_and_resolves() -> None:
    described = document()
    paths = {path for path in described["paths"] if "{" not in path}
    assert paths | {"/v1/openapi.json"} == set(routes._ROUTES)
    for reference in _references(described):
        name = reference.removeprefix("#/components/schemas/")
        assert name in described["components"]["schemas"], reference


def _references(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["$ref"]] if "$ref" in value else []
        return own + [found for each in value.values() for found in _references(each)]
    return [f for each in value for f in _references(each)] if isinstance(value, list) else []


async def _made(cast: Cast, **changes: Any) -> str:
    return await _in_thread(lambda: make_key(cast, **changes))


async def _in_thread(function: Any) -> Any:
    from apps.tenants.aio import in_thread

    return await in_thread(function)
