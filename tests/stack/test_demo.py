"""The demo's own questions about the documentation."""

from __future__ import annotations

import json

from django.conf import settings

from ragsite.stack.demo.labelled import QUESTIONS


def rows() -> list[dict[str, object]]:
    return [json.loads(line) for line in QUESTIONS.read_text().splitlines()]


def test_every_passage_stands_in_its_document() -> None:
    labels = [label for row in rows() for label in row.get("labels", [])]  # type: ignore[attr-defined]
    assert len(labels) > 15
    for label in labels:
        page = (settings.BASE_DIR / "docs" / label["document"]).read_text()
        assert label.get("passage", "") in page, label


def test_some_questions_are_not_answered() -> None:
    unanswerable = [row for row in rows() if row.get("unanswerable")]
    assert unanswerable
    assert not any("labels" in row for row in unanswerable)
