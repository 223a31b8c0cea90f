"""Our TEI clients against the double, over real sockets."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from apps.inference import errors
from apps.inference.embedders.tei import TeiEmbedder
from apps.inference.rerankers.tei import TeiLateInteractionReranker, TeiReranker
from apps.inference.transport import Server
from apps.inference.types import WeightedWord
from tests.contract.tei import DIMENSIONS, TeiDouble, Trouble, Version

KEY = "secret-key-9a4"
PASSAGES = ["cats sleep", "the capital of France is Paris", "capital letters", "rain in Spain"]


@pytest.fixture(params=["1.8", "1.9"])
def server(request: pytest.FixtureRequest) -> Iterator[TeiDouble]:
    version: Version = request.param
    with TeiDouble(version=version, api_key=KEY) as double:
        yield double


def at(server: TeiDouble, *, timeout_s: float = 5.0, key: str = KEY) -> Server:
    return Server("embedding", server.url, key, timeout_s)


def test_documents_come_back_in_order_whatever_the_batch_size(server: TeiDouble) -> None:
    embedder = TeiEmbedder(at(server))
    texts = [f"text number {n}" for n in range(70)]

    vectors = embedder.embed_documents(texts)

    assert vectors.shape == (70, DIMENSIONS)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors[69], embedder.embed_query(texts[69]), atol=1e-6)
    assert [len(body["inputs"]) for body in server.bodies("/embed")[:3]] == [32, 32, 6]
    assert all(body["truncate"] is True for body in server.bodies("/embed"))


def test_no_documents_make_no_request_but_a_shape(server: TeiDouble) -> None:
    assert TeiEmbedder(at(server)).embed_documents([]).shape == (0, DIMENSIONS)


def test_a_question_goes_alone_with_its_prompt(server: TeiDouble) -> None:
    TeiEmbedder(at(server), query_prompt="query: ").embed_query("where?")
    assert server.bodies("/embed")[-1]["inputs"] == "query: where?"


def test_what_is_served_is_asked_once(server: TeiDouble) -> None:
    embedder = TeiEmbedder(at(server))
    assert embedder.model_id == "double/embedder"
    assert embedder.max_tokens == 256
    assert embedder.dimensions == DIMENSIONS
    assert [r.path for r in server.requests].count("/info") == 1


def test_one_connection_serves_many_requests(server: TeiDouble) -> None:
    embedder = TeiEmbedder(at(server))
    for _ in range(5):
        embedder.embed_query("again")
    assert server.open_connections == 1


def test_long_texts_are_cut_not_refused(server: TeiDouble) -> None:
    huge = "word " * 500_000  # 2.5 MB, more than the server reads
    assert TeiEmbedder(at(server)).embed_documents([huge, "short"]).shape == (2, DIMENSIONS)


def test_a_smaller_batch_limit_than_told_is_found_by_halving(server: TeiDouble) -> None:
    embedder = TeiEmbedder(at(server))
    assert embedder.max_tokens
    server.max_batch = 5  # restarted with another limit
    assert embedder.embed_documents([f"text {n}" for n in range(20)]).shape == (20, DIMENSIONS)


def test_documents_wait_out_an_overload(server: TeiDouble) -> None:
    server.troubles.extend([Trouble(status=429), Trouble(status=429)])
    assert TeiEmbedder(at(server)).embed_documents(["a", "b"]).shape == (2, DIMENSIONS)


def test_questions_do_not_wait_out_an_overload(server: TeiDouble) -> None:
    server.troubles.append(Trouble(status=429))
    with pytest.raises(errors.Overloaded):
        TeiEmbedder(at(server)).embed_query("now?")


def test_a_connection_lost_between_requests_is_not_the_callers_trouble(server: TeiDouble) -> None:
    embedder = TeiEmbedder(at(server))
    embedder.embed_query("one")
    server.troubles.append(Trouble(reset=True))
    assert embedder.embed_query("two").shape == (DIMENSIONS,)


@pytest.mark.parametrize(
    ("trouble", "error"),
    [
        (Trouble(status=424, error=("backend error", "Backend")), errors.Unavailable),
        (
            Trouble(status=424, error=("model is not an embedding model", "Backend")),
            errors.Rejected,
        ),
        (Trouble(status=503, error=("unhealthy", "Unhealthy")), errors.Unavailable),
        (Trouble(status=422, error=("tokenizer error", "Tokenizer")), errors.Rejected),
        (Trouble(status=400, error=("`inputs` cannot be empty", "Empty")), errors.Rejected),
        (Trouble(stall_s=5), errors.TimedOut),
        (Trouble(body="not json"), errors.ProtocolError),
        (Trouble(body="[[0.1, 0.2], [0.3]]"), errors.ProtocolError),
        (Trouble(body='{"embeddings": []}'), errors.ProtocolError),
        (Trouble(body="[]"), errors.ProtocolError),
        (Trouble(body="[[NaN, 1.0]]"), errors.ProtocolError),
        (Trouble(body='[["a", "b"]]'), errors.ProtocolError),
    ],
)
def test_trouble_becomes_one_kind_of_error(
    server: TeiDouble, trouble: Trouble, error: type[errors.InferenceError]
) -> None:
    embedder = TeiEmbedder(at(server, timeout_s=0.3))
    assert embedder.max_tokens
    server.troubles.append(trouble)

    with pytest.raises(error) as caught:
        embedder.embed_query("my private question")

    assert "private" not in str(caught.value)
    assert KEY not in str(caught.value)


def test_wrong_key_is_told(server: TeiDouble) -> None:
    with pytest.raises(errors.Unauthorised):
        TeiEmbedder(at(server, key="other")).embed_query("x")


def test_a_server_that_is_not_there_is_unavailable() -> None:
    with pytest.raises(errors.Unavailable):
        TeiEmbedder(Server("embedding", "http://127.0.0.1:9")).embed_query("x")


def test_reranker_puts_scores_back_in_order() -> None:
    with TeiDouble(kind="reranker", max_batch=3) as server:
        scores = TeiReranker(at(server)).score("capital of France", PASSAGES)
        assert server.bodies("/rerank")[0]["raw_scores"] is True
        assert "word_weights" not in server.bodies("/rerank")[0]
    assert len(scores) == len(PASSAGES)
    assert int(np.argmax(scores)) == 1


def test_reranking_at_an_embedding_server_is_rejected(server: TeiDouble) -> None:
    with pytest.raises(errors.Rejected):
        TeiReranker(at(server)).score("q", ["p"])


@pytest.mark.parametrize("byte_offsets", [False, True], ids=["characters", "bytes"])
def test_late_interaction_on_a_plain_tei_is_done_by_the_client(byte_offsets: bool) -> None:
    question = "Größe: capital?"
    passages = ["größe counts", "capital counts", "neither"]
    start = question.index("capital")
    with TeiDouble(byte_offsets=byte_offsets, max_batch=2) as server:
        reranker = TeiLateInteractionReranker(at(server))
        size = reranker.score(question, passages, [WeightedWord(0, 5, 1.0)])
        capital = reranker.score(question, passages, [WeightedWord(start, start + 7, 1.0)])
    assert size[0] == pytest.approx(1.0, abs=1e-5)
    assert capital[1] == pytest.approx(1.0, abs=1e-5)
    assert max(size[1], size[2], capital[0], capital[2]) < 0.99


def test_late_interaction_survives_a_question_longer_than_the_model_reads() -> None:
    with TeiDouble(max_input_tokens=16) as server:
        scores = TeiLateInteractionReranker(at(server)).score("word " * 100, ["word", "other"])
    assert scores[0] > scores[1]
