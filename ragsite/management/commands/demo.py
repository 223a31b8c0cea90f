"""The demo of a new install: its people, its documentation ingested, and one question answered."""

from __future__ import annotations

import sys
import time
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.documents.management.terminal import table
from apps.documents.models import Collection, DocumentState
from ragsite.stack.demo import client, corpus, report
from ragsite.stack.demo.labelled import NAME as LABELLED_SET
from ragsite.stack.demo.labelled import ensure_labelled_set
from ragsite.stack.demo.people import SLUG, Demo, ensure_demo

QUESTION = "How are the documents of two tenants kept apart?"


class Command(BaseCommand):
    help = "Make the demo tenant, ingest the documentation, and ask one question of a running site."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--site", help="address of the running site; without it nothing is asked"
        )
        parser.add_argument("--question", default=QUESTION)

    def handle(self, *args: Any, **options: Any) -> None:
        demo = ensure_demo()
        collection = corpus.ensure_collection(demo)
        self._ingest(demo, collection)
        problems: tuple[str, ...] = ()
        if options["site"] is not None:
            self._sign_ins(demo, options["site"])
            problems = tuple(self._ask(demo, collection, options).problems)
        # Last: a worker measures the search on them, and the first answer should not wait for it.
        plan = ensure_labelled_set(demo, collection)
        self._say(
            f"Labelled set {LABELLED_SET!r}: {len(plan.questions)} questions. A worker measures "
            "the search on them: see Quality in the menu."
        )
        if problems:
            raise CommandError("; ".join(problems))

    def _ingest(self, demo: Demo, collection: Collection) -> None:
        changes = corpus.bring_up_to_date(demo, collection, settings.BASE_DIR / "docs")
        self._say(
            f"\nCollection {corpus.NAME!r}: {len(changes.uploaded)} documents to ingest, "
            f"{changes.unchanged} unchanged, {len(changes.deleted)} deleted"
        )
        started, failed = time.monotonic(), 0
        for document in corpus.wait_until_ingested(demo, collection):
            failed += document.state == DocumentState.FAILED
            outcome = document.error_message or f"{document.chunk_count} passages"
            elapsed = time.monotonic() - started
            self._say(f"  {elapsed:6.1f} s  {document.state:<7} {document.name:<28} {outcome}")
        if failed:
            raise CommandError(f"{failed} documents could not be ingested.")

    def _sign_ins(self, demo: Demo, site: str) -> None:
        self._say(f"\nSign in at {site}/ with the password {demo.password}")
        rows = [(user.email, name.replace("-", " ")) for name, user in demo.users.items()]
        for line in table(rows):
            self._say(f"  {line}")

    def _ask(self, demo: Demo, collection: Collection, options: dict[str, Any]) -> client.Answer:
        self._say(f"\nQ: {options['question']}\nA: ", end="")
        try:
            cookie = client.sign_in(
                options["site"], email=demo.corpus_admin.email, password=demo.password
            )
            with client.open_chat(options["site"], SLUG, cookie=cookie) as chat:
                answer = client.ask(
                    chat,
                    options["question"],
                    collections=[str(collection.id)],
                    on_text=lambda text: self._say(text, end=""),
                )
        except client.ClientFailed as exc:
            raise CommandError(str(exc)) from exc
        self._print(answer)
        return answer

    def _print(self, answer: client.Answer) -> None:
        self._say("\n")
        for notice in answer.notices:
            self._say(f"Note: {notice}")
        for line in [*report.sources_lines(answer), "", *report.hops_lines(answer), ""]:
            self._say(line)

    def _say(self, words: str, end: str = "\n") -> None:
        # Models and documents may write what the terminal's encoding cannot.
        encoding = sys.stdout.encoding or "utf-8"
        self.stdout.write(words.encode(encoding, "replace").decode(encoding), ending=end)
        self.stdout.flush()
