"""What the one-machine encoder answers, apart from HTTP: TEI's routes over a LocalEncoder."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from apps.inference.local_encoder import LocalEncoder, Pace
from apps.inference.rerankers.late_interaction import LateInteractionReranker
from apps.inference.rerankers.token_cache import TokenCache
from apps.inference.types import WeightedWord
from ragsite.stack.turns import Turns

if TYPE_CHECKING:
    from tokenizers import Encoding

# As TEI: texts being worked on or waiting, each text of a batch counted.
MAX_CONCURRENT_TEXTS = 512
MAX_BATCH_TEXTS = 64
_DECIMALS = 7  # all that float32 holds of a number below 1


class TeiError(Exception):
    """A refusal as TEI words it."""

    def __init__(self, status: int, error_type: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.error_type = error_type


class EncoderService:
    """Thread-safe. Questions (single inputs and reranks) go ahead of batches of documents."""

    def __init__(self, encoder: LocalEncoder, *, token_cache_bytes: int = 0) -> None:
        self._encoder = encoder
        self._token_cache = TokenCache(token_cache_bytes)
        self._turns = Turns()
        self._permits = threading.Lock()
        self._texts = 0
        self._taken = 0
        self._since = 0.0
        self._open_s = 0.0

    def info(self) -> dict[str, Any]:
        return {
            "model_id": self._encoder.model_id,
            "model_sha": None,
            "model_dtype": self._encoder.dtype,
            "served_model_name": self._encoder.model_id,
            "model_type": {"embedding": {"pooling": "mean"}},
            "max_concurrent_requests": MAX_CONCURRENT_TEXTS,
            "max_input_length": self._encoder.max_tokens,
            "max_batch_tokens": MAX_BATCH_TEXTS * self._encoder.max_tokens,
            "max_batch_requests": None,
            "max_client_batch_size": MAX_BATCH_TEXTS,
            "auto_truncate": True,
            "tokenization_workers": 1,
            "version": "1.9.0",
            "sha": None,
            "docker_label": None,
            "late_interaction": True,
        }

    def metrics(self) -> str:
        """What has been done since the start, as Prometheus reads it."""
        busy_s, steps = self._turns.spent()
        with self._permits:
            open_s = self._open_s + (time.perf_counter() - self._since if self._texts else 0.0)
            taken, now = self._taken, self._texts
        cache = self._token_cache.figures()
        figures = (
            ("model_seconds_total", "counter", busy_s, "Time the model computed."),
            ("model_steps_total", "counter", steps, "Steps of the model."),
            ("open_seconds_total", "counter", open_s, "Time there was any text to work on."),
            ("texts_total", "counter", taken, "Texts accepted."),
            ("texts", "gauge", now, "Texts being worked on or waiting."),
            ("passages_reranked_total", "counter", cache.lookups, "Passages looked up to rerank."),
            ("passages_cached_total", "counter", cache.hits, "Of them, with vectors at hand."),
            ("token_cache_bytes", "gauge", cache.bytes, "Token vectors kept."),
        )
        return "".join(_metric(*figure) for figure in figures)

    def embed(self, body: dict[str, Any]) -> list[list[float]]:
        texts, pace = self._inputs(body)
        if body.get("normalize") is False:
            raise TeiError(422, "Validation", "this encoder returns unit vectors only")
        with self._admitted(len(texts)):
            vectors = self._encoder.embed(self._tokenized(texts, body), pace)
        return _numbers(vectors)

    def embed_all(self, body: dict[str, Any]) -> list[list[list[float]]]:
        texts, pace = self._inputs(body)
        with self._admitted(len(texts)):
            vectors = self._encoder.embed_tokens(self._tokenized(texts, body), pace)
        return [_numbers(tokens) for tokens in vectors]

    def rerank(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        [query], texts = _checked([body.get("query")]), _checked(body.get("texts"))
        words = _weighted_words(body.get("word_weights") or [])
        self._check_length([query, *texts], body)
        reranker = LateInteractionReranker(
            self._encoder, pace=self._turns.question, cache=self._token_cache
        )
        with self._admitted(len(texts)):
            scores = reranker.score(query, texts, words)
        if not body.get("raw_scores", False):
            scores = [1 / (1 + math.exp(-score)) for score in scores]
        order = sorted(range(len(texts)), key=lambda index: -scores[index])
        with_text = bool(body.get("return_text", False))
        return [
            {"index": index, "score": scores[index]} | ({"text": texts[index]} if with_text else {})
            for index in order
        ]

    def tokenize(self, body: dict[str, Any]) -> list[list[dict[str, Any]]]:
        texts, _ = self._inputs(body)
        add_special = body.get("add_special_tokens", True) is not False
        encodings = self._encoder.tokenizer.encode_batch(texts, add_special_tokens=add_special)
        return [_tokens(text, e) for text, e in zip(texts, encodings, strict=True)]

    def _inputs(self, body: dict[str, Any]) -> tuple[list[str], Pace]:
        """The texts, and whose turn it is: someone who sends a single text waits for it."""
        inputs = body.get("inputs")
        if isinstance(inputs, str):
            return _checked([inputs]), self._turns.question
        return _checked(inputs), self._turns.documents

    def _tokenized(self, texts: Sequence[str], body: dict[str, Any]) -> list[Encoding]:
        self._check_length(texts, body)
        return self._encoder.tokenize(texts)

    def _check_length(self, texts: Sequence[str], body: dict[str, Any]) -> None:
        if body.get("truncate") is not False:
            return
        limit = self._encoder.max_tokens
        longest = max(len(e.ids) for e in self._encoder.tokenizer.encode_batch(list(texts)))
        if longest > limit:
            message = f"`inputs` must have less than {limit} tokens. Given: {longest}"
            raise TeiError(422, "Validation", message)

    @contextmanager
    def _admitted(self, texts: int) -> Iterator[None]:
        with self._permits:
            if self._texts + texts > MAX_CONCURRENT_TEXTS:
                raise TeiError(429, "Overloaded", "Model is overloaded")
            if not self._texts:
                self._since = time.perf_counter()
            self._texts += texts
            self._taken += texts
        try:
            yield
        finally:
            with self._permits:
                self._texts -= texts
                if not self._texts:
                    self._open_s += time.perf_counter() - self._since


def _checked(texts: Any) -> list[str]:
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise TeiError(422, "Validation", "inputs must be a string or an array of strings")
    if not texts or not all(texts):
        raise TeiError(400, "Empty", "`inputs` cannot be empty")
    if len(texts) > MAX_BATCH_TEXTS:
        message = f"batch size {len(texts)} > maximum allowed batch size {MAX_BATCH_TEXTS}"
        raise TeiError(422, "Validation", message)
    return texts


def _weighted_words(weights: object) -> list[WeightedWord]:
    try:
        words = [WeightedWord(int(a), int(b), float(w)) for a, b, w in weights]  # type: ignore[attr-defined]
    except (TypeError, ValueError) as exc:
        message = "`word_weights` must be an array of [start, end, weight]"
        raise TeiError(422, "Validation", message) from exc
    if not all(math.isfinite(word.weight) and word.weight >= 0 for word in words):
        raise TeiError(422, "Validation", "`word_weights` must not be negative")
    return words


def _metric(name: str, kind: str, value: float, words: str) -> str:
    name = f"ragsite_encoder_{name}"
    return f"# HELP {name} {words}\n# TYPE {name} {kind}\n{name} {value}\n"


def _numbers(vectors: Any) -> list[Any]:
    # Rounding first makes the JSON a third shorter and twice as fast to write.
    numbers: list[Any] = vectors.astype("float64").round(_DECIMALS).tolist()
    return numbers


def _tokens(text: str, encoding: Encoding) -> list[dict[str, Any]]:
    rows = zip(
        encoding.ids, encoding.tokens, encoding.offsets, encoding.special_tokens_mask, strict=True
    )
    return [
        {"id": token_id, "text": token, "special": True}
        if special
        else {
            "id": token_id,
            "text": text[start:stop],
            "special": False,
            "start": start,
            "stop": stop,
        }
        for token_id, token, (start, stop), special in rows
    ]
