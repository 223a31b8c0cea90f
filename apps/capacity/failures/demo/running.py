"""The steps of the demo, one after another, each timed. Needs a database; engines it starts."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

from django.core.management import call_command

from apps.capacity.failures.all import FAILURES
from apps.capacity.failures.demo.charting import knee_chart
from apps.capacity.failures.engines import engine
from apps.capacity.failures.shown import Stage, markdown, write
from apps.capacity.load.types import KEY_VARIABLE
from apps.capacity.models import LoadTest

HOUR_PRICE = "0.10"  # made up; the page says so
_FULL = (
    *("--rates", "0.5,1,2,4", "--knee", "--sweep", "--repeats", "2", "--duration", "15"),
    *("--prompt-tokens", "60,10", "--output-tokens", "12", "--tightness", "1.3"),
    *("--promise", "ttft:2000", "--most-minutes", "6", "--share", "0.9"),
)
_QUICK = (
    *("--rates", "0.5,4", "--knee", "--repeats", "1", "--duration", "3", "--tightness", "3.9"),
    *("--prompt-tokens", "30", "--output-tokens", "4", "--promise", "ttft:1500"),
    *("--most-minutes", "0.5", "--no-self-test", "--warmup", "0", "--arrivals", "constant"),
)


@dataclass
class Demo:
    """What is made goes to `folder`, as sections of one page."""

    folder: Path
    is_quick: bool
    tell: Callable[[str], None]
    sections: list[str] = field(default_factory=list)
    took: list[tuple[str, float]] = field(default_factory=list)

    def run(self) -> None:
        self._timed("sweep, knee and costs", self._measure)
        for name in FAILURES:
            self._timed(name, lambda name=name: self._fail(name))  # type: ignore[misc]

    def _timed(self, name: str, work: Callable[[], None]) -> None:
        self.tell(f"{name}: begins after {sum(s for _, s in self.took) / 60:.1f} minutes")
        began = time.monotonic()
        work()
        self.took.append((name, time.monotonic() - began))
        self.tell(f"{name}: took {self.took[-1][1]:.0f} s")

    def _measure(self) -> None:
        with engine(log=self.folder / "engine.log") as running:
            os.environ[KEY_VARIABLE] = running.key
            plan = _QUICK if self.is_quick else _FULL
            try:
                said = _said("loadtest", "start", "--url", f"{running.url}/v1", *plan)
            finally:
                del os.environ[KEY_VARIABLE]
        test = LoadTest.objects.latest("created_at")
        (self.folder / "knee.svg").write_text(knee_chart(test), encoding="utf-8")
        self.sections += ["## Sweep and knee", "![Sweep and knee](knee.svg)", _fenced(said)]
        if not test.result.get("knee", {}).get("found"):
            self.sections.append("No knee was found within these loads, so there is no cost of it.")
            return
        memo = self.folder / "memo.md"
        costs = _said("capacity-costs", str(test.id), "--hour", HOUR_PRICE, "--memo", str(memo))
        words = f"An hour of this machine is taken to cost {HOUR_PRICE}: a made-up price."
        self.sections += ["## What it costs", words, _fenced(costs), "## Memo"]
        self.sections.append(_deeper(memo.read_text(encoding="utf-8")))

    def _fail(self, name: str) -> None:
        folder = self.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        shown = FAILURES[name][1](Stage(folder, self.is_quick, self.tell))
        write(shown, folder)
        self.sections.append(markdown(shown, chart=f"{name}/chart.svg"))


def _said(*command: str, **options: Any) -> str:
    out = StringIO()
    call_command(*command, stdout=out, **options)
    return out.getvalue().strip()


def _fenced(text: str) -> str:
    return f"```\n{text}\n```"


def _deeper(text: str) -> str:
    """The memo's headings below this page's."""
    return "\n".join(f"##{line}" if line.startswith("#") else line for line in text.splitlines())
