"""A second real model on disk, a corpus of facts, and people who never stop asking."""

from __future__ import annotations

import json
import random
import shutil
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from apps.inference.model_files import locate_model
from ragsite.stack.demo import client
from ragsite.stack.demo.people import SLUG
from tests.running_stack import Stack

_FIRST = ("Alder", "Birch", "Cedar", "Dune", "Elm", "Fern", "Gorse", "Hazel", "Iris", "Juniper")
_LAST = ("bank", "bridge", "cove", "field", "ford", "gate", "haven", "mill", "point", "wick")
_WORK = ("mends the nets", "counts the barrels", "paints the boats", "keeps the lamps")
PLACES = [f"{first}{last}" for first in _FIRST for last in _LAST]


def make_shallow_model(folder: Path, *, layers: int) -> Path:
    """The bundled model without its upper layers: another model, of the same dimensions."""
    source = Path(locate_model("all-MiniLM-L6-v2"))
    shutil.copytree(source, folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "num_hidden_layers": layers}))
    return folder


def write_corpus(folder: Path, *, documents: int, large: int) -> None:
    """A file a place, and one of `large` sections, which is indexed in pieces."""
    folder.mkdir(parents=True)
    for number, place in enumerate(PLACES[:documents]):
        (folder / f"{place}.md").write_text(fact_about(place, number))
    sections = (
        f"## Entry {number}\n\nOn day {number} the tide stood {number % 97} hands high at the "
        f"{PLACES[number % len(PLACES)]} stairs.\n"
        for number in range(large)
    )
    (folder / "log.md").write_text("# Tide log\n\n" + "\n".join(sections))


def fact_about(place: str, number: int) -> str:
    chance = random.Random(number)  # noqa: S311 - the same each time
    lines = [
        f"In year {1800 + year} the keeper of {place} {chance.choice(_WORK)} and is paid "
        f"{chance.randrange(5, 90)} crowns for it."
        for year in range(12)
    ]
    return f"# {place}\n\n" + "\n\n".join(lines) + "\n"


def question_about(place: str) -> str:
    return f"What does the keeper of {place} do?"


@dataclass
class Asker:
    """Asks one question after another, in conversations of their own, until it is stopped."""

    stack: Stack
    collection_id: str
    asked: int = 0
    problems: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)  # of each question, to its last word
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Asker:
        self._thread = threading.Thread(target=self._ask_on)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        assert self._thread is not None
        self._thread.join(60)

    def _ask_on(self) -> None:
        chance = random.Random(1)  # noqa: S311 - the same each time
        while not self._stop.is_set():
            place = chance.choice(PLACES[:40])
            started = time.monotonic()
            try:
                answer = self.ask(question_about(place))
            except Exception as exc:
                self.problems.append(f"{place}: {type(exc).__name__}: {exc}")
                continue
            self.asked += 1
            self.seconds.append(time.monotonic() - started)
            self.problems += [f"{place}: {each}" for each in problems_of(answer, place)]

    def ask(self, question: str) -> client.Answer:
        cookie = self.stack.cookie("corpus-admin")
        with client.open_chat(self.stack.url, SLUG, cookie=cookie) as chat:
            return client.ask(chat, question, collections=[self.collection_id])


def problems_of(answer: client.Answer, place: str) -> list[str]:
    """What a person would call a failed question: not found, degraded, or not answered."""
    found = [f"hop {hop['hop']}: {hop['status']}" for hop in _search_hops(answer)]
    problems = [each for each in found if not each.endswith((": ok", ": cached"))]
    if f"{place}.md" not in [source["document_name"] for source in answer.sources]:
        problems.append("its document was not found")
    if answer.finished.get("state") != "complete":
        problems.append(f"ended as {answer.finished.get('state')}")
    return problems


def _search_hops(answer: client.Answer) -> list[dict[str, Any]]:
    return [hop for hop in answer.hops if hop["hop"] in ("embed", "search", "rerank")]
