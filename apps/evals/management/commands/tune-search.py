"""Measure recall against latency over the knobs of search, on a tenant's own data and questions."""

from __future__ import annotations

import json
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.documents.management.terminal import Progress, printable, table
from apps.evals.models import TuneRun
from apps.evals.tuning import builds, jobs
from apps.evals.tuning.applying import apply_curve, get_curve
from apps.evals.tuning.errors import TuningError
from apps.evals.tuning.grid import KNOBS, parse_grid
from apps.evals.tuning.measurement import Pace
from apps.evals.tuning.proposing import PIPELINE, RULE
from apps.evals.tuning.wording import changes_of, failure_of, label_of, questions_of, verdict_of
from apps.evals.tuning.working import work_on
from apps.retrieval.errors import RetrievalError
from apps.tenants.models import Tenant

MISSED, WRONG_USE, INTERRUPTED = 1, 2, 130


class Command(BaseCommand):
    help = (
        "Measures the vector search of a tenant over its knobs (recall against exact search, p50 "
        "and p95), and with labelled questions the whole search over its candidates. Prints the "
        "curve and the cheapest setting that meets the goal. Exits 1 where none does."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--tenant", default="", help="the tenant's slug, where there are more")
        parser.add_argument("--goal", type=float, default=0.98, help="of recall@k; 0.98")
        parser.add_argument("--k", type=int, default=20, help="passages that recall looks at; 20")
        parser.add_argument(
            "--grid",
            nargs="+",
            default=[],
            metavar="KNOB=VALUES",
            help=f"such as ef_search=100,200 storage=halfvec,bit; knobs: {', '.join(KNOBS)}",
        )
        parser.add_argument("--json", action="store_true", help="print one JSON object")
        parser.add_argument("--apply", action="store_true", help="put the proposal in force")

    def handle(self, *args: Any, **options: Any) -> None:
        tenant = _tenant(options["tenant"])
        curve = self._measure(tenant, options)
        applied = False
        if options["apply"] and curve.proposal["changes"]:
            try:
                apply_curve(tenant=tenant, user=None, curve=curve)
            except (TuningError, RetrievalError) as exc:
                raise CommandError(str(exc), returncode=MISSED) from exc
            applied = True
        if options["json"]:
            self.stdout.write(json.dumps(_as_json(tenant, curve, applied=applied), indent=2))
        else:
            self._print(curve, applied=applied)
        if curve.proposal["vectors"]["verdict"] == "none_meets":
            raise CommandError("No setting meets the goal.", returncode=MISSED)

    def _measure(self, tenant: Tenant, options: dict[str, Any]) -> TuneRun:
        try:
            curve = jobs.start_curve(
                tenant=tenant,
                user=None,
                goal=options["goal"],
                k=options["k"],
                grid=parse_grid(" ".join(options["grid"])),
                claimed=True,
            )
        except TuningError as exc:
            raise CommandError(str(exc), returncode=WRONG_USE) from exc
        try:
            self._work(curve)
        finally:
            # Interrupted, or waiting for what does not answer: nobody else is to go on with it.
            jobs.cancel_curve(tenant=tenant, user=None, curve_id=curve.id)
            builds.tidy(here=True)
        ended = get_curve(tenant.id, curve.id)
        if ended is None or ended.state != TuneRun.State.DONE:
            reason = failure_of(ended) if ended else "The tenant was deleted."
            raise CommandError(f"Not measured. {reason}".strip(), returncode=MISSED)
        return ended

    def _work(self, curve: TuneRun) -> None:
        shown: list[Progress] = []

        def progress(done: int, total: int) -> None:
            if not done:
                self.stderr.write("Preparing: HNSW indexes to compare are built first, if any.")
            elif not shown:
                shown.append(Progress(sys.stderr, "Asked", total))
            else:
                shown[0].show(done)

        try:
            work_on(jobs.claim_of(curve), Pace(rest=False, build_here=True, progress=progress))
        except KeyboardInterrupt:
            self.stderr.write("\nStopped. What was built to be compared is dropped.")
            sys.exit(INTERRUPTED)
        finally:
            for each in shown:
                each.clear()

    def _print(self, curve: TuneRun, *, applied: bool) -> None:
        vectors = [point for point in curve.points if point["kind"] != PIPELINE]
        depths = [point for point in curve.points if point["kind"] == PIPELINE]
        lines = [questions_of(curve), "", *table(_vector_rows(curve.k, vectors), right=range(1, 9))]
        if depths:
            lines += ["", *table(_depth_rows(depths), right=range(1, 8))]
        lines += ["", *verdict_of(curve), f"Rule: {RULE}"]
        lines += [
            f"{knob}: {before} -> {after}" + (" (in force)" if applied else "")
            for knob, before, after in changes_of(curve)
        ]
        if changes_of(curve) and not applied:
            lines.append("Put it in force with --apply, or on the page Tuning.")
        for line in lines:
            self.stdout.write(printable(line, sys.stdout))


def _vector_rows(k: int, points: list[dict[str, Any]]) -> list[list[str]]:
    head = ["setting", f"recall@{k}", "95 % interval", "recall@10", "p50 ms", "p95 ms"]
    rows = [[*head, "rows, least", "built in s", "MB"]]
    for point in points:
        built, size = point.get("build_s"), point.get("size_bytes")
        rows.append(
            [
                label_of(point) + _mark(point),
                f"{point['recall']:.4f}",
                f"{point['recall_low']:.3f}-{point['recall_high']:.3f}",
                f"{point['recall_10']:.4f}",
                f"{point['p50_ms']:.2f}",
                f"{point['p95_ms']:.2f}",
                str(point["rows_min"]),
                "" if built is None else f"{built:.1f}",
                "" if size is None else f"{size / 1e6:.1f}",
            ]
        )
    return rows


def _depth_rows(points: list[dict[str, Any]]) -> list[list[str]]:
    rows = [["whole search", "nDCG@10", "95 % interval", "recall@10", "p50 ms", "p95 ms"]]
    rows[0] += ["rerank p50 ms", "rerank p95 ms"]
    for point in points:
        rows.append(
            [
                label_of(point) + _mark(point),
                f"{point['ndcg_10']:.4f}",
                f"{point['ndcg_10_low']:.3f}-{point['ndcg_10_high']:.3f}",
                f"{point['recall_10']:.4f}",
                f"{point['p50_ms']:.1f}",
                f"{point['p95_ms']:.1f}",
                f"{point['rerank_p50_ms']:.1f}",
                f"{point['rerank_p95_ms']:.1f}",
            ]
        )
    return rows


def _mark(point: dict[str, Any]) -> str:
    return " *" if point.get("in_force") else ""


def _tenant(slug: str) -> Tenant:
    rows = Tenant.objects.order_by("slug")
    found = list(rows.filter(slug=slug) if slug else rows[:2])
    if len(found) == 1:
        return found[0]
    known = ", ".join(rows.values_list("slug", flat=True)[:10]) or "none yet"
    raise CommandError(f"Say which tenant with --tenant. There are: {known}.", returncode=WRONG_USE)


def _as_json(tenant: Tenant, curve: TuneRun, *, applied: bool) -> dict[str, Any]:
    return {
        "tenant": tenant.slug,
        "curve": str(curve.id),
        "goal": curve.recall_goal,
        "k": curve.k,
        "questions": curve.proposal["questions"],
        "passages": curve.proposal["rows"],
        "points": curve.points,
        "proposal": curve.proposal,
        "verdict": verdict_of(curve),
        "rule": RULE,
        "applied": applied,
    }
