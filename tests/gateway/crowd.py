"""Many people who ask the same at once, here or as a process of its own.

    python -m tests.gateway.crowd <tenant id> <TGI's address> <people>

asks when a line comes on standard input, and prints what the cache did for each, as JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import uuid
from collections.abc import AsyncGenerator
from contextlib import aclosing


async def all_ask(tenant_id: uuid.UUID, url: str, people: int) -> list[str]:
    """What the cache did for each of them; they ask the TGI double at `url` on a miss."""
    from apps.gateway.caching import CacheUse, through_cache
    from tests.gateway.answers import QUESTION, Words, caller_of

    async def one() -> str:
        use = CacheUse()
        caller = caller_of(tenant_id)
        answer = through_cache(caller, QUESTION, lambda: _generated(url), Words(), use)
        async with aclosing(answer) as events:
            words = [word async for word in events]
        if "".join(words) != "Paris is the capital.":
            raise AssertionError(words)
        return str(use.note.result)

    return list(await asyncio.gather(*(one() for _ in range(people))))


async def _generated(url: str) -> AsyncGenerator[str, None]:
    from apps.inference.generators.tgi import TgiGenerator
    from apps.inference.transport import Server
    from apps.inference.types import ChatTurn, GenerationRequest, TextDelta

    request = GenerationRequest((ChatTurn("user", "What is Paris?"),), max_tokens=20)
    async with aclosing(TgiGenerator(Server("TGI", url, "", 10)).stream(request)) as events:
        async for event in events:
            if isinstance(event, TextDelta):
                yield event.text


def main() -> None:
    os.environ["DJANGO_SETTINGS_MODULE"] = "ragsite.settings"
    import django

    django.setup()
    tenant_id, url, people = sys.argv[1:]
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    came = asyncio.run(all_ask(uuid.UUID(tenant_id), url, int(people)))
    sys.stdout.write(json.dumps(came) + "\n")


if __name__ == "__main__":
    main()
