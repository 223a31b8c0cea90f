"""Documents that break ingestion elsewhere: none crashes or hangs, and most give their text."""

from __future__ import annotations

import csv
import unicodedata
from pathlib import Path

import pytest
from django.conf import settings

from apps.documents.tokenizer import tokenizer_file
from worker.sandbox import Limits, SandboxCrashed, SandboxError, SandboxTimedOut, run_sandboxed

FOLDER = Path(settings.BASE_DIR).parent / "shared" / "data" / "torture"
LIMITS = Limits(wall_s=30, memory_bytes=1536 * 2**20)
SNIPPETS_FOUND_MIN = 40  # of 48, as measured

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not FOLDER.is_dir(), reason="../shared/data/torture is not there"),
]


def listed() -> list[dict[str, str]]:
    with (FOLDER / "index.tsv").open(encoding="utf-8", newline="") as index:
        rows = list(csv.DictReader(index, delimiter="\t"))
    return [row for row in rows if (FOLDER / "files" / row["file"]).is_file()]


def squeezed(text: str) -> str:
    return "".join(unicodedata.normalize("NFKC", text).split())


def parse_and_chunk(name: str) -> str:
    """The text, with its chunks checked; "" for a refusal."""
    path = str(FOLDER / "files" / name)
    function = "apps.documents.parsing.parse:parse_file"
    try:
        parsed = run_sandboxed(function, {"path": path, "name": name}, limits=LIMITS)
    except (SandboxCrashed, SandboxTimedOut):
        raise
    except SandboxError:
        return ""
    text = "".join(parsed["pages"])
    spans = run_sandboxed(
        "apps.documents.chunking:chunk_pages",
        {
            "pages": parsed["pages"],
            "headings": parsed["headings"],
            "tokenizer_file": tokenizer_file(),
            "max_tokens": 200,
            "overlap_tokens": 30,
        },
        limits=LIMITS,
    )
    assert spans
    assert all(text[start:end].strip() for start, end, _, _ in spans)
    assert "\x00" not in text
    text.encode()  # no lone surrogate
    return text


def test_nothing_crashes_or_hangs_and_most_snippets_are_found() -> None:
    wanted = missed = 0
    for row in listed():
        text = squeezed(parse_and_chunk(row["file"]))
        snippet = squeezed(row["expected_snippet"] or "")
        if snippet:
            wanted += 1
            missed += snippet not in text
    assert wanted - missed >= min(SNIPPETS_FOUND_MIN, wanted)
