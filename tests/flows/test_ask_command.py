"""`manage.py ask`: against the running stack, and on a cold machine with the same data."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from ragsite.stack.state import BASE_DIR
from tests.flows.library import Library, make_library
from tests.running_stack import Stack

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

QUESTION = "Which bird nests on the roof of the mill at Aldern?"


@pytest.fixture(scope="module")
def library(stack: Stack) -> Library:
    made = make_library(stack)
    made.add("mill.md", "# The mill\n\nA white stork nests on the roof of the mill at Aldern.\n")
    return made


def test_a_running_stack_answers(library: Library) -> None:
    check(ask(library))


def test_a_cold_machine_starts_what_it_needs_and_leaves_nothing_running(library: Library) -> None:
    stack = library.stack
    with stack.stopped():
        check(ask(library))
        left = subprocess.run(["pgrep", "--full", str(stack.var)], capture_output=True, check=False)
        assert left.returncode == 1, left.stdout


def test_an_unknown_tenant_and_collection_are_named(library: Library) -> None:
    for arguments, words in (
        (("--tenant", "nowhere"), "There is no tenant 'nowhere'"),
        (("--tenant", "demo", "--collection", "nowhere"), "There is no collection 'nowhere'"),
    ):
        done = subprocess.run(
            [sys.executable, "manage.py", "ask", QUESTION, *arguments],
            cwd=BASE_DIR,
            env=library.stack.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode != 0
        assert words in done.stderr
        assert "Traceback" not in done.stderr


def ask(library: Library) -> dict[str, Any]:
    said = library.stack.manage(
        "ask", QUESTION, "--tenant", "demo", "--collection", library.name, "--json"
    )
    answer: dict[str, Any] = json.loads(said)
    return answer


def check(answer: dict[str, Any]) -> None:
    assert answer["kind"] == "generated"
    assert "stork" in answer["answer"]
    (citation,) = answer["citations"]
    assert citation["document"] == "mill.md"
    assert citation["page"] == 1
    assert 0 <= citation["start"] < citation["end"]
    assert 0 < citation["score"] <= 1
    assert [hop["hop"] for hop in answer["hops"]][:7] == [
        *("cache", "rewrite", "embed", "search", "rerank", "assemble", "generate"),
    ]
    assert {hop["status"] for hop in answer["hops"]} <= {"ok", "skipped", "cached"}
