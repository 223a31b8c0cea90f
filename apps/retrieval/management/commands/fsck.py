"""Check that rows, files, vectors and jobs agree; with --repair, make them."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import Counter
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError

from apps.documents.checking import Finding, Options
from apps.retrieval.checking import steps
from apps.tenants.models import Tenant

_QUIET_S = 2.0


class Command(BaseCommand):
    help = (
        "Find documents, files, vectors and jobs that do not agree. Exit status: 0 clean, "
        "1 something is left to repair, 2 wrong use. Safe while the site and workers run."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--tenant", help="the slug of one tenant. Default: all")
        parser.add_argument("--repair", action="store_true", help="make right what can be")
        parser.add_argument(
            "--deep", action="store_true", help="read every stored file and vector, too"
        )
        parser.add_argument("--json", action="store_true", help="print one JSON object")
        parser.add_argument(
            "--grace-s",
            type=float,
            default=Options.grace_s,
            help="a stored file younger than this may be without a document. Default: %(default)s",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["grace_s"] < 0:
            raise CommandError("--grace-s is a number of seconds, 0 or more.", returncode=2)
        run = _Run(self, repair=options["repair"], as_json=options["json"])
        how = Options(deep=options["deep"], grace_s=options["grace_s"])
        started = time.monotonic()
        with _Progress() as progress:
            for step in steps(how, tenant=_tenant(options["tenant"])):
                progress.words = step.words
                for finding in step.findings():
                    run.take(finding)
        run.report(time.monotonic() - started)
        if run.left:
            sys.exit(1)


class _Run:
    """What is done with the findings, and counted."""

    def __init__(self, command: Command, *, repair: bool, as_json: bool) -> None:
        self._command, self._repair, self._as_json = command, repair, as_json
        self._taken: list[dict[str, Any]] = []  # for JSON only
        self._counts: Counter[str] = Counter()
        self._repaired = 0

    @property
    def left(self) -> int:
        return self._counts.total() - self._repaired

    def take(self, finding: Finding) -> None:
        outcome = self._outcome(finding)
        self._counts[finding.kind] += 1
        self._repaired += outcome == "repaired"
        if self._as_json:
            self._taken.append(_plain(finding) | {"outcome": outcome})
            return
        tenant = f" in {finding.tenant_id}" if finding.tenant_id else ""
        self._say(f"{finding.kind} {finding.subject}{tenant}: {finding.words} {_WORDS[outcome]}")

    def report(self, seconds: float) -> None:
        found = self._counts.total()
        if self._as_json:
            totals = {"found": found, "repaired": self._repaired, "left": self.left}
            answer = {"findings": self._taken, "counts": dict(self._counts), **totals}
            self._say(json.dumps(answer | {"seconds": round(seconds, 2)}, indent=2))
        elif found:
            self._say(
                f"{found} found, {self._repaired} repaired, {self.left} left ({seconds:.1f} s)"
            )
            if self.left and not self._repair:
                self._say("Run it with --repair to make right what can be.")
        else:
            self._say(f"Clean ({seconds:.1f} s)")

    def _outcome(self, finding: Finding) -> str:
        if finding.repair is None:
            return "unrepairable"
        if not self._repair:
            return "repairable"
        try:
            return "repaired" if finding.repair() else "failed"
        except (DatabaseError, OSError):
            return "failed"

    def _say(self, words: str) -> None:
        self._command.stdout.write(words)


_WORDS = {
    "unrepairable": "Only a person can repair this.",
    "repairable": "",
    "repaired": "Repaired, or sent to a worker to be.",
    "failed": "The repair failed; run it again.",
}


def _plain(finding: Finding) -> dict[str, Any]:
    return {
        "kind": finding.kind,
        "tenant": str(finding.tenant_id) if finding.tenant_id else None,
        "subject": finding.subject,
        "words": finding.words,
        "repairable": finding.repair is not None,
    }


def _tenant(slug: str | None) -> Tenant | None:
    if slug is None:
        return None
    tenant = Tenant.objects.filter(slug=slug).first()
    if tenant is None:
        known = ", ".join(Tenant.objects.values_list("slug", flat=True)[:10]) or "none yet"
        raise CommandError(f"There is no tenant {slug!r}. Tenants: {known}.", returncode=2)
    return tenant


class _Progress:
    """Says on stderr, every two seconds, which check is under way."""

    def __init__(self) -> None:
        self.words = ""
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._tell, daemon=True)

    def __enter__(self) -> _Progress:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _tell(self) -> None:
        while not self._done.wait(_QUIET_S):
            sys.stderr.write(f"{self.words}…\n")
            sys.stderr.flush()
