"""Kill -9 of every part, at random moments, while a hundred documents are being ingested.

In the end each is ready, or failed by its own nature, with exactly the pages, passages, vectors
and statistics of an undisturbed run, and `manage.py fsck --deep` finds nothing. SEED= chooses the
moments; `make soak` goes through many.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.flows import chaos
from tests.flows.chaos import Figures, Ingestion, Kill, make_schedule, make_tenant
from tests.flows.corpus import FAILS, REPLACED, make_corpus, write_replaced
from tests.flows.fingerprint import take_fingerprint
from tests.running_stack import Stack, a_stack

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

SEED = int(os.environ.get("SEED") or 20260)
KILLS = 7
WITHIN_S = 240.0
# Short passages: large documents have many of them, and the encoder is done soon.
SETTINGS = {
    "JOB_LEASE_S": "5",
    "CHUNK_TOKENS": "32",
    "CHUNK_OVERLAP_TOKENS": "0",
    "OPENAI_URL": "http://127.0.0.1:9/v1",  # nobody asks anything
    "PARSE_TIMEOUT_S": "60",
}


@pytest.fixture(scope="module")
def small_stack() -> Iterator[Stack]:
    with a_stack(people=False, **SETTINGS) as running:
        yield running


def ingest_twice(stack: Stack, slug: str, folder: Path, kills: list[Kill]) -> Figures:
    """All files while kills go on, then one of them in another version."""
    make_tenant(stack, slug)
    write_replaced(folder, version=1)
    figures = Ingestion(stack, slug, folder, expected=100).run(kills, within_s=WITHIN_S)
    chaos.wait_for(stack, slug, REPLACED, 1, within_s=5)
    write_replaced(folder, version=2)
    Ingestion(stack, slug, folder, expected=101).run(within_s=WITHIN_S)
    return figures


def test_no_kill_loses_doubles_or_changes_a_document(small_stack: Stack, tmp_path: Path) -> None:
    make_corpus(tmp_path, seed=1)
    ingest_twice(small_stack, "calm", tmp_path, [])
    schedule = make_schedule(SEED, kills=KILLS)
    figures = ingest_twice(small_stack, "storm", tmp_path, schedule)
    said = "\n".join([f"SEED={SEED}", *map(str, schedule), *figures.lines()])
    chaos.settle_weights(small_stack)
    calm, storm = (take_fingerprint(small_stack, slug) for slug in ("calm", "storm"))
    states = {row[2] for row in calm.rows["document"] if not row[0].endswith(FAILS)}
    assert states == {"ready", "superseded"}
    assert list(calm.differences(storm)) == [], said
    # There may be no zygote left to kill: it lives from the first file to the last.
    assert figures.kills.total() - figures.kills["zygote"] >= KILLS - 2, said
    small_stack.manage("fsck", "--deep")
    # A file that was cut off between its bytes and its row is all that may be left over.
    repaired = json.loads(small_stack.manage("fsck", "--repair", "--grace-s", "0", "--json"))
    assert set(repaired["counts"]) <= {"stray_file"}
    small_stack.manage("fsck", "--deep", "--grace-s", "0")
