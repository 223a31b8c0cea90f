"""The model in this process: our BERT against sentence-transformers', and what is built on it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from apps.inference.bert import can_run
from apps.inference.embedders.sentence_transformers import SentenceTransformersEmbedder
from apps.inference.local_encoder import STEP_TOKENS, LocalEncoder
from apps.inference.model_files import locate_model
from apps.inference.rerankers.late_interaction import LateInteractionReranker
from apps.inference.rerankers.token_cache import TokenCache

pytestmark = [pytest.mark.slow]
BUNDLED = Path(locate_model("all-MiniLM-L6-v2"))
TEXTS = ["short", "A longer sentence about cats, stoves and winter.", "word " * 400, "東京 – Größe"]


@pytest.fixture(scope="module")
def encoder() -> LocalEncoder:
    return LocalEncoder("all-MiniLM-L6-v2", threads=1)


def copied(tmp_path: Path, file: str, **changes: object) -> Path:
    """The bundled model's folder with a configuration file changed."""
    folder = tmp_path / "model"
    shutil.copytree(BUNDLED, folder)
    settings = json.loads((folder / file).read_text())
    (folder / file).write_text(json.dumps({**settings, **changes}))
    return folder


def test_our_bert_gives_the_vectors_of_sentence_transformers(encoder: LocalEncoder) -> None:
    from sentence_transformers import SentenceTransformer

    theirs = SentenceTransformer(str(BUNDLED), device="cpu").encode(TEXTS)
    precise = LocalEncoder("all-MiniLM-L6-v2", threads=1, dtype="float32")

    ours, fast = (e.embed(e.tokenize(TEXTS)) for e in (precise, encoder))

    np.testing.assert_allclose(ours, theirs, atol=2e-5)
    assert ((fast * theirs).sum(axis=1) > 0.999).all()


def test_bf16_and_fp32_may_stand_in_one_index() -> None:
    both = (
        LocalEncoder("all-MiniLM-L6-v2", threads=1, dtype=dtype)
        for dtype in ("bfloat16", "float32")
    )
    vectors = [encoder.embed(encoder.tokenize(TEXTS)) for encoder in both]
    assert ((vectors[0] * vectors[1]).sum(axis=1) > 0.9995).all()


def test_texts_of_all_lengths_are_run_in_few_shapes(
    encoder: LocalEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths, model = set(), encoder._model

    def watched(ids: Any, mask: Any) -> object:
        lengths.add(ids.shape[1])
        return model(ids, mask)

    monkeypatch.setattr(encoder, "_model", watched)
    texts = ["word " * count for count in range(1, 300, 7)]
    alone = [encoder.embed(encoder.tokenize([text]))[0] for text in texts]
    assert lengths <= set(range(STEP_TOKENS, encoder.max_tokens + 1, STEP_TOKENS))
    together = encoder.embed(encoder.tokenize(texts))
    assert ((together * np.stack(alone)).sum(axis=1) > 0.999).all()


@pytest.mark.parametrize(
    ("file", "changes"),
    [
        ("config.json", {"model_type": "mpnet"}),
        ("config.json", {"hidden_act": "relu"}),
        ("config.json", {"position_embedding_type": "relative_key"}),
        ("1_Pooling/config.json", {"pooling_mode_cls_token": True}),
    ],
)
def test_anything_unusual_is_left_to_sentence_transformers(
    tmp_path: Path, file: str, changes: dict[str, object]
) -> None:
    assert can_run(BUNDLED)
    assert not can_run(copied(tmp_path, file, **changes))


def test_a_model_that_sentence_transformers_runs_has_the_same_face(tmp_path: Path) -> None:
    folder = copied(
        tmp_path,
        "1_Pooling/config.json",
        pooling_mode_mean_tokens=False,
        pooling_mode_cls_token=True,
    )
    other = LocalEncoder(str(folder), threads=1)
    assert other.embed(other.tokenize(TEXTS)).shape == (4, 384)
    assert [len(v) for v in other.embed_tokens(other.tokenize(TEXTS[2:3]))] == [other.max_tokens]


def test_embedder_and_reranker_share_the_model(encoder: LocalEncoder) -> None:
    passages = ["Cats sleep all day.", "Paris is the capital of France.", "Rain fell."]
    embedder = SentenceTransformersEmbedder(encoder)
    reranker = LateInteractionReranker(encoder)

    question = "What is France's capital?"
    similarity = embedder.embed_documents(passages) @ embedder.embed_query(question)

    assert int(np.argmax(similarity)) == int(np.argmax(reranker.score(question, passages))) == 1
    assert reranker.score(question, []) == []
    assert embedder.embed_documents([]).shape == (0, 384)


def test_a_query_prompt_changes_the_question_only(encoder: LocalEncoder) -> None:
    prompted = SentenceTransformersEmbedder(encoder, query_prompt="query: ")
    plain = SentenceTransformersEmbedder(encoder)
    assert not np.allclose(prompted.embed_query("cats"), plain.embed_query("cats"))
    np.testing.assert_allclose(
        prompted.embed_documents(["cats"]), plain.embed_documents(["cats"]), atol=1e-6
    )


def test_long_texts_are_cut_before_their_closing_token(encoder: LocalEncoder) -> None:
    [encoding] = encoder.tokenize(["word " * 1000])
    assert len(encoding.ids) == encoder.max_tokens
    assert encoding.tokens[-1] == "[SEP]"


def test_a_passage_kept_scores_as_it_did(encoder: LocalEncoder) -> None:
    cache = TokenCache(10_000_000)
    reranker = LateInteractionReranker(encoder, cache=cache)
    passages = ["Cats sleep all day.", "Paris is the capital of France.", "Cats sleep all day."]
    first = reranker.score("What is France's capital?", passages)
    again = reranker.score("What is France's capital?", passages[::-1])
    assert again[::-1] == pytest.approx(first, abs=0.01)
    assert first[0] == first[2]
    assert (cache.figures().lookups, cache.figures().hits) == (4, 2)
