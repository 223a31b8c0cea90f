"""A process that answers until it is killed; it writes a line for each call that it has settled."""

from __future__ import annotations

import asyncio
import random
import sys
import uuid
from functools import partial

from apps.gateway.admission import WorstCase, admission, admitted
from apps.gateway.errors import BudgetExceeded
from apps.gateway.types import Caller, Source
from tests.gateway.spending import call_of


async def answer(caller: Caller) -> None:
    async with admitted(caller) as admission, admission.reserved(WorstCase(100, 100)) as budget:
        for tokens in range(1, random.randrange(20, 90)):  # noqa: S311 - not a secret
            budget.in_flight = partial(call_of, tokens)
            await asyncio.sleep(0.005)
        await budget.settle(call_of(tokens))
        sys.stdout.write("settled\n")
        sys.stdout.flush()


async def answer_on_and_on(caller: Caller) -> None:
    while True:
        try:
            await answer(caller)
        except BudgetExceeded:
            await asyncio.sleep(0.01)


async def answer_many() -> None:
    tenant, user = sys.argv[1:]
    caller = Caller(uuid.UUID(tenant), "UTC", Source.CHAT, user_id=int(user))
    await asyncio.gather(*(answer_on_and_on(caller) for _ in range(30)))


def main() -> None:
    admission._RENEW_EVERY_S = 0.05
    asyncio.run(answer_many())
