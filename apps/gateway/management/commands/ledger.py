"""Check what is derived from the ledger, or derive it again."""

from __future__ import annotations

import time
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.gateway.ledger.rollups import Busy, rebuild
from apps.gateway.ledger.verifying import Difference, verify

DIFFERS, BUSY = 1, 3
_SHOWN = 20


class Command(BaseCommand):
    help = (
        "verify: compare rollups and the running windows' budget counters with the ledger; ends "
        "with 1 where one differs. rebuild: derive them again; pages stay right meanwhile."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("action", choices=["verify", "rebuild"])

    def handle(self, *args: Any, **options: Any) -> None:
        if options["action"] == "rebuild":
            self._rebuild()
        else:
            self._verify()

    def _rebuild(self) -> None:
        began = time.monotonic()
        try:
            count = rebuild()
        except Busy as exc:
            raise CommandError(f"Not begun: {exc}. Try again.", returncode=BUSY) from exc
        self.stdout.write(
            f"Derived from {count} rows of the ledger in {time.monotonic() - began:.1f} s."
        )

    def _verify(self) -> None:
        found = verify()
        if not found:
            self.stdout.write("Rollups and counters agree with the ledger to the micro.")
            return
        for difference in found[:_SHOWN]:
            self.stdout.write(_told(difference))
        more = len(found) - _SHOWN
        if more > 0:
            self.stdout.write(f"and {more} more")
        raise CommandError(
            f"{len(found)} lines are not what the ledger says. `manage.py ledger rebuild` derives "
            "them again.",
            returncode=DIFFERS,
        )


def _told(difference: Difference) -> str:
    stored, ledger = (
        "nothing" if figure is None else str(figure)
        for figure in (difference.stored, difference.ledger)
    )
    return f"{difference.table}: {difference.where}: {stored}, by the ledger {ledger}"
