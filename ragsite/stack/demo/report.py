"""How an answer and its measurements look in a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from apps.documents.management.terminal import table
from ragsite.stack.demo.client import Answer


def sources_lines(answer: Answer) -> list[str]:
    """One line per cited passage: marker, document, page, heading."""
    rows = [
        (
            f"[{source['marker']}]",
            str(source["document_name"]),
            _pages(source["page_first"], source["page_last"]),
            f"relevance {source['relevance']:.2f}",
            str(source["heading"]),
        )
        for source in answer.cited
    ]
    return table(rows)


def hops_lines(answer: Answer) -> list[str]:
    """The hop table: status, time spent waiting, time spent working; then the whole."""
    rows: list[Sequence[str]] = [("hop", "status", "wait ms", "work ms")]
    rows += [
        (hop["hop"], hop["status"], f"{hop['wait_ms']:.1f}", f"{hop['work_ms']:.1f}")
        for hop in answer.hops
    ]
    lines = table(rows, right=(2, 3))
    whole = f"first token after {answer.first_token_ms or 0:.0f} ms"
    return [*lines, f"{whole}, all of it {answer.finished['total_ms']:.0f} ms"]


def _pages(first: int, last: int) -> str:
    return f"page {first}" if first == last else f"pages {first}-{last}"
