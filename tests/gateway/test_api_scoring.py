"""`/v1/embeddings` and `/v1/rerank`."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pytest

from apps.gateway.models import BudgetCounter, LedgerEntry, Reservation
from apps.tenants.aio import in_thread
from tests.contract.tei import TeiDouble
from tests.gateway.asgi import ask

pytestmark = pytest.mark.django_db(transaction=True)
EMBED, RERANK = "/v1/embeddings", "/v1/rerank"


def texts(value: Any = "one", **changes: Any) -> dict[str, Any]:
    return {"model": "embedding", "input": value, **changes}


def ranking(**changes: Any) -> dict[str, Any]:
    documents = ["a canteen", "the capital of France is Paris", "leave"]
    return {"model": "reranker", "query": "capital of France", "documents": documents, **changes}


async def test_each_text_has_a_vector_in_its_place(key: str, tei: TeiDouble) -> None:
    many = [f"text {n}" for n in range(100)]  # more than one batch of TEI's
    answer = await ask("POST", EMBED, texts(many), key=key)
    reply = answer.json
    assert [each["index"] for each in reply["data"]] == list(range(100))
    alone = (await ask("POST", EMBED, texts("text 7"), key=key)).json
    assert np.allclose(reply["data"][7]["embedding"], alone["data"][0]["embedding"])
    assert reply["usage"]["prompt_tokens"] == reply["usage"]["total_tokens"] > 0
    assert answer.headers["x-ragsite-cost-micros"] == "0"


async def test_base64_holds_the_same_figures(key: str, tei: TeiDouble) -> None:
    plain = (await ask("POST", EMBED, texts(), key=key)).json["data"][0]["embedding"]
    answer = await ask("POST", EMBED, texts(encoding_format="base64"), key=key)
    encoded = answer.json["data"][0]["embedding"]
    assert np.allclose(np.frombuffer(base64.b64decode(encoded), "<f4"), plain)


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (texts([]), "input"),
        (texts(""), "input"),
        (texts(["a", " "]), "input"),
        (texts([1, 2, 3]), "input"),
        (texts([[1, 2], [3]]), "input"),
        (texts(["a"] * 257), "input"),
        (texts("a\0b"), "input"),
        (texts("x" * 200_000), "input"),
        (texts(dimensions=7), "dimensions"),
        (texts(dimensions=0), "dimensions"),
        (texts(encoding_format="hex"), "encoding_format"),
        ({"model": "embedding"}, "input"),
        ({"input": "a"}, "model"),
    ],
)
async def test_what_cannot_be_embedded_is_refused(
    key: str, tei: TeiDouble, body: dict[str, Any], param: str
) -> None:
    answer = await ask("POST", EMBED, body, key=key)
    assert (answer.status, answer.error["param"]) == (400, param)


async def test_documents_are_ranked_best_first(key: str, tei: TeiDouble) -> None:
    reply = (await ask("POST", RERANK, ranking(), key=key)).json
    scores = [each["relevance_score"] for each in reply["results"]]
    assert reply["results"][0]["index"] == 1
    assert scores == sorted(scores, reverse=True)
    assert {each["index"] for each in reply["results"]} == {0, 1, 2}
    assert all("document" not in each for each in reply["results"])


async def test_documents_may_be_objects_and_only_the_best_given(key: str, tei: TeiDouble) -> None:
    objects = [{"text": text, "id": 5} for text in ranking()["documents"]]
    body = ranking(documents=objects, top_n=1, return_documents=True)
    [only] = (await ask("POST", RERANK, body, key=key)).json["results"]
    assert only["document"] == {"text": "the capital of France is Paris"}


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"query": ""}, "query"),
        ({"query": None}, "query"),
        ({"documents": []}, "documents"),
        ({"documents": "a"}, "documents"),
        ({"documents": [1]}, "documents[0]"),
        ({"documents": [{"body": "a"}]}, "documents[0].text"),
        ({"documents": ["a"] * 257}, "documents"),
        ({"documents": ["x" * 200_000]}, "documents"),
        ({"top_n": 0}, "top_n"),
        ({"top_n": "1"}, "top_n"),
    ],
)
async def test_what_cannot_be_ranked_is_refused(
    key: str, tei: TeiDouble, changes: dict[str, Any], param: str
) -> None:
    answer = await ask("POST", RERANK, ranking(**changes), key=key)
    assert answer.status == 400
    assert answer.error["param"] == param


@pytest.mark.parametrize(
    ("path", "body", "hop"), [(EMBED, texts(), "embed"), (RERANK, ranking(), "rerank")]
)
async def test_a_call_is_booked_and_nothing_stays_reserved(
    key: str, tei: TeiDouble, path: str, body: dict[str, Any], hop: str
) -> None:
    answer = await ask("POST", path, body, key=key)
    row = await in_thread(LedgerEntry.objects.get)
    assert (row.hop, row.source, row.outcome) == (hop, "api", "complete")
    assert str(row.request_id) == answer.headers["x-request-id"]
    assert row.prompt_tokens > 0
    assert row.upstream
    assert not await in_thread(Reservation.objects.exists)
    reserved = await in_thread(lambda: set(BudgetCounter.objects.values_list("reserved", "used")))
    assert reserved <= {(0, 0)}


@pytest.mark.parametrize("path", [EMBED, RERANK])
async def test_a_model_of_another_kind_is_not_found(key: str, tei: TeiDouble, path: str) -> None:
    body = {**texts(), **ranking(), "model": "tgi"}
    answer = await ask("POST", path, body, key=key)
    assert (answer.status, answer.error["code"]) == (404, "model_not_found")
