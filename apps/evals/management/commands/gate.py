"""Have a route of a model pass its gate, or fail it."""

from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.documents.management.terminal import Progress, printable, table
from apps.evals.answering.judging import parse_budgets
from apps.evals.answering.selectors import METRIC_WORDS, VERDICT_WORDS
from apps.evals.answering.starting import PROMPTS, SAMPLE, start_gate
from apps.evals.answering.working import stop_gate, work_here
from apps.evals.errors import EvalsError
from apps.evals.models import AnswerRun, LabelledSet
from apps.tenants.models import Tenant
from apps.tenants.scope import tenant_scope

NOT_PASSED, WRONG_USE, INTERRUPTED = 1, 2, 130


class Command(BaseCommand):
    help = (
        "Compare a route that waits with what is in force for its model, on a labelled set: both "
        "answer the same questions, judged slice by slice. Where it passes, the gateway routes to "
        "it. Exit code 1: it failed, or too few questions could tell."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("route", metavar="ROUTE", type=int, help="its number, see Gates")
        parser.add_argument("--set", required=True, metavar="NAME", help="a labelled set's name")
        parser.add_argument("--tenant", default="evaluation", help="whose set; its slug")
        parser.add_argument("--sample", type=int, default=SAMPLE, help="questions at most")
        parser.add_argument("--seed", type=int, default=0, help="which of them")
        parser.add_argument(
            "--budget",
            action="append",
            default=[],
            metavar="[SLICE=]SHARE",
            help="how much may be lost: 0.02 in general, tables=0.05 in a slice; repeatable",
        )
        parser.add_argument("--rule", default="mean", help="mean or bound: see docs/gates.md")
        parser.add_argument("--prompt", default="", choices=["", *PROMPTS])
        for name in ("context-tokens", "max-tokens", "passages"):
            parser.add_argument(f"--{name}", type=int, help="rehearse this figure of the model")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            run = self._start(options)
        except (EvalsError, ValueError) as exc:
            raise CommandError(str(exc), returncode=WRONG_USE) from exc
        progress = Progress(sys.stderr, "Asked", run.total)
        try:
            work_here(run, on_progress=lambda done, total: progress.show(done))
        except KeyboardInterrupt:
            stop_gate(run.id)
            sys.exit(INTERRUPTED)
        progress.clear()
        self._show(run)
        if run.verdict != AnswerRun.Verdict.PASSED:
            sys.exit(NOT_PASSED)

    def _start(self, options: dict[str, Any]) -> AnswerRun:
        tenant = Tenant.objects.filter(slug=options["tenant"]).first()
        if tenant is None:
            raise ValueError(f"There is no tenant {options['tenant']!r}.")
        with tenant_scope(tenant.id):
            sets = LabelledSet.objects.filter(tenant=tenant)
            labelled_set = sets.filter(name=options["set"]).first()
            names = ", ".join(sets.values_list("name", flat=True)[:10]) or "none yet"
        if labelled_set is None:
            raise ValueError(f"There is no set {options['set']!r}. Sets: {names}.")
        return start_gate(
            tenant=tenant,
            labelled_set=labelled_set,
            route_id=options["route"],
            user=None,
            sample=options["sample"],
            seed=options["seed"],
            budgets=parse_budgets(options["budget"], options["rule"]),
            changes={
                name: options[name]
                for name in ("prompt", "context_tokens", "max_tokens", "passages")
            },
            held=True,
        )

    def _show(self, run: AnswerRun) -> None:
        rows = [
            (
                printable(row["slice"].partition("/")[2], sys.stdout),
                METRIC_WORDS[row["metric"]],
                str(row["questions"]),
                f"{row['in_force']:.3f}",
                f"{row['candidate']:.3f}",
                f"{row['low']:+.3f} to {row['high']:+.3f}",
                f"{row['budget']:.3f}",
                VERDICT_WORDS[row["verdict"]],
            )
            for row in run.figures.get("rows", [])
        ]
        head = ("slice", "metric", "n", "in force", "candidate", "change, 95 %", "budget", "")
        for line in table([head, *rows]):
            self.stdout.write(line)
        said = run.get_verdict_display() if run.verdict else run.error_code or run.state
        self.stdout.write(f"{run.alias}, route {run.candidate['route']}: {said}. Gate {run.id}.")
