"""Generation at a text-generation-inference (TGI) server, over its chat route."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import httpx

from apps.inference import errors
from apps.inference.generators.chat_stream import ChatStream, finish, stream_chat
from apps.inference.generators.payload import tgi_payload
from apps.inference.transport import Server, fetch_json, open_stream
from apps.inference.types import GenerationEvent, GenerationRequest


class TgiGenerator:
    """A Generator at `server`, whose address is TGI's root."""

    name = "tgi"

    def __init__(
        self, server: Server, *, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self.server = server
        self._transport = transport

    async def stream(self, request: GenerationRequest) -> AsyncGenerator[GenerationEvent, None]:
        """Yield deltas, then one Finished; raise an InferenceError for anything else."""
        state = ChatStream(self.server, request.traceparent)
        payload = tgi_payload(request)
        url = f"{self.server.root}/v1/chat/completions"
        async with aclosing(stream_chat(state, url, payload, transport=self._transport)) as deltas:
            async for delta in deltas:
                yield delta
        yield await finish(state, request, self.count_tokens)

    async def count_tokens(self, text: str) -> int:
        """Tokens of `text` alone, from `/tokenize`; the chat template comes on top."""
        if not text:
            return 0  # TGI rejects empty input
        body = {"inputs": text, "parameters": {"max_new_tokens": 1}}
        tokens = await self._fetch("POST", "/tokenize", body)
        if not isinstance(tokens, list):
            raise errors.ProtocolError(
                f"{self.server.where} answered, but /tokenize is not as TGI's protocol says."
            )
        return len(tokens)

    async def info(self) -> dict[str, Any]:
        """What `/info` tells of the model and its limits; the one way to learn what is served."""
        reply = await self._fetch("GET", "/info")
        if not isinstance(reply, dict) or "model_id" not in reply:
            raise errors.ProtocolError(
                f"{self.server.where} answered, but /info is not as TGI's protocol says."
            )
        return reply

    async def health(self) -> None:
        """Return when the server is ready; raise an InferenceError otherwise."""
        url = f"{self.server.root}/health"
        async with open_stream(self.server, "GET", url, transport=self._transport):
            return

    async def _fetch(self, method: str, path: str, body: object = None) -> Any:
        url = self.server.root + path
        return await fetch_json(self.server, method, url, body=body, transport=self._transport)
