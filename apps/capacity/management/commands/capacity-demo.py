"""Sweep, knee, costs, memo and the four failures on the embedded engine, written to one page."""

from __future__ import annotations

import os
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from apps.capacity.errors import CapacityError
from apps.capacity.failures.demo.reporting import write_report
from apps.capacity.failures.demo.running import Demo


class Command(BaseCommand):
    help = (
        "Measures the embedded engine and breaks it in four ways, within 15 minutes on two idle "
        "cores; writes report.html and report.md. `make capacity-demo` gives it a database of its "
        "own; run by hand it keeps its load test in the site's."
    )

    requires_system_checks: list[str] = []  # noqa: RUF012 - Django's own form

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--folder", type=Path, help="(var/capacity-demo)")
        parser.add_argument("--quick", action="store_true", help="too short to conclude from")

    def handle(self, **options: Any) -> None:
        folder = (options["folder"] or Path(settings.BASE_DIR) / "var" / "capacity-demo").resolve()
        folder.mkdir(parents=True, exist_ok=True)
        demo = Demo(folder, options["quick"], lambda words: self.stderr.write(words))
        try:
            demo.run()
        except CapacityError as exc:
            raise CommandError(str(exc)) from exc
        except KeyboardInterrupt as exc:
            raise CommandError("Stopped; what it had started has ended.", returncode=130) from exc
        page = write_report(folder, demo.sections, demo.took, cores=os.cpu_count() or 1)
        self.stdout.write(str(page))
