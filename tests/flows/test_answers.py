"""Documents and questions through every real part, and what people see when one is killed."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from websockets.sync.client import ClientConnection

from ragsite.stack.demo import client
from ragsite.stack.demo.people import SLUG
from tests.flows.library import (
    LONG_FACT,
    LONG_QUESTION,
    Library,
    make_library,
    site_client,
)
from tests.running_stack import Stack, eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

BACK_S = 30.0  # a part that was killed runs again within


@pytest.fixture(scope="module")
def library(stack: Stack) -> Library:
    made = make_library(stack)
    made.add("coach.md", LONG_FACT)
    return made


def test_a_question_one_second_after_ready_finds_the_document(library: Library) -> None:
    document = library.upload(
        "tides.md", b"# Tides\n\nHigh water at Skerry is at half past four.\n"
    )
    library.wait_until_ready(document)
    time.sleep(1)
    answer = library.ask("When is high water at Skerry?")
    assert answer.sources[0]["document"] == document
    check_hops(answer)


def test_a_deleted_document_is_found_no_more(library: Library) -> None:
    document = library.add("ferry.md", "# Ferry\n\nThe ferry to Hollow Point costs nine crowns.\n")
    library.delete(document)
    for table in ("documents_chunk", "search.chunkvector", "retrieval_chunkterms"):
        query = f"SELECT 1 FROM {table} WHERE document_id = %s"  # noqa: S608 - our own names
        assert library.stack.rows(query, document) == []
    answer = library.ask("How much is the ferry to Hollow Point?")
    assert document not in [source["document"] for source in answer.sources]


def test_the_encoder_killed_degrades_the_answer_and_comes_back(library: Library) -> None:
    is_back = library.stack.kill("encoder")
    answer = library.ask(LONG_QUESTION)
    assert "coach.md" in [source["document_name"] for source in answer.sources]
    assert answer.notices
    assert {hop["hop"]: hop["status"] for hop in answer.hops}["embed"] in ("degraded", "error")
    eventually(is_back, within_s=BACK_S, what="the encoder to come back")
    healthy = library.ask(LONG_QUESTION)
    assert healthy.finished["kind"] == "generated"
    check_hops(healthy)


def test_the_engine_killed_while_it_writes_keeps_what_was_written(library: Library) -> None:
    backs: list[Callable[[], bool]] = []

    def kill_once(text: str) -> None:
        if not backs:
            backs.append(library.stack.kill("engine"))

    with chat_of(library) as chat:
        broken = client.ask(chat, LONG_QUESTION, collections=[library.id], on_text=kill_once)
        assert broken.text
        assert broken.finished["state"] == "interrupted"
        assert broken.notices
        quoted = client.ask(chat, LONG_QUESTION, collections=[library.id])
        assert quoted.finished["kind"] == "quoted"
        assert quoted.finished["state"] == "complete"
        assert quoted.notices
        assert "Kestrel Rock" in quoted.text
        eventually(backs[0], within_s=BACK_S, what="the engine to come back")
        again = client.ask(chat, LONG_QUESTION, collections=[library.id])
    assert again.finished["kind"] == "generated"
    check_hops(again)


def test_stop_keeps_the_text_and_frees_the_engine_within_a_second(library: Library) -> None:
    with chat_of(library) as chat:
        answer, text = ask_and_wait_for_text(chat, library)
        assert library.stack.busy_slots() == 1
        chat.send(json.dumps({"v": 2, "type": "stop", "answer": answer}))
        eventually(lambda: not library.stack.busy_slots(), within_s=1, what="the engine to be free")
        finished = frame_of(chat, "answer.finished")
    assert finished["state"] == "stopped"
    assert text.strip() in finished["html"]


def test_an_answer_outlives_its_tab_and_is_followed_from_another(library: Library) -> None:
    with chat_of(library) as chat:
        answer, seen = ask_and_wait_for_text(chat, library)
    with chat_of(library) as chat:
        chat.send(json.dumps({"v": 2, "type": "follow", "answer": answer, "after": -1}))
        assert frame_of(chat, "answer.tokens")["text"].startswith(seen[:1])
        assert frame_of(chat, "answer.finished")["state"] == "complete"
    state = "SELECT state FROM chat_message WHERE id = %s"
    assert library.stack.rows(state, answer) == [("complete",)]


def test_the_worker_killed_while_it_ingests_loses_nothing_and_doubles_nothing(
    stack: Stack,
) -> None:
    texts = [chapter(number) for number in range(10)]
    undisturbed = make_library(stack)
    documents = [undisturbed.upload(f"{n}.md", text) for n, text in enumerate(texts)]
    undisturbed.wait_until_ready(*documents)

    disturbed = make_library(stack)
    documents = [disturbed.upload(f"{n}.md", text) for n, text in enumerate(texts)]
    eventually(
        lambda: any(disturbed.state_of(each) == "ready" for each in documents),
        within_s=30,
        what="the first document to be ready",
        every_s=0.02,
    )
    is_back = stack.kill("worker")
    assert any(disturbed.state_of(each) != "ready" for each in documents)
    eventually(is_back, within_s=BACK_S, what="the worker to come back")
    let_leases_run_out(stack)
    disturbed.wait_until_ready(*documents)
    assert rows_of(disturbed) == rows_of(undisturbed)


def test_redis_killed_leaves_the_pages_and_comes_back(library: Library) -> None:
    stack = library.stack
    is_back = stack.kill("redis")
    with site_client(stack, "corpus-admin") as site:
        assert site.get("documents/").status_code == 200
        assert site.get("chat/").status_code == 200
    page = httpx.get(f"{stack.url}/accounts/login/", timeout=10, trust_env=False)
    assert page.status_code == 200
    eventually(is_back, within_s=BACK_S, what="Redis to come back")
    document = library.upload("buoy.md", b"# Buoys\n\nThe buoy off Cape Lantern is painted red.\n")
    library.wait_until_ready(document)
    answer = library.ask("What colour is the buoy off Cape Lantern?")
    assert answer.sources[0]["document"] == document
    check_hops(answer)


def test_an_upload_while_redis_is_down_is_kept(library: Library) -> None:
    stack = library.stack
    is_back = stack.kill("redis")
    document = library.upload("crane.md", b"# Cranes\n\nThe crane at Brunn lifts ninety tons.\n")
    eventually(is_back, within_s=BACK_S, what="Redis to come back")
    let_leases_run_out(stack)
    library.wait_until_ready(document)


def test_redis_hanging_holds_up_neither_uploads_nor_answers(library: Library) -> None:
    redis = library.stack.process("redis")
    with chat_of(library) as chat:
        redis.suspend()
        try:
            began = time.monotonic()
            document = library.upload("raft.md", b"# Rafts\n\nThe raft at Quern carries sheep.\n")
            assert time.monotonic() - began < 15
            answer = client.ask(chat, LONG_QUESTION, collections=[library.id])
        finally:
            redis.resume()
    assert answer.finished["state"] == "complete"
    let_leases_run_out(library.stack)
    library.wait_until_ready(document)


def chat_of(library: Library) -> Any:
    cookie = library.stack.cookie("corpus-admin")
    return client.open_chat(library.stack.url, SLUG, cookie=cookie)


def check_hops(answer: client.Answer) -> None:
    """Nothing was down, and nobody was told that something was."""
    assert answer.notices == []
    assert {hop["status"] for hop in answer.hops} <= {"ok", "skipped"}


def ask_and_wait_for_text(chat: ClientConnection, library: Library) -> tuple[str, str]:
    """Ask what takes long; the answer's id and its first words, as soon as they have come."""
    question = {
        "v": 2,
        "type": "ask",
        "id": str(uuid.uuid4()),
        "conversation": None,
        "collections": [library.id],
        "after": None,
        "models": [],
        "question": LONG_QUESTION,
    }
    chat.send(json.dumps(question))
    first = frame_of(chat, "answer.tokens")
    return str(first["answer"]), str(first["text"])


def frame_of(chat: ClientConnection, kind: str) -> dict[str, Any]:
    """The next frame of a kind; others are passed over."""
    while True:
        frame: dict[str, Any] = json.loads(chat.recv(timeout=30))
        assert frame["type"] != "error", frame
        if frame["type"] == kind:
            return frame


def chapter(number: int) -> bytes:
    """Enough text for several passages, different for every number."""
    sections = [
        f"## Station {number}-{part}\n\n"
        + " ".join(
            f"Observer {number}{part}{n} noted a swell of {n} feet from the quarter of {part}."
            for n in range(20)
        )
        for part in range(6)
    ]
    return f"# Log {number}\n\n{chr(10).join(sections)}\n".encode()


def let_leases_run_out(stack: Stack) -> None:
    """Let the minutes pass after which the sweeper takes up what a dead worker held."""
    stack.rows(
        "UPDATE documents_job SET lease_expires_at = lease_expires_at - interval '1 hour', "
        "not_before = not_before - interval '1 hour' RETURNING id"
    )
    stack.manage(
        "shell",
        "--verbosity=0",
        "--command",
        "from apps.documents.sweeping import sweep; sweep()",
    )


def rows_of(library: Library) -> dict[str, list[tuple[Any, ...]]]:
    """Passages, vectors and terms of each document, counted where they are stored."""
    named = {
        table: library.stack.rows(
            f"SELECT document.name, count(*) FROM {table} "  # noqa: S608 - our own names
            "JOIN documents_document document ON document.id = document_id "
            "WHERE document.collection_id = %s "
            "GROUP BY document.name ORDER BY document.name",
            library.id,
        )
        for table in ("documents_page", "documents_chunk", "search.chunkvector")
    }
    statistics = library.stack.rows(
        "SELECT chunk_count, total_length FROM retrieval_collectionstatistics "
        "WHERE collection_id = %s",
        library.id,
    )
    return {**named, "statistics": statistics}
