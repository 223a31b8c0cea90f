"""Make a failure happen on an engine of this machine, and write down what was seen."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from apps.capacity.errors import CapacityError
from apps.capacity.failures.all import FAILURES
from apps.capacity.failures.shown import Stage, write
from apps.documents.management.terminal import printable


class Command(BaseCommand):
    help = (
        "Starts engines of its own on loopback, breaks them on purpose, and writes a trace, a "
        "chart, figures and what was seen to a folder. Nothing of the site is touched."
    )
    requires_system_checks: list[str] = []  # noqa: RUF012 - Django's own form

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("failure", nargs="?", choices=tuple(FAILURES))
        parser.add_argument("--list", action="store_true", help="names and titles")
        parser.add_argument("--folder", type=Path, help="(var/failures/NAME)")
        parser.add_argument(
            "--quick", action="store_true", help="too short to conclude from; to try the way"
        )

    def handle(self, **options: Any) -> None:
        if options["list"]:
            for name, (title, _) in FAILURES.items():
                self.stdout.write(f"{name:15} {title}")
            return
        name = options["failure"]
        if name is None:
            raise CommandError(f"Name one of: {', '.join(FAILURES)}.", returncode=2)
        self._show(name, options["folder"] or _usual(name), is_quick=options["quick"])

    def _show(self, name: str, folder: Path, *, is_quick: bool) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            stage = Stage(folder, is_quick, lambda words: self.stderr.write(f"{words}…"))
            paths = write(FAILURES[name][1](stage), folder)
        except (CapacityError, OSError) as exc:
            raise CommandError(str(exc)) from exc
        except KeyboardInterrupt as exc:
            raise CommandError("Stopped; its engines have ended.", returncode=130) from exc
        for line in paths["seen"].read_text(encoding="utf-8").splitlines():
            self.stdout.write(printable(line, sys.stdout))
        for path in paths.values():
            self.stdout.write(str(path))


def _usual(name: str) -> Path:
    return Path(settings.BASE_DIR) / "var" / "failures" / name
