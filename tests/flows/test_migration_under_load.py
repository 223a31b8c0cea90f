"""The embedding model changes while people ask and the worker is killed: nobody notices.

No question fails, none is answered across two models, and the vectors in the end are, to the bit,
those of a build that nothing disturbed.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from statistics import median

import pytest

from ragsite.stack.demo.people import SLUG
from tests.flows import chaos
from tests.flows.library import site_client
from tests.flows.migrating import (
    PLACES,
    Asker,
    fact_about,
    make_shallow_model,
    question_about,
    write_corpus,
)
from tests.running_stack import Stack, a_stack, eventually

logger = logging.getLogger(__name__)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

CALM = "calm"
LABEL = "Shallow"
DOCUMENTS, LARGE = 40, 1300
WITHIN_S = 240.0
SETTINGS = {
    "JOB_LEASE_S": "5",
    "CHUNK_TOKENS": "32",
    "CHUNK_OVERLAP_TOKENS": "0",
    # Both tenants are large ones: their new indexes get partitions of their own.
    "HNSW_ABOVE_CHUNKS": "1000",
    # Questions come again: each is to be searched.
    "RESPONSE_CACHE_TTL_S": "0",
    "EMBEDDING_CACHE_TTL_S": "0",
    # Answers are passages, quoted: what is tried here is how they are found.
    "OPENAI_URL": "http://127.0.0.1:9/v1",
}
# The newest build's target, of a tenant.
_TARGET = """
    SELECT target_id FROM retrieval_indexbuild JOIN tenants_tenant AS tenant
        ON tenant.id = tenant_id WHERE slug = %s ORDER BY retrieval_indexbuild.created_at DESC
"""
_BUILD = """
    SELECT build.id, state, error_code FROM retrieval_indexbuild AS build
    JOIN tenants_tenant AS tenant ON tenant.id = tenant_id WHERE slug = %s
    ORDER BY build.created_at DESC LIMIT 1
"""
_PARTITIONS = r"""
    SELECT count(*) FROM pg_class WHERE relkind = 'r' AND relname ~ '^chunkvector_[1-9]\d*$'
"""
_VECTORS = """
    SELECT path, ordinal, md5(chunk.text), embedding::text FROM search.chunkvector AS row
    JOIN documents_chunk AS chunk ON chunk.id = row.chunk_id
    JOIN documents_document AS document ON document.id = row.document_id
    WHERE index_id = %s AND document.state = 'ready' ORDER BY path, ordinal
"""
_READY = """
    SELECT count(*) FROM documents_document JOIN tenants_tenant AS tenant ON tenant.id = tenant_id
    WHERE slug = %s AND state = 'ready'
"""
# Each question's embed hop beside its search hop, with the model that the index is really by.
_QUESTIONS = """
    SELECT embed.status, search.status, embed.attributes->>'model', index.model_id,
        embed.attributes->>'index', search.attributes->>'index',
        (search.attributes->>'vector_candidates')::int
    FROM telemetry_span AS embed
    JOIN telemetry_span AS search ON search.trace_id = embed.trace_id AND search.hop = 'search'
    LEFT JOIN retrieval_embeddingindex AS index
        ON index.id::text = search.attributes->>'index'
    WHERE embed.hop = 'embed' AND embed.kind = 'answer' AND embed.tenant_id =
        (SELECT id FROM tenants_tenant WHERE slug = %s)
"""


@pytest.fixture(scope="module")
def a_large_stack() -> Iterator[Stack]:
    with a_stack(**SETTINGS) as running:
        yield running


@pytest.fixture(scope="module")
def loaded(a_large_stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Stack:
    """Both tenants with the same documents, and a second model to choose."""
    stack = a_large_stack
    folder = tmp_path_factory.mktemp("corpus") / "places"
    write_corpus(folder, documents=DOCUMENTS, large=LARGE)
    model = make_shallow_model(stack.var / "shallow", layers=3)
    stack.manage("embedding_models", "add", LABEL, str(model), "--languages", "en")
    chaos.make_tenant(stack, CALM)
    for slug in (CALM, SLUG):
        stack.manage(
            *("ingest", str(folder), "--tenant", slug, "--collection", "Places", "--create"),
            timeout_s=WITHIN_S,
        )
        eventually(
            lambda slug=slug: stack.rows(_READY, slug) == [(DOCUMENTS + 1,)],  # type: ignore[misc]
            within_s=WITHIN_S,
            what=f"the documents of {slug} to be ready",
        )
    return stack


def build_calmly(stack: Stack) -> None:
    command = (
        "from apps.retrieval.builds import start_build as s;"
        "from apps.retrieval.models import EmbeddingModel as M;"
        "from apps.tenants.models import Tenant as T;"
        f"s(tenant=T.objects.get(slug={CALM!r}), user=None, model=M.objects.get())"
    )
    stack.manage("shell", "--verbosity=0", "--command", command)
    wait_for_state(stack, CALM, "ready")


def wait_for_state(stack: Stack, slug: str, state: str) -> None:
    def there() -> bool:
        [(_, now, _)] = stack.rows(_BUILD, slug)
        return bool(now == state)

    eventually(there, within_s=WITHIN_S, what=f"the build of {slug} to be {state}")


def vectors_built(stack: Stack, slug: str) -> int:
    [(count,)] = stack.rows(
        f"SELECT count(*) FROM search.chunkvector WHERE index_id = ({_TARGET} LIMIT 1)",  # noqa: S608
        slug,
    )
    return int(count)


def post(stack: Stack, path: str, **fields: str) -> str:
    """What the page says afterwards."""
    with site_client(stack, "manager") as site:
        done = site.post(f"quality/embedding/{path}", data=fields)
        assert done.status_code == 302, done.text
        return site.get("quality/embedding/").text


def start_build(stack: Stack) -> str:
    """From the page; the build's id."""
    [(model_id,)] = stack.rows("SELECT id FROM retrieval_embeddingmodel")
    shown = post(stack, "start/", model=str(model_id))
    found = re.search(r"quality/embedding/([0-9a-f-]{36})/", shown)
    assert found, shown
    return found[1]


def give_up_one(stack: Stack) -> None:
    """A build that is cancelled on its way: its partition comes and goes under the questions."""
    build = start_build(stack)
    eventually(
        lambda: vectors_built(stack, SLUG) > 0, within_s=WITHIN_S, what="a vector to be there"
    )
    assert stack.rows(_PARTITIONS) == [(2,)], "one of each tenant"
    post(stack, f"{build}/", action="cancel")
    wait_for_state(stack, SLUG, "cancelled")
    assert stack.rows(_PARTITIONS) == [(1,)]


def kill_worker_at(stack: Stack, vectors: int) -> None:
    eventually(
        lambda: vectors_built(stack, SLUG) >= vectors,
        within_s=WITHIN_S,
        what=f"{vectors} vectors to be there",
    )
    is_back = stack.kill_with_children("worker")
    [(_, state, _)] = stack.rows(_BUILD, SLUG)
    assert state == "building", "killed on its way"
    eventually(is_back, within_s=60, what="the worker to come back")


def add_document(stack: Stack, place: str, number: int) -> None:
    [(collection,)] = collections_of(stack)
    with site_client(stack, "corpus-admin") as site:
        file = (f"{place}.md", fact_about(place, number).encode())
        answer = site.post(f"documents/{collection}/upload/", files={"file": file})
    assert answer.status_code == 201, answer.text
    chaos.wait_for(stack, SLUG, f"{place}.md", 1, within_s=WITHIN_S)


def collections_of(stack: Stack) -> list[tuple[object, ...]]:
    return stack.rows(
        "SELECT id FROM documents_collection WHERE name = 'Places' "
        "AND tenant_id = (SELECT id FROM tenants_tenant WHERE slug = %s)",
        SLUG,
    )


def test_the_model_changes_under_load_and_nobody_notices(loaded: Stack) -> None:
    stack = loaded
    build_calmly(stack)
    total = vectors_built(stack, CALM)
    assert total > 1024 + DOCUMENTS, "one document is indexed in pieces"
    [(collection,)] = collections_of(stack)
    with Asker(stack, str(collection)) as asker:
        give_up_one(stack)
        build = start_build(stack)
        kill_worker_at(stack, 1)
        kill_worker_at(stack, total // 2)
        during = PLACES[DOCUMENTS]
        add_document(stack, during, DOCUMENTS)
        wait_for_state(stack, SLUG, "ready")
        eventually(
            lambda: vectors_built(stack, SLUG) > total,
            within_s=60,
            what="the new document to be in both indexes",
        )
        asked_before = asker.asked
        said = post(stack, f"{build}/", action="switch", reason="No labelled set yet.")
        assert "In force since" in said
        eventually(lambda: asker.asked >= asked_before + 10, within_s=120, what="ten answers")
        after = PLACES[DOCUMENTS + 1]
        add_document(stack, after, DOCUMENTS + 1)
        post(stack, f"{build}/", action="back")
        eventually(lambda: asker.asked >= asked_before + 20, within_s=120, what="ten more")
    logger.info(
        "%d questions, half of them within %.2f s, the longest %.1f s; %d vectors built",
        *(asker.asked, median(asker.seconds), max(asker.seconds), vectors_built(stack, SLUG)),
    )
    assert asker.problems == []
    check_models(stack)
    check_vectors(stack, new={f"{during}.md", f"{after}.md"})
    stack.manage("fsck")
    assert asker.ask(question_about(after)).sources


def check_models(stack: Stack) -> None:
    """Every question: embedded by the model of the very index that its vectors were found in."""
    questions = stack.rows(_QUESTIONS, SLUG)
    assert len(questions) >= 20
    for embed, search, asked_by, found_by, embedded_for, searched, candidates in questions:
        assert (embed, search) == ("ok", "ok")
        assert asked_by == found_by
        assert embedded_for == searched
        assert candidates > 0
    assert len({row[2] for row in questions}) == 2, "both models have answered"


def check_vectors(stack: Stack, *, new: set[str]) -> None:
    """The same as an undisturbed build made, to the bit, for all that both tenants have."""
    (calm,), (storm,) = stack.rows(_TARGET, CALM)[0], stack.rows(_TARGET, SLUG)[0]
    expected = stack.rows(_VECTORS, calm)
    found = stack.rows(_VECTORS, storm)
    assert [row for row in found if row[0] not in new] == expected
    assert {row[0] for row in found} >= {row[0] for row in expected}
