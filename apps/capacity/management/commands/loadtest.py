"""Measure how much load a model server takes, find its knee, and compare what was measured."""

from __future__ import annotations

import json
import os
import signal
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.capacity.errors import CapacityError
from apps.capacity.load.types import KEY_VARIABLE, Target
from apps.capacity.loadtests.services import abandon_test, run_again, start_test, stop_test
from apps.capacity.loadtests.tables import comparison_lines, listed_lines, test_lines
from apps.capacity.loadtests.targets import address_target, gateway_target, upstream_target
from apps.capacity.loadtests.typed import typed_conditions, typed_plan, typed_workload
from apps.capacity.loadtests.working import run_here
from apps.capacity.models import LoadTest
from apps.capacity.selectors import find_tests, tests_by_age, whole_test
from apps.capacity.showing.exports import as_json
from apps.documents.management.terminal import Progress, printable
from apps.tenants.models import User

MISSED, WRONG_USE, INTERRUPTED = 1, 2, 130
ACTIONS = ("start", "again", "compare", "list", "show")
LISTED = 30


class Command(BaseCommand):
    help = (
        "Measures a model server under load: `loadtest --upstream NAME --rates 0.5,1,2`, with "
        "--knee for the highest load that keeps the promises. `loadtest again ID` repeats a test, "
        "`compare ID ID` sets two to four side by side, `list` and `show ID` tell of those there "
        "are. Only this machine is tested unless --host names another. A key is read from "
        f"{KEY_VARIABLE}."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("action", nargs="?", choices=ACTIONS, default="start")
        parser.add_argument("ids", nargs="*", metavar="ID", help="of load tests")
        parser.add_argument("--json", action="store_true", help="print JSON, in vLLM's names")
        _add_target(parser)
        _add_workload(parser)
        _add_plan(parser)
        _add_conditions(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            getattr(self, f"_{options['action']}")(options)
        except CapacityError as exc:
            raise CommandError(str(exc), returncode=WRONG_USE) from exc

    def _start(self, options: dict[str, Any]) -> None:
        if options["ids"]:
            raise CommandError(f"What is {options['ids'][0]!r}? Say: {', '.join(ACTIONS)}.")
        target, key = _target(options), os.environ.get(KEY_VARIABLE, "")
        test = start_test(
            name=options["name"] or _name(target),
            target=target,
            workload=typed_workload(options),
            plan=typed_plan(options),
            conditions=typed_conditions(options["condition"], hour_price=options["hour_price"]),
            user=_person(options["as_person"]),
            held=True,
            key=key,
        )
        self._follow(test, key, as_json=options["json"])

    def _again(self, options: dict[str, Any]) -> None:
        [first] = self._found(options["ids"], least=1, most=1)
        key = os.environ.get(KEY_VARIABLE, "")
        test = run_again(
            test_id=first.id,
            user=_person(options["as_person"]) or first.created_by,
            same_seed=options["same_seed"],
            held=True,
            key=key,
        )
        self._follow(test, key, as_json=options["json"])

    def _compare(self, options: dict[str, Any]) -> None:
        wholes = [whole_test(test) for test in self._found(options["ids"], least=2, most=4)]
        if options["json"]:
            self._write([json.dumps([as_json(whole) for whole in wholes], indent=2)])
        else:
            self._write(comparison_lines(wholes))

    def _list(self, options: dict[str, Any]) -> None:
        wholes = [whole_test(test) for test in tests_by_age()[:LISTED]]
        self._write(listed_lines(wholes))

    def _show(self, options: dict[str, Any]) -> None:
        [test] = self._found(options["ids"], least=1, most=1)
        self._tell(test, as_json=options["json"])

    def _follow(self, test: LoadTest, key: str, *, as_json: bool) -> None:
        """To its end; Ctrl-C stops it, and what was measured by then is told."""
        note = "Ctrl-C stops it; what was measured is kept."
        self.stderr.write(printable(f"Load test {test.id}. {note}", sys.stderr))
        line = _Line()
        with _ctrl_c() as pressed:

            def told(progress: dict[str, Any]) -> None:
                line.show(progress)
                if pressed:
                    stop_test(test_id=test.id, user=test.created_by)

            try:
                test = run_here(test, key=key, on_progress=told)
            except KeyboardInterrupt:
                # Pressed twice: the point under way is lost, those before it are not.
                abandon_test(test_id=test.id, user=test.created_by)
                test.refresh_from_db()
        line.clear()
        self._tell(test, as_json=as_json)
        if pressed:
            sys.exit(INTERRUPTED)
        if test.state == LoadTest.State.FAILED:
            words = test.result.get("message") or "No point could be measured."
            raise CommandError(f"{words} ({test.error_code})", returncode=MISSED)

    def _tell(self, test: LoadTest, *, as_json: bool) -> None:
        whole = whole_test(test)
        self._write([json.dumps(_as_json(whole), indent=2)] if as_json else test_lines(whole))

    def _write(self, lines: Sequence[str]) -> None:
        for line in lines:
            for part in line.split("\n"):
                self.stdout.write(printable(part, sys.stdout))

    def _found(self, words: Sequence[str], *, least: int, most: int) -> list[LoadTest]:
        if not least <= len(words) <= most:
            count = str(least) if least == most else f"{least} to {most}"
            raise CommandError(f"Give {count} of the ids that `loadtest list` shows.")
        return [_one(word) for word in words]


_as_json = as_json


class _Line:
    """Progress on stderr: a bar over the points, and what is under way."""

    def __init__(self) -> None:
        self._bar: Progress | None = None
        self._total = 0

    def show(self, progress: dict[str, Any]) -> None:
        if self._bar is None or self._total != progress["of"]:
            self.clear()
            self._total = progress["of"]
            self._bar = Progress(sys.stderr, "point", self._total)
        left = progress["seconds_left"]
        words = (
            "warming up" if progress.get("warming_up") else f"{progress.get('sent', 0):.0f} sent"
        )
        self._bar.show(
            progress["done"],
            f"{progress['purpose'].replace('_', '-')} at {progress['load']:g}: {words}, "
            f"about {left // 60}:{left % 60:02} left in all",
        )

    def clear(self) -> None:
        if self._bar is not None:
            self._bar.clear()


@contextmanager
def _ctrl_c() -> Iterator[list[int]]:
    """Not empty once Ctrl-C was pressed; pressed again, it ends the command at once."""
    pressed: list[int] = []

    def note(number: int, frame: object) -> None:
        pressed.append(number)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, before)


def _one(word: str) -> LoadTest:
    """By its id, or by the beginning of it that one test alone has."""
    try:
        found = find_tests([uuid.UUID(word)])
    except ValueError:
        begins = word.lower()
        tests = tests_by_age()[:1000] if len(begins) >= 4 else []
        found = [test for test in tests if str(test.id).startswith(begins)]
    if len(found) != 1:
        raise CommandError(f"There is no load test {word[:40]!r}, or more than one.")
    return found[0]


def _target(options: dict[str, Any]) -> Target:
    upstream, model, hosts = options["upstream"], options["model"], options["host"]
    if (upstream is None) + (options["gateway"] is None) + (options["url"] is None) != 2:
        raise CommandError("Give one of --upstream, --gateway and --url.", returncode=WRONG_USE)
    if upstream is not None:
        return upstream_target(upstream, model=model, hosts=hosts)
    if options["gateway"] is not None:
        return gateway_target(
            model=options["gateway"],
            tenant=options["tenant"],
            url=options["gateway_url"],
            hosts=hosts,
        )
    return address_target(
        options["url"],
        kind=options["kind"],
        model=model,
        hosts=hosts,
        key_variable=options["key_variable"],
    )


def _name(target: Target) -> str:
    return f"{target.model or 'its model'} at {target.upstream or target.url} ({target.via})"


def _person(email: str) -> User | None:
    if not email:
        return None
    person = User.objects.filter(email__iexact=email, is_active=True).first()
    if person is None or not person.is_ops:
        raise CommandError(f"There is nobody of operations called {email[:100]!r}.")
    return person


def _add_target(parser: CommandParser) -> None:
    group = parser.add_argument_group("whom")
    group.add_argument("--upstream", metavar="NAME", help="one of the gateway's, asked directly")
    group.add_argument("--gateway", metavar="MODEL", help="this site's own /v1, with that model")
    group.add_argument("--url", help="an address; of an OpenAI-compatible server with its /v1")
    group.add_argument("--kind", choices=("openai", "tgi"), default="openai", help="of --url")
    group.add_argument("--model", default="", help="as the server calls it; of --upstream, --url")
    group.add_argument(
        "--host", action="append", default=[], metavar="NAME",
        help="a host that is not this machine may be tested if it is this; repeatable",
    )  # fmt: skip
    group.add_argument("--key-variable", default="", metavar="NAME", help="with the key of --url")
    group.add_argument(
        "--tenant", default="", metavar="SLUG",
        help="of --gateway: whose key is made for the test, and who pays",
    )  # fmt: skip
    group.add_argument("--gateway-url", default="", metavar="URL", help="where the site answers")
    group.add_argument(
        "--as", dest="as_person", default="", metavar="EMAIL", help="who of operations starts it"
    )
    group.add_argument("--same-seed", action="store_true", help="of again: same lengths and times")


def _add_workload(parser: CommandParser) -> None:
    group = parser.add_argument_group("what")
    group.add_argument(
        "--workload", nargs="+", default=["synthetic"], metavar="WHAT",
        help="synthetic; trace FILE (JSON Lines); ledger TENANT, or ledger all",
    )  # fmt: skip
    group.add_argument("--prompt-tokens", default="100,20", metavar="MEAN[,DEVIATION]")
    group.add_argument("--output-tokens", default="16,4", metavar="MEAN[,DEVIATION]")
    group.add_argument("--days", type=int, default=7, help="of the ledger (7)")
    group.add_argument(
        "--shared-prefix", type=int, default=0, metavar="TOKENS",
        help="that all prompts begin with alike (0: a prefix cache is of no use)",
    )  # fmt: skip


def _add_plan(parser: CommandParser) -> None:
    group = parser.add_argument_group("how much")
    group.add_argument("--rates", metavar="N,N", help="requests a second (open loop)")
    group.add_argument("--concurrency", metavar="N,N", help="requests at a time (closed loop)")
    group.add_argument(
        "--arrivals", choices=("poisson", "constant", "trace"), default="poisson",
        help="of --rates; trace: as its rows say, so many times as fast",
    )  # fmt: skip
    group.add_argument("--knee", action="store_true", help="search between the ends of the loads")
    group.add_argument("--sweep", action="store_true", help="with --knee: measure all loads first")
    group.add_argument(
        "--promise", nargs="+", default=[], metavar="NAME:MS", help="ttft:500 tpot:50 e2e:3000"
    )
    group.add_argument("--share", type=float, default=0.95, help="of requests that keep all (0.95)")
    group.add_argument("--repeats", type=int, default=3)
    group.add_argument("--tightness", type=float, default=1.15, help="of the knee's bracket (1.15)")
    group.add_argument("--duration", type=float, default=30.0, metavar="S", help="of a point (30)")
    group.add_argument("--requests", type=int, default=1000, help="of a point, at most")
    group.add_argument("--warmup", type=int, default=2, help="requests before a point (2)")
    group.add_argument("--timeout", type=float, default=120.0, metavar="S", help="of a request")
    group.add_argument("--most-minutes", type=float, default=30.0, help="of the whole test (30)")
    group.add_argument("--most-requests", type=int, default=20_000, help="of the whole test")
    group.add_argument("--no-self-test", dest="self_test", action="store_false")
    group.add_argument("--seed", type=int, default=0, help="0: a new one")


def _add_conditions(parser: CommandParser) -> None:
    group = parser.add_argument_group("what the figures hold for")
    group.add_argument("--name", default="", help="of the test")
    group.add_argument(
        "--condition", action="append", default=[], metavar="NAME=VALUE",
        help="what the server does not tell: precision=FP8, gpu=H100, gpus=2; repeatable",
    )  # fmt: skip
    group.add_argument("--hour-price", metavar="PRICE", help="of the whole machine, for its cost")
