"""A double of text-generation-inference 3.3, faithful where clients have been bitten.

From TGI's router sources: the permit is taken before validation; a stream answers 200 whatever
happens and reports errors in its body, with `[DONE]` after them on the chat route only; body
errors are text/plain; 401 has no body; `/info` is open.

    with TgiDouble(api_key="k") as server:
        server.script(Behaviour(tokens=("Hi",), fail_after=1, failure="reset"))
        ... server.url ...
        assert server.disconnects == 0
"""

from __future__ import annotations

import json
import re
import threading
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from tests.contract.loopback import ClientGone, Exchange, LoopbackServer

GENERATION_LENGTH = 1024  # TGI checks and allocates `max_new_tokens` in pieces of this
KEEP_ALIVE_S = 15.0
MODEL_ID = "HuggingFaceTB/SmolLM2-135M-Instruct"
_FINISH = {"eos_token": "stop", "length": "length", "stop_sequence": "stop_sequence"}
_GENERATION = {
    "/",
    "/generate",
    "/generate_stream",
    "/v1/chat/completions",
}


@dataclass(frozen=True)
class Behaviour:
    """How one generation goes. The defaults are a good one."""

    tokens: tuple[str, ...] = ("Paris", " is", " the", " capital", ".")
    finish: Literal["eos_token", "length", "stop_sequence"] = "eos_token"
    usage: bool = True
    space: bool = True  # `data: {…}`; TGI up to 2.0.4 wrote `data:{…}`
    first_s: float = 0.0  # before the first token: queue and prefill
    token_s: float = 0.0  # between tokens
    keep_alive_s: float = KEEP_ALIVE_S
    cut_bytes: int = 0  # cut the stream into TCP segments of so many bytes, across frames
    together: bool = False  # the whole stream in one segment
    # What goes wrong, and after how many tokens.
    # `gone`: the connection breaks before anything is answered, as a kept one may.
    failure: Literal["", "error", "incomplete", "close", "reset", "stall", "half_frame", "gone"] = (
        ""
    )
    fail_after: int = 0
    overloaded: bool = False  # as if no permit were free
    status: int = 0  # answer with this status, as a proxy in front would
    status_body: tuple[str, str] = ("text/html", "<html>Bad gateway</html>")
    headers: tuple[tuple[str, str], ...] = ()  # of such an answer


class Invalid(Exception):
    """A validation error, in TGI's words after `Input validation error: `."""


class Unreadable(Exception):
    """A body that axum refuses before TGI sees it: status and text/plain."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class TgiDouble(LoopbackServer):
    """See the module. Counters: `open_generations`, `disconnects`, `counts`."""

    def __init__(
        self,
        *,
        api_key: str = "",
        max_concurrent: int = 128,
        max_input_tokens: int = 1024,
        max_total_tokens: int = 2048,
        payload_limit: int = 2_000_000,
        behaviour: Behaviour | None = None,
        port: int = 0,
    ) -> None:
        super().__init__(port=port)
        self.api_key = api_key
        self.max_concurrent = max_concurrent
        self.max_input_tokens = max_input_tokens
        self.max_total_tokens = max_total_tokens
        self.payload_limit = payload_limit
        self.default = behaviour or Behaviour()
        self.healthy = True
        self.counts: Counter[str] = Counter()
        self.open_generations = 0
        self._scripted: deque[Behaviour] = deque()
        self._lock = threading.Lock()

    def script(self, *behaviours: Behaviour) -> None:
        """How the next generations go, one each; then the default again."""
        self._scripted.extend(behaviours)

    @property
    def disconnects(self) -> int:
        """Generations whose client went away."""
        return self.counts["dropped"]

    def handle(self, exchange: Exchange) -> None:
        if exchange.method == "GET":
            self._get(exchange)
        elif self._guarded(exchange.path) and not self._authorised(exchange):
            exchange.reply(401)
        else:
            self._post(exchange)

    def _get(self, exchange: Exchange) -> None:
        match exchange.path:
            case "/" | "/health" | "/ping" if self.healthy:
                exchange.reply(200)
            case "/" | "/health" | "/ping":
                exchange.reply_json(503, {"error": "unhealthy", "error_type": "healthcheck"})
            case "/info":
                exchange.reply_json(200, self.info())
            case "/metrics":
                exchange.reply(200, self.metrics().encode(), "text/plain; version=0.0.4")
            case "/v1/models":
                model = {"id": MODEL_ID, "object": "model", "created": 0, "owned_by": MODEL_ID}
                exchange.reply_json(200, {"object": "list", "data": [model]})
            case _:
                exchange.reply(404)

    def _post(self, exchange: Exchange) -> None:
        try:
            body = self._decoded(exchange)
            if exchange.path == "/tokenize":
                exchange.reply_json(200, _tokens(_string(body, "inputs")))
            elif exchange.path == "/chat_tokenize":
                text = _templated(_messages(body))
                reply = {"tokenize_response": _tokens(text), "templated_text": text}
                exchange.reply_json(200, reply)
            elif exchange.path in _GENERATION:
                self._generate(exchange, body)
            else:
                exchange.reply(404)
        except Unreadable as refusal:
            exchange.reply_text(refusal.status, str(refusal))

    def _decoded(self, exchange: Exchange) -> dict[str, Any]:
        if len(exchange.body) > self.payload_limit:
            raise Unreadable(413, "Failed to buffer the request body: length limit exceeded")
        if exchange.headers.get("content-type", "").split(";")[0] != "application/json":
            raise Unreadable(415, "Expected request with `Content-Type: application/json`")
        try:
            body = json.loads(exchange.body)
        except ValueError as exc:
            raise Unreadable(400, f"Failed to parse the request body as JSON: {exc}") from exc
        if not isinstance(body, dict):
            raise _mistyped("invalid type, expected struct")
        return body

    def _generate(self, exchange: Exchange, body: dict[str, Any]) -> None:
        chat = exchange.path == "/v1/chat/completions"
        text = _templated(_messages(body)) if chat else _string(body, "inputs")
        parameters = body if chat else body.get("parameters") or {}
        _check_types(parameters, chat=chat)
        streams = body.get("stream") is True or exchange.path == "/generate_stream"
        behaviour = self._scripted.popleft() if self._scripted else self.default
        if behaviour.failure == "gone":
            exchange.reset()
        if behaviour.status:
            content_type, page = behaviour.status_body
            headers = dict(behaviour.headers)
            exchange.reply(behaviour.status, page.encode(), content_type, headers)
            return
        answer = Answer(self, exchange, behaviour, body, chat=chat, prompt=text)
        with self._permit(behaviour) as permitted:
            if not permitted:
                answer.refuse("Model is overloaded", "overloaded", 429, streams=streams)
                return
            try:
                limit = self._validated(text, parameters, chat=chat, streams=streams)
            except Invalid as invalid:
                self.counts["validation"] += 1
                message = f"Input validation error: {invalid}"
                answer.refuse(message, "validation", 422, streams=streams)
                return
            self._run(answer, limit, streams=streams)

    def _run(self, answer: Answer, limit: int, *, streams: bool) -> None:
        try:
            answer.stream(limit) if streams else answer.whole(limit)
            self.counts["success"] += 1
        except ClientGone:
            self.counts["dropped"] += 1
            raise

    @contextmanager
    def _permit(self, behaviour: Behaviour) -> Iterator[bool]:
        with self._lock:
            self.counts["requests"] += 1
            permitted = not behaviour.overloaded and self.open_generations < self.max_concurrent
            self.open_generations += permitted
            self.counts["overloaded"] += not permitted
        try:
            yield permitted
        finally:
            with self._lock:
                self.open_generations -= permitted

    def _validated(
        self, text: str, parameters: dict[str, Any], *, chat: bool, streams: bool
    ) -> int:
        """How many tokens may be generated; raises Invalid."""
        top_p = parameters.get("top_p")
        if top_p is not None and not 0 < top_p < 1:
            raise Invalid("`top_p` must be > 0.0 and < 1.0")
        temperature = parameters.get("temperature")
        # On the chat route 0.0 means greedy.
        if temperature is not None and (temperature < 0 or (temperature == 0 and not chat)):
            raise Invalid("`temperature` must be strictly positive")
        if len(stop := parameters.get("stop") or []) > 4:
            raise Invalid(f"`stop` supports up to 4 stop sequences. Given: {len(stop)}")
        if streams and parameters.get("best_of") not in (None, 1):
            raise Invalid("`best_of` != 1 is not supported when streaming tokens")
        return self._checked_length(text, _asked_tokens(parameters, chat=chat))

    def _checked_length(self, text: str, asked: int | None) -> int:
        if not text:
            raise Invalid("`inputs` cannot be empty")
        given = len(_pieces(text))
        room = self.max_total_tokens - given
        first = min(room if asked is None else asked, GENERATION_LENGTH)
        if given + first > self.max_total_tokens:
            raise Invalid(
                f"`inputs` tokens + `max_new_tokens` must be <= {self.max_total_tokens}. "
                f"Given: {given} `inputs` tokens and {first} `max_new_tokens`"
            )
        if given > self.max_input_tokens:
            raise Invalid(
                f"`inputs` must have less than {self.max_input_tokens} tokens. Given: {given}"
            )
        # Longer ones are queued again, piece by piece, until the room is used up.
        return min(room if asked is None else asked, room)

    def _guarded(self, path: str) -> bool:
        return path != "/chat_tokenize"

    def _authorised(self, exchange: Exchange) -> bool:
        given = exchange.headers.get("authorization", "").lower()
        return not self.api_key or given == f"bearer {self.api_key}".lower()

    def info(self) -> dict[str, Any]:
        return {
            "model_id": MODEL_ID,
            "model_sha": None,
            "model_pipeline_tag": "text-generation",
            "max_concurrent_requests": self.max_concurrent,
            "max_best_of": 2,
            "max_stop_sequences": 4,
            "max_input_tokens": self.max_input_tokens,
            "max_total_tokens": self.max_total_tokens,
            "validation_workers": 2,
            "max_client_batch_size": 4,
            "router": "text-generation-router",
            "version": "3.3.7",
            "sha": None,
            "docker_label": None,
        }

    def metrics(self) -> str:
        failures = ("overloaded", "validation", "dropped", "generation", "incomplete")
        lines = [
            "# TYPE tgi_request_count counter",
            f"tgi_request_count {self.counts['requests']}",
            f"tgi_request_success {self.counts['success']}",
            *(f'tgi_request_failure{{err="{e}"}} {self.counts[e]}' for e in failures),
            "# TYPE tgi_queue_size gauge",
            "tgi_queue_size 0",
            f"tgi_batch_current_size {self.open_generations}",
        ]
        return "\n".join(lines) + "\n"


@dataclass
class Answer:
    """One generation being written."""

    server: TgiDouble
    exchange: Exchange
    behaviour: Behaviour
    body: dict[str, Any]
    chat: bool
    prompt: str
    _pending: bytes = b""

    def refuse(self, message: str, error_type: str, status: int, *, streams: bool) -> None:
        if not streams:
            self.exchange.reply_json(status, {"error": message, "error_type": error_type})
            return
        self._open()
        self._fail(message, error_type)
        self._close()

    def stream(self, limit: int) -> None:
        self._open()
        self._wait(self.behaviour.first_s)
        tokens, reason = self._cut(limit)
        failure = self.behaviour.failure
        for index, token in enumerate(tokens):
            if failure and index == self.behaviour.fail_after:
                break
            last = index == len(tokens) - 1
            self._event(self._token(index, token, reason if last else None, tokens))
            self._wait(self.behaviour.token_s)
        if failure:
            self._go_wrong(failure)
            return
        if self.chat and self._wants_usage():
            self._event({**self._chunk([]), "usage": self._usage(len(tokens))})
        self._close()

    def whole(self, limit: int) -> None:
        self.exchange.pause(self.behaviour.first_s)
        tokens, reason = self._cut(limit)
        if self.behaviour.failure:
            self.server.counts["generation"] += 1
            error = "Request failed during generation: shard died"
            self.exchange.reply_json(424, {"error": error, "error_type": "generation"})
            return
        timing = {"x-compute-type": "cpu", "x-queue-time": "1", "x-total-time": "5"}
        if self.chat:
            message = {"role": "assistant", "content": "".join(tokens)}
            choice = {
                "index": 0,
                "message": message,
                "logprobs": None,
                "finish_reason": _FINISH[reason],
            }
            reply: Any = {
                **self._chunk([choice]),
                "object": "chat.completion",
                "usage": self._usage(len(tokens)),
            }
        else:
            reply = {"generated_text": "".join(tokens)}
            if (self.body.get("parameters") or {}).get("details"):
                reply["details"] = self._details(reason, len(tokens))
            reply = [reply] if self.exchange.path == "/" else reply
        self.exchange.reply_json(200, reply, timing)

    def _cut(self, limit: int) -> tuple[tuple[str, ...], str]:
        tokens = self.behaviour.tokens[:limit]
        return tokens, "length" if len(tokens) < len(self.behaviour.tokens) else (
            self.behaviour.finish
        )

    def _go_wrong(self, failure: str) -> None:
        match failure:
            case "error":
                self.server.counts["generation"] += 1
                self._fail("Request failed during generation: shard died", "generation")
                self._close()
            case "incomplete":
                self.server.counts["incomplete"] += 1
                self._fail("Incomplete generation stream", "incomplete_generation_stream")
                self._close()
            case "close":
                self._flush()
                self.exchange.end_stream()
            case "reset":
                self._flush()
                self.exchange.pause(0.05)  # what was sent arrives first
                self.exchange.reset()
            case "half_frame":
                self._flush()
                self.exchange.send_chunk(b'data: {"object":"chat.compl')
                self.exchange.end_stream()
            case "stall":
                self._flush()
                self._wait(3600)

    def _open(self) -> None:
        headers = {
            "content-type": "text/event-stream",
            "cache-control": "no-cache",
            "x-accel-buffering": "no",
        }
        self.exchange.start_stream(headers)

    def _close(self) -> None:
        if self.chat:
            self._write("[DONE]")
        self._flush()
        self.exchange.end_stream()

    def _fail(self, message: str, error_type: str) -> None:
        # On the chat route the status is the constant 422, whatever the cause.
        chat_error = {"error": {"message": message, "http_status_code": 422}}
        self._event(chat_error if self.chat else {"error": message, "error_type": error_type})

    def _token(
        self, index: int, token: str, reason: str | None, tokens: tuple[str, ...]
    ) -> dict[str, Any]:
        if self.chat:
            delta = {"role": "assistant", "content": token}
            choice = {
                "index": 0,
                "delta": delta,
                "logprobs": None,
                "finish_reason": _FINISH[reason] if reason else None,
            }
            return self._chunk([choice])
        wanted = (self.body.get("parameters") or {}).get("details")
        return {
            "index": index + 1,
            "token": {"id": index, "text": token, "logprob": -0.1, "special": False},
            "generated_text": "".join(tokens) if reason else None,
            "details": self._details(reason, len(tokens)) if reason and wanted else None,
        }

    def _details(self, reason: str, count: int) -> dict[str, Any]:
        return {
            "finish_reason": reason,
            "generated_tokens": count,
            "seed": None,
            "input_length": len(_pieces(self.prompt)),
        }

    def _chunk(self, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "object": "chat.completion.chunk",
            "id": "",
            "created": 1,
            "model": self.body.get("model", MODEL_ID),
            "system_fingerprint": "3.3.7-native",
            "choices": choices,
            "usage": None,
        }

    def _usage(self, completion: int) -> dict[str, int]:
        prompt = len(_pieces(self.prompt))
        return {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
        }

    def _wants_usage(self) -> bool:
        return self.behaviour.usage and bool(
            self.body.get("stream_options", {}).get("include_usage")
        )

    def _event(self, payload: dict[str, Any]) -> None:
        self._write(json.dumps(payload, ensure_ascii=False))

    def _write(self, data: str) -> None:
        self._pending += f"data:{' ' if self.behaviour.space else ''}{data}\n\n".encode()
        size = self.behaviour.cut_bytes
        while size and len(self._pending) >= size:
            self.exchange.send_chunk(self._pending[:size])
            self._pending = self._pending[size:]
        if not size and not self.behaviour.together:
            self._flush()

    def _flush(self) -> None:
        if self._pending:
            self.exchange.send_chunk(self._pending)
            self._pending = b""

    def _wait(self, seconds: float) -> None:
        """Silence, with a keep-alive comment each `keep_alive_s` of it."""
        while seconds > self.behaviour.keep_alive_s:
            self.exchange.pause(self.behaviour.keep_alive_s)
            self.exchange.send_chunk(b":\n\n")
            seconds -= self.behaviour.keep_alive_s
        self.exchange.pause(seconds)


def _check_types(parameters: dict[str, Any], *, chat: bool) -> None:
    """What serde refuses, and OpenAI allows."""
    stop = parameters.get("stop")
    if isinstance(stop, str):
        raise _mistyped(f'stop: invalid type: string "{stop}", expected a sequence')
    if chat and "stream_options" in parameters and parameters["stream_options"] is None:
        raise _mistyped("stream_options: invalid type: null, expected struct StreamOptions")
    if isinstance(parameters.get("logit_bias"), dict):
        raise _mistyped("logit_bias: invalid type: map, expected a sequence")


def _asked_tokens(parameters: dict[str, Any], *, chat: bool) -> int | None:
    names = ("max_tokens", "max_completion_tokens") if chat else ("max_new_tokens",)
    asked = next((parameters[name] for name in names if parameters.get(name) is not None), None)
    if asked == 0:
        raise Invalid("`max_new_tokens` must be strictly positive")
    return asked


def _mistyped(what: str) -> Unreadable:
    prefix = "Failed to deserialize the JSON body into the target type"
    return Unreadable(422, f"{prefix}: {what} at line 1 column 1")


def _string(body: dict[str, Any], name: str) -> str:
    if not isinstance(body.get(name), str):
        raise _mistyped(f"missing field `{name}`")
    return str(body[name])


def _messages(body: dict[str, Any]) -> list[dict[str, str]]:
    if not isinstance(body.get("messages"), list):
        raise _mistyped("missing field `messages`")
    return list(body["messages"])


def _templated(messages: list[dict[str, str]]) -> str:
    turns = [f"<|im_start|>{m['role']}\n{m.get('content') or ''}<|im_end|>" for m in messages]
    return "\n".join([*turns, "<|im_start|>assistant"])


def _pieces(text: str) -> list[re.Match[str]]:
    return list(re.finditer(r"\w+|[^\w\s]", text))


def _tokens(text: str) -> list[dict[str, Any]]:
    return [
        {"id": index, "text": piece.group(), "start": piece.start(), "stop": piece.end()}
        for index, piece in enumerate(_pieces(text))
    ]
