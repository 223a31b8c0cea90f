"""The embedding models that tenants may choose, beside the settings' own: list them, add one."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError

from apps.inference.errors import InferenceError
from apps.retrieval.builds.registering import add_model
from apps.retrieval.builds.selectors import models_on_offer


class Command(BaseCommand):
    help = __doc__

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        actions.add_parser("list", help="One model a line.")
        adding = actions.add_parser("add", help="Add a model; it is tried first.")
        adding.add_argument("label", help="What people choose it by.")
        adding.add_argument("location", help="Name or folder of the model, or URL of the server.")
        adding.add_argument(
            "--kind",
            choices=["sentence-transformers", "tei"],
            help="Default: tei for a URL, else sentence-transformers.",
        )
        adding.add_argument("--query-prompt", default="", help="Put before each question.")
        adding.add_argument("--document-prompt", default="", help="Put before each passage.")
        adding.add_argument(
            "--languages", nargs="+", default=["en"], help="ISO 639-1 codes, or * for all."
        )

    def handle(self, *args: Any, action: str, **options: Any) -> None:
        if action == "list":
            for each in models_on_offer():
                self.stdout.write(f"{each.label}: {each.kind} {each.location}")
            return
        fields = ("label", "location", "kind", "query_prompt", "document_prompt", "languages")
        try:
            model, dimensions = add_model(**{name: options[name] for name in fields})
        except InferenceError as exc:
            raise CommandError(f"The model was not added, for it cannot be used. {exc}") from exc
        except ValidationError as exc:
            raise CommandError(" ".join(exc.messages)) from exc
        self.stdout.write(f"Added {model.label}: {dimensions} dimensions.")
