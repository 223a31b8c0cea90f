"""Generation at an OpenAI-compatible server: vLLM, SGLang, llama.cpp and their like."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import httpx

from apps.inference import errors
from apps.inference.generators.chat_stream import ChatStream, finish, stream_chat
from apps.inference.generators.payload import chat_payload, go_on_by
from apps.inference.generators.tokens import estimate_tokens
from apps.inference.transport import Server, fetch_json
from apps.inference.types import GenerationEvent, GenerationRequest


class OpenAIGenerator:
    """A Generator at `server`, whose address includes `/v1`."""

    name = "openai"

    def __init__(
        self, server: Server, *, model: str = "", transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self.server = server
        self._model = model
        self._transport = transport
        self._tokenizes = True  # until the server says otherwise
        self._owners: set[str] | None = None  # not asked yet

    async def stream(self, request: GenerationRequest) -> AsyncGenerator[GenerationEvent, None]:
        """Yield deltas, then one Finished; raise an InferenceError for anything else."""
        url = f"{self.server.url}/chat/completions"
        state = ChatStream(self.server, request.traceparent)
        payload = chat_payload(request, model=self._model)
        owners = await self._known_owners()
        if request.goes_on:
            go_on_by(owners, payload)
        if "llamacpp" in owners:
            # Until its first event llama.cpp does not notice that the reader has gone, and reads
            # a long prompt to its end. With progress told, it writes after every step.
            payload["return_progress"] = True
        async with aclosing(stream_chat(state, url, payload, transport=self._transport)) as deltas:
            async for delta in deltas:
                yield delta
        yield await finish(state, request, self.count_tokens)

    async def count_tokens(self, text: str) -> int:
        """Tokens of `text` alone, asked at `/tokenize` (llama.cpp, vLLM), else estimated.

        The estimate is an upper one. The chat template comes on top (`template_tokens`).
        """
        if not self._tokenizes:
            return estimate_tokens(text)
        try:
            reply = await self._post_root("/tokenize", self._tokenize_body(text))
        except (errors.Rejected, errors.ProtocolError):
            self._tokenizes = False
            return estimate_tokens(text)
        tokens = reply.get("tokens") if isinstance(reply, dict) else None
        return len(tokens) if isinstance(tokens, list) else estimate_tokens(text)

    async def health(self) -> None:
        """Return when the server is ready; raise an InferenceError otherwise."""
        await self._models()

    async def _known_owners(self) -> set[str]:
        """What kind of server it is; one may reject fields that only another knows."""
        if self._owners is None:
            try:
                models = await self._models()
            except errors.Rejected:
                models = None
            self._owners = _owners(models)
        return self._owners

    async def _models(self) -> Any:
        url = f"{self.server.url}/models"
        return await fetch_json(self.server, "GET", url, transport=self._transport)

    def _tokenize_body(self, text: str) -> dict[str, Any]:
        # llama.cpp reads `content`, vLLM `model` and `prompt`; each leaves the other's aside.
        return {
            "content": text,
            "add_special": False,
            "prompt": text,
            "add_special_tokens": False,
            "model": self._model,
        }

    async def _post_root(self, path: str, body: object) -> Any:
        url = self.server.root + path
        return await fetch_json(self.server, "POST", url, body=body, transport=self._transport)


def _owners(models: Any) -> set[str]:
    entries = models.get("data") if isinstance(models, dict) else None
    known = [entry for entry in entries or [] if isinstance(entry, dict)]
    return {str(entry.get("owned_by")) for entry in known}
