"""The cross-encoder's whole path, on a tiny model made here: no trained weights are at hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from apps.inference.rerankers.cross_encoder import CrossEncoderReranker

pytestmark = pytest.mark.slow

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "leave", "is", "25", "days", "the", "moon"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A one-layer BERT classifier with random weights, saved as sentence-transformers loads it."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

    torch.manual_seed(1)
    folder = tmp_path_factory.mktemp("cross-encoder")
    (folder / "vocab.txt").write_text("\n".join(WORDS))
    BertTokenizerFast(vocab=str(folder / "vocab.txt")).save_pretrained(folder)
    config = BertConfig(
        vocab_size=len(WORDS),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=64,
        num_labels=1,
        initializer_range=1.0,  # so that scores differ
    )
    BertForSequenceClassification(config).save_pretrained(folder)
    return folder


def test_each_passage_gets_its_own_score_in_the_order_given(model: Path) -> None:
    reranker = CrossEncoderReranker(str(model), threads=1)
    passages = ["leave is 25 days", "the moon", "leave", "the moon is 25"]
    together = reranker.score("leave days", passages)
    alone = [reranker.score("leave days", [passage])[0] for passage in passages]
    assert together == pytest.approx(alone, rel=0.05, abs=0.05)
    assert len(set(together)) == len(passages)


def test_nothing_to_score_is_no_work(model: Path) -> None:
    assert CrossEncoderReranker(str(model), threads=1).score("leave", []) == []
