"""Our TEI clients, and raw HTTP, against the real one-machine encoder."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import httpx
import numpy as np
import pytest

from apps.inference import errors
from apps.inference.embedders.tei import TeiEmbedder
from apps.inference.rerankers.tei import TeiLateInteractionReranker
from apps.inference.transport import Server
from apps.inference.types import WeightedWord
from tests.real_parts import KEY

pytestmark = [pytest.mark.slow]
PASSAGES = [
    "The cat slept on the warm stove all afternoon.",
    "Paris is the capital and largest city of France.",
    "Capital letters begin a sentence in English.",
    "Interest rates rose by a quarter of a percent.",
]


@pytest.fixture
def client(encoder_url: str) -> Iterator[httpx.Client]:
    headers = {"authorization": f"Bearer {KEY}"}
    with httpx.Client(base_url=encoder_url, headers=headers, timeout=60, trust_env=False) as client:
        yield client


@pytest.fixture
def embedder(encoder_url: str) -> TeiEmbedder:
    return TeiEmbedder(Server("embedding", encoder_url, KEY))


def test_vectors_are_unit_and_near_what_means_the_same(embedder: TeiEmbedder) -> None:
    vectors = embedder.embed_documents(PASSAGES)
    question = embedder.embed_query("What is the capital of France?")

    assert vectors.shape == (4, 384)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-3)
    assert int(np.argmax(vectors @ question)) == 1
    assert embedder.max_tokens == 256


def test_a_text_alone_and_in_a_batch_is_the_same(embedder: TeiEmbedder) -> None:
    long = [" ".join(PASSAGES) * n for n in range(1, 40)]
    vectors = embedder.embed_documents([*long, PASSAGES[0]])
    assert float(vectors[-1] @ embedder.embed_query(PASSAGES[0])) > 0.999
    # What lies beyond 256 tokens is cut: the longest texts are one and the same.
    assert float(vectors[37] @ vectors[38]) > 0.999


def test_late_interaction_ranks_and_heeds_weights(encoder_url: str) -> None:
    reranker = TeiLateInteractionReranker(Server("embedding", encoder_url, KEY))
    question = "What is the capital of France?"
    plain = reranker.score(question, PASSAGES)
    weighted = reranker.score(question, PASSAGES, [WeightedWord(23, 29, 1.0)])
    assert int(np.argmax(plain)) == int(np.argmax(weighted)) == 1
    assert all(-0.1 <= score <= 1.01 for score in [*plain, *weighted])
    assert plain != weighted


def test_server_side_late_interaction_is_that_of_the_client(
    encoder_url: str, client: httpx.Client
) -> None:
    question = "Größe: capital of France?"
    words = [WeightedWord(7, 14, 2.0), WeightedWord(18, 24, 3.0)]
    here = TeiLateInteractionReranker(Server("embedding", encoder_url, KEY))
    info = here._tei.info
    here._tei.__dict__["info"] = type(info)(info.model_id, 256, 32, late_interaction=False)
    there = TeiLateInteractionReranker(Server("embedding", encoder_url, KEY))
    np.testing.assert_allclose(
        here.score(question, PASSAGES, words), there.score(question, PASSAGES, words), atol=2e-2
    )


@pytest.mark.parametrize(
    ("path", "body", "status", "error_type"),
    [
        ("/embed", {"inputs": ""}, 400, "Empty"),
        ("/embed", {"inputs": []}, 400, "Empty"),
        ("/embed", {"inputs": ["a"] * 100}, 422, "Validation"),
        ("/embed", {"inputs": 7}, 422, "Validation"),
        ("/embed", {"inputs": ["a", 7]}, 422, "Validation"),
        ("/embed", {}, 422, "Validation"),
        ("/embed", {"inputs": "word " * 400, "truncate": False}, 422, "Validation"),
        ("/rerank", {"query": "q", "texts": []}, 400, "Empty"),
        ("/rerank", {"query": None, "texts": ["a"]}, 422, "Validation"),
        ("/rerank", {"query": "q", "texts": ["a"], "word_weights": "x"}, 422, "Validation"),
        ("/rerank", {"query": "q", "texts": ["a"], "word_weights": [[0, 1]]}, 422, "Validation"),
        ("/rerank", {"query": "q", "texts": "a", "word_weights": []}, 422, "Validation"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_in_tei_s_words(
    client: httpx.Client, path: str, body: object, status: int, error_type: str
) -> None:
    reply = client.post(path, json=body)
    assert (reply.status_code, reply.json()["error_type"]) == (status, error_type)


def test_what_is_no_request_is_refused_as_plain_text(client: httpx.Client) -> None:
    json_type = {"content-type": "application/json"}
    assert client.post("/embed", content=b"{", headers=json_type).status_code == 400
    assert client.post("/embed", content=b"[]", headers=json_type).status_code == 422
    assert client.post("/embed", content=b"x" * 2_000_001).status_code == 413
    assert client.post("/nowhere", json={}).status_code == 404
    assert client.get("/health").status_code == 200


def test_hostile_text_is_only_text(embedder: TeiEmbedder) -> None:
    texts = ["\x00", "‮\ud83d".encode("utf-16", "surrogatepass").decode("utf-16", "replace"),
             "a" * 50_000, " ", "[CLS][SEP][MASK]", "<script>"]  # fmt: skip
    assert np.isfinite(embedder.embed_documents(texts)).all()


@pytest.mark.parametrize("key", ["", "wrong", KEY.upper()])
def test_a_wrong_key_gets_an_empty_401(encoder_url: str, key: str) -> None:
    headers = {"authorization": f"Bearer {key}"} if key else {}
    for method, path in (("GET", "/info"), ("POST", "/embed")):
        body = {"inputs": "x"} if method == "POST" else None
        reply = httpx.request(
            method, encoder_url + path, json=body, headers=headers, trust_env=False
        )
        assert (reply.status_code, reply.content) == (401, b"")
    with pytest.raises(errors.Unauthorised):
        TeiEmbedder(Server("embedding", encoder_url, key)).embed_query("x")


def test_tokens_carry_character_offsets(client: httpx.Client) -> None:
    text = "Größe 東京"
    [tokens] = client.post("/tokenize", json={"inputs": text}).json()
    assert tokens[0] == {"id": 101, "text": "[CLS]", "special": True}
    assert tokens[-2]["text"] == text[tokens[-2]["start"] : tokens[-2]["stop"]] == "京"


def test_a_question_waits_for_one_step_of_documents_at_most(
    client: httpx.Client, encoder_url: str
) -> None:
    batch = {"inputs": [" ".join(PASSAGES * 8)] * 64}
    headers = {"authorization": f"Bearer {KEY}"}
    begun = time.monotonic()
    documents = threading.Thread(
        target=lambda: httpx.post(
            f"{encoder_url}/embed", json=batch, headers=headers, timeout=60, trust_env=False
        )
    )
    documents.start()
    time.sleep(0.1)
    asked = time.monotonic()
    client.post("/embed", json={"inputs": "quick?"}).raise_for_status()
    waited = time.monotonic() - asked
    documents.join()
    whole = time.monotonic() - begun
    # The batch is eight steps; a fair share of two allows for what else the machine does.
    assert waited < whole * 2.5 / 8


def test_metrics_say_how_long_the_model_worked(client: httpx.Client, embedder: TeiEmbedder) -> None:
    def figures() -> dict[str, float]:
        lines = client.get("/metrics").text.splitlines()
        words = [line.split() for line in lines if not line.startswith("#")]
        return {name: float(value) for name, value in words}

    before, start = figures(), time.perf_counter()
    embedder.embed_documents(PASSAGES)
    after, wall_s = figures(), time.perf_counter() - start

    spent = {name: after[name] - before[name] for name in after}
    assert 0 < spent["ragsite_encoder_model_seconds_total"] < wall_s
    assert spent["ragsite_encoder_open_seconds_total"] < wall_s
    assert spent["ragsite_encoder_texts_total"] >= len(PASSAGES)
    assert after["ragsite_encoder_texts"] == 0


def test_metrics_need_the_key(encoder_url: str) -> None:
    assert httpx.get(f"{encoder_url}/metrics", trust_env=False).status_code == 401


def test_passages_reranked_again_are_at_hand(client: httpx.Client, encoder_url: str) -> None:
    def looked_up() -> tuple[float, float]:
        lines = (line.split() for line in client.get("/metrics").text.splitlines())
        figures = {line[0]: line[-1] for line in lines if line[0] != "#"}
        names = ("passages_reranked_total", "passages_cached_total")
        first, second = (float(figures[f"ragsite_encoder_{name}"]) for name in names)
        return first, second

    reranker = TeiLateInteractionReranker(Server("embedding", encoder_url, KEY))
    passages = ["A passage that nothing else here asks about.", "Another one of that kind."]
    first = reranker.score("What is asked?", passages)
    before = looked_up()
    again = reranker.score("What is asked?", passages)
    after = looked_up()
    assert again == pytest.approx(first, abs=0.01)
    assert (after[0] - before[0], after[1] - before[1]) == (2, 2)
