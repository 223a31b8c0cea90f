"""What a target takes: its address in pieces, its kind of server, the bytes of a request."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import orjson

from apps.capacity.errors import TargetDown, TargetRefused
from apps.capacity.load.answers import Body
from apps.capacity.load.prompts import Prompt
from apps.capacity.load.types import Job, Target
from apps.capacity.load.wire import Connection, Dial, Server

PROBE_TIMEOUT_S = 10.0
CONNECT_TIMEOUT_S = 5.0
# Servers that go on to the wanted length when they are asked for it with `ignore_eos`.
_IGNORE_EOS = {"llamacpp", "vllm", "sglang", "null"}


@dataclass(frozen=True)
class Address:
    """An http(s) address in pieces; `path` without a slash at its end."""

    is_secure: bool
    host: str
    port: int
    path: str

    @classmethod
    def of(cls, url: str) -> Address:
        """Raises TargetRefused for what is no address, or has a name and password in it."""
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as exc:
            raise TargetRefused("The target's address cannot be read.") from exc
        is_clean = all(0x20 < ord(char) < 0x7F for char in url)
        if parts.scheme not in ("http", "https") or not parts.hostname or not is_clean:
            raise TargetRefused("A target's address begins with http:// or https:// and a host.")
        if parts.username or parts.password:
            raise TargetRefused("A target's address holds no name and no password.")
        secure = parts.scheme == "https"
        return cls(secure, parts.hostname, port or (443 if secure else 80), parts.path.rstrip("/"))

    @property
    def root(self) -> str:
        """The path without the `/v1` at its end, where routes outside the OpenAI API live."""
        return self.path.removesuffix("/v1")

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        usual = 443 if self.is_secure else 80
        return host if self.port == usual else f"{host}:{self.port}"


def dialling(address: Address) -> Dial:
    """Opens connections to `address`, whose name is looked up once."""
    context = ssl.create_default_context() if address.is_secure else None
    found: list[tuple[str, int]] = []

    async def dial(factory: Callable[[], Connection]) -> Connection:
        loop = asyncio.get_running_loop()
        if not found:
            infos = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
            found.extend((str(info[4][0]), int(info[4][1])) for info in infos)
        fault: OSError = ConnectionRefusedError()
        for host, port in found:
            try:
                async with asyncio.timeout(CONNECT_TIMEOUT_S):
                    _, connection = await loop.create_connection(
                        factory,
                        host,
                        port,
                        ssl=context,
                        server_hostname=address.host if context else None,
                    )
                return connection
            except OSError as exc:
                fault = exc
        raise fault

    return dial


@dataclass(frozen=True)
class Api:
    """How this target is asked."""

    job: Job
    address: Address
    key: str = field(default="", repr=False)
    model: str = ""
    owners: frozenset[str] = frozenset()  # `owned_by` of the server's models
    takes_system: bool = True  # templates of some models know no system turn

    @property
    def holds_to_length(self) -> bool:
        """Whether the wanted length is asked for as the least, too."""
        return self.job.full_length and bool(_IGNORE_EOS & self.owners)

    def ask_chat(self, prompt: Prompt, output_tokens: int) -> bytes:
        """The bytes of a request for a stream."""
        root = self.address.root if self.job.target.kind == "tgi" else self.address.path
        path = (
            f"{root}/v1/chat/completions"
            if self.job.target.kind == "tgi"
            else (f"{root}/chat/completions")
        )
        return self.request("POST", path, self._payload(prompt, output_tokens))

    def ask_tokens(self, text: str) -> bytes:
        """For `/tokenize`: llama.cpp reads `content`, vLLM `model` and `prompt`, TGI `inputs`."""
        if self.job.target.kind == "tgi":
            body: dict[str, Any] = {"inputs": text, "parameters": {"max_new_tokens": 1}}
        else:
            body = {"content": text, "prompt": text, "add_special": False}
            body |= {"add_special_tokens": False, "model": self.model}
        return self.request("POST", f"{self.address.root}/tokenize", body)

    def request(self, method: str, path: str, body: object = None) -> bytes:
        content = b"" if body is None else orjson.dumps(body)
        lines = [
            f"{method} {path or '/'} HTTP/1.1",
            f"host: {self.address.authority}",
            "user-agent: ragsite-load",
            "accept-encoding: identity",  # compression would hold tokens back
            "cache-control: no-store",  # the gateway's response cache stays out of it
        ]
        if self.key:
            lines.append(f"authorization: Bearer {self.key}")
        if body is not None:
            lines += ["content-type: application/json", f"content-length: {len(content)}"]
        return ("\r\n".join(lines) + "\r\n\r\n").encode() + content

    def _messages(self, prompt: Prompt) -> list[dict[str, str]]:
        if not self.takes_system:
            return [{"role": "user", "content": prompt.text}]
        opening = {"role": "system", "content": prompt.opening}
        return [opening, {"role": "user", "content": prompt.rest}]

    def _payload(self, prompt: Prompt, output_tokens: int) -> dict[str, Any]:
        payload: dict[str, Any] = {
            "messages": self._messages(prompt),
            "max_tokens": output_tokens,
            "temperature": self.job.temperature,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if self.model:
            payload["model"] = self.model
        if self.holds_to_length:
            payload["ignore_eos"] = True
        if self.job.cache_prompts is not None and "llamacpp" in self.owners:
            payload["cache_prompt"] = self.job.cache_prompts
        return payload


async def acquaint(job: Job, address: Address, server: Server, key: str) -> Api:
    """Ask the server what it is; raises TargetDown where nothing answers."""
    if any(char in key for char in "\r\n"):
        raise TargetRefused("The key holds the end of a line.")
    api = Api(job, address, key)
    if job.target.kind == "tgi":
        # Any other model name is taken for a LoRA adapter's.
        return Api(job, address, key, model="tgi", owners=frozenset({"tgi"}))
    code, told = await fetch_json(server, api.request("GET", f"{address.path}/models"))
    if code in ("connection_refused", "connection_failed", "timeout"):
        raise TargetDown(f"{_where(job.target)} does not answer ({code}). Is it running?")
    entries = told.get("data") if isinstance(told, dict) else None
    known = [each for each in entries or [] if isinstance(each, dict)]
    owners = frozenset(str(each.get("owned_by")) for each in known)
    first = str(known[0].get("id") or "") if known else ""
    return Api(job, address, key, model=job.target.model or first, owners=owners)


async def fetch_json(server: Server, request: bytes) -> tuple[str, Any]:
    """Code and decoded JSON of one reply; None where there is none."""
    body = Body()
    until = asyncio.get_running_loop().time() + PROBE_TIMEOUT_S
    code = await server.ask(request, body, until=until)
    if code or body.status != 200:
        return code or f"http_{body.status}", None
    try:
        return "", orjson.loads(body.content)
    except ValueError:
        return "not_json", None


def _where(target: Target) -> str:
    if target.kind == "null":
        return "The null server"
    parts = urlsplit(target.url)
    return f"The server at {parts.scheme}://{parts.hostname}:{parts.port or ''}".rstrip(":")
