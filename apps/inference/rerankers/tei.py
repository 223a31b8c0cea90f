"""Reranking over TEI's HTTP protocol: its own rerankers, and late interaction on an embedder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import httpx

from apps.inference.maxsim import max_sim, token_weights, unit
from apps.inference.tei import TeiServer
from apps.inference.transport import Server
from apps.inference.types import Vectors, WeightedWord


class TeiReranker:
    """A Reranker at a TEI server that serves a reranking model. Scores are the model's logits."""

    name = "tei"

    def __init__(self, server: Server, *, transport: httpx.BaseTransport | None = None) -> None:
        self._tei = TeiServer(server, transport)

    def score(
        self, question: str, passages: Sequence[str], words: Sequence[WeightedWord] = ()
    ) -> list[float]:
        """One score a passage, in the order given; `words` have no part in it."""
        return rerank(self._tei, question, passages)


class TeiLateInteractionReranker:
    """Late interaction at the embedding server. Scores are about 0 to 1.

    Our own encoder does all of it and says so in `/info`. TEI itself has no late interaction, but
    gives token vectors: the rest is then done here.
    """

    name = "late-interaction"

    def __init__(self, server: Server, *, transport: httpx.BaseTransport | None = None) -> None:
        self._tei = TeiServer(server, transport)

    def score(
        self, question: str, passages: Sequence[str], words: Sequence[WeightedWord] = ()
    ) -> list[float]:
        """One score a passage, in the order given."""
        if not passages:
            return []
        if self._tei.info.late_interaction:
            weights = [[word.start, word.end, word.weight] for word in words]
            return rerank(self._tei, question, passages, word_weights=weights)
        asked, special, offsets = self._tokens_of(question)
        weights_here = token_weights(offsets, special, words)
        vectors = [
            vector for batch in self._tei.batches(passages) for vector in self._token_vectors(batch)
        ]
        return [max_sim(asked, weights_here, passage) for passage in vectors]

    def _tokens_of(self, question: str) -> tuple[Vectors, list[bool], list[tuple[int, int]]]:
        """The question's token vectors, which of them are special, and where they stand in it."""
        [asked] = self._token_vectors([question])
        reply: Any = self._tei.post("/tokenize", {"inputs": [question]})
        try:
            tokens = reply[0]
            special = [bool(token["special"]) for token in tokens]
            offsets = _character_offsets(question, tokens)
        except (KeyError, IndexError, TypeError, ValueError) as exc:
            raise self._tei.unexpected("/tokenize") from exc
        length = len(asked)
        if len(special) > length:  # cut to the model's length: the last token closes the text
            special[length - 1], offsets[length - 1] = special[-1], offsets[-1]
        return asked, special[:length], offsets[:length]

    def _token_vectors(self, texts: Sequence[str]) -> list[Vectors]:
        shortened = [self._tei.shorten(text) for text in texts]
        reply: Any = self._tei.post("/embed_all", {"inputs": shortened, "truncate": True})
        if not isinstance(reply, list) or len(reply) != len(texts):
            raise self._tei.unexpected("/embed_all")
        return [unit(self._tei.matrix(rows, len(rows))) for rows in reply]


def rerank(tei: TeiServer, question: str, passages: Sequence[str], **extra: object) -> list[float]:
    """Scores of `/rerank` in the order of `passages`; the server sorts them by score."""
    return [
        score
        for batch in tei.batches(passages)
        for score in _rerank_batch(tei, question, batch, extra)
    ]


def _rerank_batch(
    tei: TeiServer, question: str, passages: Sequence[str], extra: dict[str, object]
) -> list[float]:
    body = {
        "query": tei.shorten(question),
        "texts": [tei.shorten(text) for text in passages],
        "truncate": True,
        "raw_scores": True,  # the default, a sigmoid, flattens the best scores
        **extra,
    }
    ranks: Any = tei.post("/rerank", body)
    try:
        scores = {int(rank["index"]): float(rank["score"]) for rank in ranks}
        return [scores[index] for index in range(len(passages))]
    except (KeyError, TypeError, ValueError) as exc:
        raise tei.unexpected("/rerank") from exc


def _character_offsets(text: str, tokens: list[dict[str, Any]]) -> list[tuple[int, int]]:
    """Where each token stands in `text`, in characters; special tokens nowhere (0, 0).

    Servers count in characters or in bytes, depending on their version: bytes if the token's text
    is not found where characters say.
    """
    spans = [(int(t.get("start") or 0), int(t.get("stop") or 0)) for t in tokens]
    plain = [(t["text"], s) for t, s in zip(tokens, spans, strict=True) if not t["special"]]
    if all(text[start:stop] == word for word, (start, stop) in plain):
        return spans
    encoded = text.encode()
    return [
        (len(encoded[:a].decode(errors="ignore")), len(encoded[:b].decode(errors="ignore")))
        for a, b in spans
    ]
