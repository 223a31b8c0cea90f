"""Days on which a part is away: refused clearly, at once, and nothing is overspent."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any

import pytest
from django.db import connection

from apps.gateway.api import completing
from apps.gateway.models import LedgerEntry, Reservation
from apps.tenants.aio import in_thread
from tests.contract.tgi import Behaviour, TgiDouble
from tests.gateway.api_world import CHAT, chat
from tests.gateway.asgi import ask
from tests.gateway.outages import impatient, postgres_away, redis_away  # noqa: F401 - fixtures

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def let_go(key: str) -> None:
    """This thread's own connection would be broken too, and is needed to clean up."""
    connection.close()


@pytest.mark.parametrize("stream", [True, False])
async def test_without_redis_nothing_is_let_through(key: str, tgi: TgiDouble, stream: bool) -> None:
    async with redis_away():
        answer = await ask("POST", CHAT, chat(stream=stream), key=key)
    assert (answer.status, answer.error["code"]) == (503, "store_down")
    assert int(answer.headers["retry-after"]) >= 1
    assert tgi.counts["requests"] == 0


async def test_without_redis_models_are_still_listed(key: str, tgi: TgiDouble) -> None:
    async with redis_away():
        answer = await ask("GET", "/v1/models", key=key)
    assert answer.status == 200


@pytest.mark.slow
@pytest.mark.usefixtures("impatient", "let_go")
@pytest.mark.parametrize("known", [True, False])
async def test_without_postgresql_nothing_is_let_through(
    key: str, tgi: TgiDouble, known: bool
) -> None:
    if known:
        await ask("POST", CHAT, chat(), key=key)
    before = tgi.counts["requests"]
    async with postgres_away():
        answer = await ask("POST", CHAT, chat(), key=key, headers={"cache-control": "no-store"})
    assert (answer.status, answer.error["code"]) == (503, "store_down")
    assert tgi.counts["requests"] == before
    assert not await in_thread(Reservation.objects.exists)


async def test_an_upstream_that_sends_garbage_is_a_bad_gateway(key: str, tgi: TgiDouble) -> None:
    tgi.default = Behaviour(status=200, status_body=("text/html", "<html>secret</html>"))
    answer = await ask("POST", CHAT, chat(), key=key)
    assert answer.status in (502, 503)
    assert "secret" not in answer.body.decode()


async def test_a_fault_in_the_middle_of_a_stream_is_told_and_ends_it(
    key: str, tgi: TgiDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = completing.metered

    async def faulty(*arguments: Any, **more: Any) -> Any:
        async with aclosing(real(*arguments, **more)) as events:
            async for event in events:
                yield event
                raise ZeroDivisionError("secret")

    monkeypatch.setattr(completing, "metered", faulty)
    answer = await ask("POST", CHAT, chat(stream=True), key=key)
    assert answer.events[-1]["error"]["code"] == "internal_error"
    assert answer.complete
    assert b"secret" not in answer.body
    assert not await in_thread(Reservation.objects.exists)
    assert await in_thread(LedgerEntry.objects.exists)
