"""`migrate`, as the owner: the site's own role may not change tables."""

from __future__ import annotations

from typing import Any

from django.core.management import call_command
from django.core.management.base import CommandParser
from django.core.management.commands import migrate


class Command(migrate.Command):
    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.set_defaults(database="owner")

    def handle(self, *args: Any, **options: Any) -> Any:
        if options["database"] == "owner":
            call_command("prepare_database", verbosity=options["verbosity"])
        return super().handle(*args, **options)
