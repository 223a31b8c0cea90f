"""A double of text-embeddings-inference, 1.8 or 1.9: what differs between them, and what bites.

Validation errors are 413 in 1.8 and 422 in 1.9; `auto_truncate` is off in 1.8 and on in 1.9;
`error_type` is capitalised; every text of a batch takes a permit, so that a batch larger than
what is free is refused whole; `/info` needs the key and 401 has no body.

Vectors are made of the words' hashes: texts that share words are near each other.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tests.contract.loopback import Exchange, LoopbackServer

DIMENSIONS = 16
Version = Literal["1.8", "1.9"]
Kind = Literal["embedding", "reranker"]


@dataclass(frozen=True)
class Trouble:
    """What goes wrong with one request."""

    status: int = 0  # answer with this status …
    error: tuple[str, str] = ("Model is overloaded", "Overloaded")
    stall_s: float = 0.0
    reset: bool = False
    body: str | None = None  # answer 200 with this


class Refused(Exception):
    """A refusal in TEI's JSON."""

    def __init__(self, status: int, error_type: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.error_type = error_type


class TeiDouble(LoopbackServer):
    """`troubles` are taken one a request by the model routes, then all is well again."""

    def __init__(
        self,
        *,
        version: Version = "1.9",
        kind: Kind = "embedding",
        api_key: str = "",
        max_batch: int = 32,
        permits: int = 512,
        max_input_tokens: int = 256,
        payload_limit: int = 2_000_000,
        byte_offsets: bool = False,
    ) -> None:
        super().__init__()
        self.version = version
        self.kind = kind
        self.api_key = api_key
        self.max_batch = max_batch
        self.free_permits = permits
        self.permits = permits
        self.max_input_tokens = max_input_tokens
        self.payload_limit = payload_limit
        self.byte_offsets = byte_offsets
        self.counts: Counter[str] = Counter()
        self.troubles: deque[Trouble] = deque()
        self._lock = threading.Lock()

    def handle(self, exchange: Exchange) -> None:
        if exchange.method == "GET" and exchange.path in {"/", "/health", "/ping"}:
            exchange.reply(200)
        elif exchange.method == "GET" and exchange.path == "/metrics":
            exchange.reply(200, self.metrics().encode(), "text/plain; version=0.0.4")
        elif not self._authorised(exchange):
            exchange.reply(401)
        elif exchange.method == "GET" and exchange.path == "/info":
            exchange.reply_json(200, self.info())
        else:
            self._post(exchange)

    def _post(self, exchange: Exchange) -> None:
        if len(exchange.body) > self.payload_limit:
            exchange.reply_text(413, "Failed to buffer the request body: length limit exceeded")
            return
        if self.troubles and self._in_trouble(exchange, self.troubles.popleft()):
            return
        routes: dict[str, Callable[[dict[str, Any]], Any]] = {
            "/embed": self._embed,
            "/embed_all": self._embed_all,
            "/rerank": self._rerank,
            "/tokenize": self._tokenize,
            "/v1/embeddings": self._openai,
        }
        route = routes.get(exchange.path)
        if route is None:
            exchange.reply(404)
            return
        try:
            exchange.reply_json(200, route(json.loads(exchange.body)))
        except Refused as refused:
            self.counts[refused.error_type] += 1
            exchange.reply_json(refused.status, _error(refused, exchange.path))

    def _in_trouble(self, exchange: Exchange, trouble: Trouble) -> bool:
        """Whether the request has been answered."""
        exchange.pause(trouble.stall_s)
        if trouble.reset:
            exchange.reset()
        elif trouble.status:
            error, error_type = trouble.error
            exchange.reply_json(trouble.status, {"error": error, "error_type": error_type})
        elif trouble.body is not None:
            exchange.reply(200, trouble.body.encode(), "application/json")
        else:
            return False
        return True

    def _embed(self, body: dict[str, Any]) -> list[list[float]]:
        texts = self._admitted(body)
        return [_vector(text[: self.max_input_tokens]).tolist() for text in texts]

    def _embed_all(self, body: dict[str, Any]) -> list[list[list[float]]]:
        return [
            [_word_vector(word).tolist() for word in self._words(text)]
            for text in self._admitted(body)
        ]

    def _rerank(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        if self.kind != "reranker":
            raise Refused(
                424, "Backend", "`rerank` is only for rerankers: model is not a re-ranker"
            )
        query, texts = body["query"], self._admitted({**body, "inputs": body["texts"]})
        scores = [4 * float(_vector(query) @ _vector(text)) for text in texts]
        if not body.get("raw_scores", False):
            scores = [1 / (1 + math.exp(-score)) for score in scores]
        order = sorted(range(len(texts)), key=lambda index: -scores[index])
        return [{"index": index, "score": scores[index]} for index in order]

    def _tokenize(self, body: dict[str, Any]) -> list[list[dict[str, Any]]]:
        inputs = body["inputs"]
        return [self._tokens(text) for text in ([inputs] if isinstance(inputs, str) else inputs)]

    def _openai(self, body: dict[str, Any]) -> dict[str, Any]:
        rows = [_vector(text) for text in self._admitted({"inputs": body["input"]})]
        as_base64 = body.get("encoding_format") == "base64"
        data = [
            {
                "object": "embedding",
                "index": index,
                "embedding": base64.b64encode(row.astype("<f4").tobytes()).decode()
                if as_base64
                else row.tolist(),
            }
            for index, row in enumerate(rows)
        ]
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        return {"object": "list", "data": data, "model": "double", "usage": usage}

    def _admitted(self, body: dict[str, Any]) -> list[str]:
        """The texts, validated as TEI does."""
        inputs = body["inputs"]
        texts: list[str] = [inputs] if isinstance(inputs, str) else inputs
        if not texts or not all(texts):
            raise Refused(400, "Empty", "`inputs` cannot be empty")
        if len(texts) > self.max_batch:
            message = f"batch size {len(texts)} > maximum allowed batch size {self.max_batch}"
            raise Refused(self._invalid, "Validation", message)
        with self._lock:
            if len(texts) > self.free_permits:
                raise Refused(429, "Overloaded", "Model is overloaded")
        self._check_length(texts, body.get("truncate"))
        self.counts["texts"] += len(texts)
        return texts

    def _check_length(self, texts: Sequence[str], truncate: bool | None) -> None:
        cuts = self.version == "1.9" if truncate is None else truncate
        longest = max(len(self._tokens(text)) for text in texts)
        if longest > self.max_input_tokens and not cuts:
            message = (
                f"`inputs` must have less than {self.max_input_tokens} tokens. Given: {longest}"
            )
            raise Refused(self._invalid, "Validation", message)

    @property
    def _invalid(self) -> int:
        return 413 if self.version == "1.8" else 422

    def _words(self, text: str) -> list[str]:
        """Token texts of what the model sees: cut, special ones around."""
        words = [token["text"] for token in self._tokens(text)]
        if len(words) > self.max_input_tokens:
            words = [*words[: self.max_input_tokens - 1], "[SEP]"]
        return words

    def _tokens(self, text: str) -> list[dict[str, Any]]:
        def place(position: int) -> int:
            return len(text[:position].encode()) if self.byte_offsets else position

        words = [
            {
                "id": 1000,
                "text": word.group(),
                "special": False,
                "start": place(word.start()),
                "stop": place(word.end()),
            }
            for word in re.finditer(r"\w+|[^\w\s]", text)
        ]
        return [_special("[CLS]"), *words, _special("[SEP]")]

    def _authorised(self, exchange: Exchange) -> bool:
        given = exchange.headers.get("authorization", "")
        return not self.api_key or given == f"Bearer {self.api_key}"

    def info(self) -> dict[str, Any]:
        kinds = {"embedding": {"pooling": "mean"}, "reranker": {"id2label": {}, "label2id": {}}}
        return {
            "model_id": "double/embedder",
            "model_sha": None,
            "model_dtype": "float16",
            "served_model_name": "double/embedder",
            "model_type": {self.kind: kinds[self.kind]},
            "max_concurrent_requests": self.permits,
            "max_input_length": self.max_input_tokens,
            "max_batch_tokens": 16384,
            "max_batch_requests": None,
            "max_client_batch_size": self.max_batch,
            "auto_truncate": self.version == "1.9",
            "tokenization_workers": 1,
            "version": "1.9.3" if self.version == "1.9" else "1.8.3",
            "sha": None,
            "docker_label": None,
        }

    def metrics(self) -> str:
        return (
            f'te_request_count{{method="batch"}} {self.counts["texts"]}\n'
            f'te_request_failure{{err="overloaded"}} {self.counts["Overloaded"]}\n'
            "te_queue_size 0\n"
        )


def _error(refused: Refused, path: str) -> dict[str, Any]:
    if path == "/v1/embeddings":
        return {"message": str(refused), "code": refused.status, "type": refused.error_type}
    return {"error": str(refused), "error_type": refused.error_type}


def _special(text: str) -> dict[str, Any]:
    return {"id": 101, "text": text, "special": True, "start": None, "stop": None}


def _vector(text: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    words = re.findall(r"\w+", text.lower()) or [""]
    total = np.sum([_word_vector(word) for word in words], axis=0)
    return np.asarray(total / np.linalg.norm(total))


def _word_vector(word: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    digest = hashlib.sha256(word.lower().encode()).digest()[:DIMENSIONS]
    vector = np.frombuffer(digest, np.uint8).astype(np.float64) - 127.5
    return np.asarray(vector / np.linalg.norm(vector))
