"""Send files and folders of this machine into a collection, and follow them to their end."""

from __future__ import annotations

import codecs
import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.documents import sending, services
from apps.documents.errors import NameTaken, TagsRefused
from apps.documents.management.terminal import Progress, printable, table
from apps.documents.models import Batch, Collection, DocumentState
from apps.documents.sending import UNCHANGED, Answers, Follower, Found, Item, Outcome
from apps.tenants.models import Tenant
from apps.tenants.scope import tenant_scope

WRONG_USE, INTERRUPTED = 2, 130
_STILL_S = 60.0  # without anything ending: is there a worker?


class Command(BaseCommand):
    help = (
        "Send files and folders into a collection. Sending them again changes nothing: files "
        "whose content the collection has are left alone, changed ones become new versions."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("paths", nargs="+", metavar="PATH", help="a file or a folder")
        parser.add_argument("--tenant", required=True, help="the tenant's slug")
        parser.add_argument("--collection", required=True, help="the collection's name")
        parser.add_argument(
            "--tag",
            action="append",
            default=[],
            metavar="TAG",
            help="a tag for what is sent, to narrow searches by; may be given several times",
        )
        parser.add_argument("--create", action="store_true", help="make it where there is none")
        parser.add_argument(
            "--wait", action="store_true", help="until every file is ready or has failed"
        )
        parser.add_argument("--json", action="store_true", help="print one JSON object")
        parser.add_argument(
            "--retry", action="store_true", help="try files again that have failed before"
        )
        parser.add_argument(
            "--passwords",
            metavar="FILE",
            help="lines of a document's path, a tab, and its password as it is typed; needs --wait",
        )
        parser.add_argument(
            "--encoding",
            default="",
            help="how texts are to be read whose encoding cannot be told; needs --wait",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        began = time.monotonic()
        sources = [_source(path) for path in options["paths"]]
        answers = _answers(options)
        tenant = _tenant(options["tenant"])
        collection = _collection(tenant, options["collection"], create=options["create"])
        tags = _tags(options["tag"])
        outcomes: list[Outcome] = []
        try:
            self._send(tenant, collection, sending.find_files(sources), outcomes, tags)
            follower = Follower(tenant=tenant, answers=answers, outcomes=outcomes)
            if options["retry"]:
                follower.retry_failed()
            if options["wait"]:
                self._follow(follower, outcomes)
        except KeyboardInterrupt:
            self.stderr.write(_interrupted(outcomes))
            sys.exit(INTERRUPTED)
        self._report(outcomes, time.monotonic() - began, as_json=options["json"])
        failed = sum(outcome.state == DocumentState.FAILED for outcome in outcomes)
        if failed:
            raise CommandError(f"{failed} of {len(outcomes)} files failed.", returncode=1)

    def _send(
        self,
        tenant: Tenant,
        collection: Collection,
        found: Found,
        outcomes: list[Outcome],
        tags: list[str],
    ) -> None:
        for link in found.links:
            self._note(f"Skipped {link}: a link that leads out of its folder.")
        outcomes += found.refused
        fresh = self._compare(tenant, collection, list(found.items.values()), outcomes)
        if not fresh:
            return
        batch = services.open_batch(
            tenant=tenant,
            collection=collection,
            user=None,
            source=Batch.Source.COMMAND,
            expected=len(fresh),
        )
        progress = Progress(sys.stderr, "Sent", len(fresh))
        for done, item in enumerate(fresh):
            progress.show(done, item.path)
            outcomes.append(
                sending.send(
                    tenant=tenant, collection=collection, item=item, batch=batch, tags=tags
                )
            )
        progress.clear()

    def _compare(
        self, tenant: Tenant, collection: Collection, items: list[Item], outcomes: list[Outcome]
    ) -> list[Item]:
        """Those that the collection does not have; what is known of the others is an outcome."""
        fresh: list[Item] = []
        progress = Progress(sys.stderr, "Compared", len(items))
        for done, item in enumerate(items):
            progress.show(done, item.path)
            known = sending.compare(tenant=tenant, collection=collection, item=item)
            if known is None:
                fresh.append(item)
            else:
                outcomes.append(known)
        progress.clear()
        return fresh

    def _follow(self, follower: Follower, outcomes: list[Outcome]) -> None:
        progress = Progress(sys.stderr, "Finished", len(outcomes))
        moved = time.monotonic()
        for ended in follower.follow():
            done = sum(not outcome.unfinished for outcome in outcomes)
            progress.show(done)
            now = time.monotonic()
            if ended:
                moved = now
            elif now - moved > _STILL_S:
                moved = now
                self._note(f"Nothing has ended for {_STILL_S:.0f} s. Is a worker running?")
        progress.clear()

    def _report(self, outcomes: list[Outcome], seconds: float, *, as_json: bool) -> None:
        outcomes.sort(key=lambda outcome: outcome.path)
        counts = {"total": len(outcomes), **Counter(str(each.state) for each in outcomes)}
        if as_json:
            documents = [_as_json(outcome) for outcome in outcomes]
            whole = {"documents": documents, "counts": counts, "seconds": round(seconds, 2)}
            self.stdout.write(json.dumps(whole, ensure_ascii=True, indent=2))
            return
        head = ("path", "state", "pages", "passages", "seconds", "reason")
        rows = [head, *(_as_row(outcome) for outcome in outcomes)]
        for line in table(rows, right=(2, 3, 4)) if outcomes else []:
            self.stdout.write(printable(line, sys.stdout))
        said = ", ".join(f"{count} {name}" for name, count in counts.items() if name != "total")
        self.stdout.write(f"{len(outcomes)} files in {seconds:.1f} s: {said or 'nothing to send'}")

    def _note(self, words: str) -> None:
        self.stderr.write(printable(words, sys.stderr))


def _source(path: str) -> Path:
    source = Path(path)
    if source.is_file() or source.is_dir():
        return source
    raise _wrong(f"There is no file or folder {path!r}. Check its name.")


def _tags(given: list[str]) -> list[str]:
    try:
        return services.clean_tags(given)
    except TagsRefused as exc:
        raise _wrong(str(exc)) from exc


def _answers(options: dict[str, Any]) -> Answers:
    encoding = options["encoding"]
    if (encoding or options["passwords"]) and not options["wait"]:
        raise _wrong("--passwords and --encoding answer what documents ask: add --wait.")
    try:
        codecs.lookup(encoding or "utf-8")
    except LookupError as exc:
        raise _wrong(
            f"There is no encoding {encoding!r}. Use a name such as cp1252 or shift_jis."
        ) from exc
    return Answers(
        passwords=_passwords(options["passwords"]) if options["passwords"] else {},
        encoding=encoding,
    )


def _passwords(name: str) -> dict[str, str]:
    """Passwords by path. Nothing of one is trimmed but the end of its line."""
    try:
        text = Path(name).read_bytes().decode("utf-8-sig")
    except OSError as exc:
        raise _wrong(f"{name} cannot be read: {exc.strerror}.") from exc
    except UnicodeDecodeError as exc:
        raise _wrong(f"{name} is not UTF-8. Save it as UTF-8.") from exc
    found: dict[str, str] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        path, tab, password = line.removesuffix("\r").partition("\t")
        if tab:
            found[path] = password
        elif path:
            raise _wrong(f"Line {number} of {name} has no tab between path and password.")
    return found


def _tenant(slug: str) -> Tenant:
    tenant = Tenant.objects.filter(slug=slug).first()
    if tenant is None:
        known = ", ".join(Tenant.objects.order_by("slug").values_list("slug", flat=True)[:10])
        raise _wrong(f"There is no tenant {slug!r}. Tenants: {known or 'none yet'}.")
    return tenant


def _collection(tenant: Tenant, name: str, *, create: bool) -> Collection:
    with tenant_scope(tenant.id):
        found = Collection.objects.filter(tenant=tenant, name=name.strip()).first()
        names = Collection.objects.filter(tenant=tenant).order_by("name")
        known = ", ".join(names.values_list("name", flat=True)[:10]) or "none yet"
    if found is not None:
        return found
    if not create:
        raise _wrong(
            f"There is no collection {name!r}. Collections: {known}. Add --create to make it."
        )
    if not 0 < len(name.strip()) <= 200:
        raise _wrong("A collection's name has 1 to 200 characters.")
    try:
        return services.create_collection(tenant=tenant, user=None, name=name)
    except NameTaken:  # by someone else, just now
        return _collection(tenant, name, create=False)


def _wrong(words: str) -> CommandError:
    return CommandError(words, returncode=WRONG_USE)


def _interrupted(outcomes: list[Outcome]) -> str:
    unfinished = sum(outcome.unfinished for outcome in outcomes)
    return (
        f"\nStopped. {len(outcomes)} files were looked at; {unfinished} that were sent go on "
        "wherever a worker runs. Run the same command again to send the rest."
    )


def _as_json(outcome: Outcome) -> dict[str, Any]:
    return {
        "path": outcome.path,
        "state": str(outcome.state),
        "code": outcome.code,
        "message": outcome.message,
        "pages": outcome.pages,
        "chunks": outcome.chunks,
        "seconds": round(outcome.seconds, 2),
        "version": outcome.version,
    }


def _as_row(outcome: Outcome) -> tuple[str, ...]:
    failed = outcome.state == DocumentState.FAILED
    reason = f"{outcome.code}: {outcome.message}" if failed else outcome.message
    numbers = (outcome.pages, outcome.chunks)
    shown = ("", "") if failed else (str(numbers[0]), str(numbers[1]))
    seconds = "" if outcome.state == UNCHANGED else f"{outcome.seconds:.1f}"
    return (outcome.path, str(outcome.state), *shown, seconds, reason)
