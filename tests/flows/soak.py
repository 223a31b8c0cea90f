"""`make soak`: the kill test again and again, each time at other moments. MINUTES= (10), SEED=.

Each round is a tenant of its own: its files are ingested while parts are killed, compared with an
undisturbed run, checked with `manage.py fsck --deep`, and deleted; then nothing of it may be left.
It ends at the first difference, with the seed that shows it. Only `scripts/soak` runs it.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from pathlib import Path

from tests.flows import chaos
from tests.flows.chaos import Figures, Ingestion, make_schedule, make_tenant
from tests.flows.corpus import make_corpus
from tests.flows.fingerprint import Fingerprint, take_fingerprint
from tests.flows.test_kill import SETTINGS
from tests.running_stack import Stack, a_stack

MINUTES = float(os.environ.get("MINUTES") or 10)
SEED = int(os.environ.get("SEED") or time.time())
KILLS = 12
WITHIN_S = 900.0
DOCUMENTS = 100


def test_soak(tmp_path: Path) -> None:
    make_corpus(tmp_path, seed=1)
    with a_stack(people=False, **SETTINGS) as stack:
        calm = ingest(stack, "calm", tmp_path, seed=None)
        say("", f"undisturbed: {calm.seconds:.1f} s for {DOCUMENTS} documents")
        chaos.settle_weights(stack)
        storms(stack, tmp_path, take_fingerprint(stack, "calm"))


def storms(stack: Stack, folder: Path, calm: Fingerprint) -> None:
    ends = time.monotonic() + MINUTES * 60
    rounds: list[Figures] = []
    while time.monotonic() < ends:
        seed = SEED + len(rounds)
        rounds.append(ingest(stack, f"storm{seed}", folder, seed=seed))
        say(f"seed {seed}: " + "; ".join(rounds[-1].lines()))
        wrong = problems(stack, f"storm{seed}", calm)
        assert wrong == [], f"not as it should be, with SEED={seed}"
        stack.manage("delete_tenant", f"storm{seed}", "--yes", timeout_s=300)
        # What was cut off while it was being sent may have left a file; nothing else may be there.
        stack.manage("fsck", "--repair", "--deep", "--grace-s", "0", timeout_s=300)
    summarise(rounds)


def ingest(stack: Stack, slug: str, folder: Path, *, seed: int | None) -> Figures:
    make_tenant(stack, slug)
    kills = [] if seed is None else make_schedule(seed, kills=KILLS)
    return Ingestion(stack, slug, folder, expected=DOCUMENTS).run(kills, within_s=WITHIN_S)


def problems(stack: Stack, slug: str, calm: Fingerprint) -> list[str]:
    chaos.settle_weights(stack)
    found = list(calm.differences(take_fingerprint(stack, slug)))
    try:
        stack.manage("fsck", "--deep", timeout_s=300)
    except AssertionError as exc:
        found.append(str(exc))
    return found


def summarise(rounds: list[Figures]) -> None:
    kills: Counter[str] = sum((each.kills for each in rounds), Counter())
    say("", f"{len(rounds)} rounds, {DOCUMENTS * len(rounds)} documents, none lost or changed")
    for part, count in sorted(kills.items()):
        times = sorted(t for each in rounds for t in each.recovery_s.get(part, []))
        middle = times[len(times) // 2] if times else 0.0
        say(
            f"  {part:<9} killed {count:>4} times; a document was finished again after "
            f"{middle:5.1f} s (median), {max(times, default=0.0):5.1f} s (most)"
        )
    retaken = sum(each.retaken.total() for each in rounds)
    slowest = max(each.seconds for each in rounds)
    say(f"  attempts after a first one: {retaken}; slowest round {slowest:.0f} s")


def say(*lines: str) -> None:
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()
