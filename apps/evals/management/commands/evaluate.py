"""Evaluate a folder in BEIR layout through the product's own pipeline."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.documents import services
from apps.documents.errors import NameTaken
from apps.documents.management.terminal import Progress, printable, table
from apps.documents.models import Collection
from apps.evals.beir import Folder
from apps.evals.beir_loading import Loaded, Written, load_corpus, write_set
from apps.evals.errors import EvalsError
from apps.evals.gates import Gate, parse_gate
from apps.evals.metrics import METRICS, STAGES
from apps.evals.models import EvalRun
from apps.evals.running import run_here, start_run
from apps.tenants.models import Tenant
from apps.tenants.scope import tenant_scope
from apps.tenants.services import create_tenant

MISSED, WRONG_USE, INTERRUPTED = 1, 2, 130
_OWN = "Made by “manage.py evaluate”: its documents are what the folder's corpus is."
_STILL_S = 60.0  # without anything becoming ready: is there a worker?
_SLUG = re.compile(r"[a-z0-9][a-z0-9-]{0,49}")


@dataclass(frozen=True)
class _Report:
    """All that is told in the end."""

    run: EvalRun
    loaded: Loaded
    written: Written
    folder: Folder
    gates: list[Gate]
    ingest_s: float
    search_s: float

    def missed(self) -> list[Gate]:
        return [gate for gate in self.gates if not self.is_met(gate)]

    def is_met(self, gate: Gate) -> bool:
        value = self.value(gate)
        return value is not None and value >= gate.at_least

    def value(self, gate: Gate) -> float | None:
        return gate.value(self.run.configuration["stages"], self.run.figures)


class Command(BaseCommand):
    help = (
        "Evaluate a BEIR folder (corpus.jsonl, queries.jsonl, qrels/test.tsv): its passages are "
        "ingested as documents of a tenant kept for this, its questions searched and reranked as "
        "any question is, and each stage is measured. An unchanged corpus is not ingested again."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("path", metavar="PATH", help="a folder in BEIR layout")
        parser.add_argument("--sample", type=int, metavar="N", help="ask N of the questions")
        parser.add_argument("--seed", type=int, default=0, help="which N: the same seed, the same")
        parser.add_argument(
            "--stages",
            default="",
            help=f"measure these, and work for no other: {','.join(STAGES)} (all)",
        )
        parser.add_argument("--json", action="store_true", help="print one JSON object")
        parser.add_argument(
            "--min",
            action="append",
            default=[],
            metavar="METRIC=VALUE",
            help="exit with 1 where it is not reached: ndcg@10=.73, bm25:recall@50=.9; repeatable",
        )
        parser.add_argument("--split", default="test", help="which qrels (test)")
        parser.add_argument(
            "--first",
            type=int,
            metavar="N",
            help="only the first N rows of the corpus, and the questions that they alone answer",
        )
        parser.add_argument("--tenant", default="evaluation", help="slug; made where it is missing")
        parser.add_argument("--collection", default="", help="its name (that of the folder)")
        parser.add_argument("--fresh", action="store_true", help="ingest all of it anew")

    def handle(self, *args: Any, **options: Any) -> None:
        stages, gates = _stages(options["stages"]), _gates(options["min"])
        folder = _folder(options)
        try:
            report = self._evaluate(folder, stages, gates, options)
        except EvalsError as exc:
            raise _wrong(str(exc)) from exc
        except KeyboardInterrupt:
            self._note("\nStopped. Documents that were sent are ingested wherever a worker runs.")
            sys.exit(INTERRUPTED)
        self._show(report, as_json=options["json"])
        self._judge(report)

    def _evaluate(
        self, folder: Folder, stages: list[str], gates: list[Gate], options: dict[str, Any]
    ) -> _Report:
        folder.check()
        tenant = _tenant(options["tenant"])
        collection = _collection(tenant, _name(folder, options["collection"]), options["fresh"])
        began = time.monotonic()
        progress = _Steps(self)
        loaded = load_corpus(
            tenant=tenant, collection=collection, folder=folder, on_progress=progress
        )
        written = write_set(
            tenant=tenant, collection=collection, folder=folder, documents=loaded.documents
        )
        ingested = time.monotonic()
        run = start_run(
            tenant=tenant,
            labelled_set=written.labelled_set,
            trigger=EvalRun.Trigger.COMMAND,
            sample=options["sample"],
            seed=options["seed"],
            stages=stages or None,
            held=True,
        )
        run = run_here(run, on_progress=lambda done, total: progress("Asked", done, total))
        progress.clear()
        ended = time.monotonic()
        return _Report(run, loaded, written, folder, gates, ingested - began, ended - ingested)

    def _judge(self, report: _Report) -> None:
        """Raises CommandError where the figures cannot be trusted, or are too low."""
        run, failed = report.run, report.loaded.failed
        if run.state != EvalRun.State.DONE:
            raise CommandError(
                f"The run ended as {run.state} ({run.error_code or 'no reason'}). Check that the "
                "embedding server answers, and start it again.",
                returncode=MISSED,
            )
        if failed:
            codes = ", ".join(sorted(set(failed.values())))
            raise CommandError(
                f"{len(failed)} of {report.loaded.total} passages were not ingested ({codes}).",
                returncode=MISSED,
            )
        missed = [
            f"{gate.stage or run.configuration['stages'][-1]} {gate.metric} is "
            f"{_number(report.value(gate))}, less than {gate.at_least}"
            for gate in report.missed()
        ]
        if missed:
            raise CommandError(f"Not reached: {'; '.join(missed)}.", returncode=MISSED)

    def _show(self, report: _Report, *, as_json: bool) -> None:
        if as_json:
            self.stdout.write(json.dumps(_as_json(report), ensure_ascii=True, indent=2))
            return
        for line in [*_tables(report), *_remarks(report)]:
            self.stdout.write(printable(line, sys.stdout))

    def _note(self, words: str) -> None:
        self.stderr.write(printable(words, sys.stderr))


class _Steps:
    """Progress of one step after another, on stderr."""

    def __init__(self, command: Command) -> None:
        self._command = command
        self._shown: tuple[str, Progress] | None = None
        self._last = (0, time.monotonic())

    def __call__(self, step: str, done: int, total: int) -> None:
        if self._shown is None or self._shown[0] != step:
            self.clear()
            self._shown = (step, Progress(sys.stderr, step, total))
            self._last = (done, time.monotonic())
        self._shown[1].show(done)
        now = time.monotonic()
        if done != self._last[0]:
            self._last = (done, now)
        elif now - self._last[1] > _STILL_S:
            self._last = (done, now)
            self._command._note(f"{step}: nothing for {_STILL_S:.0f} s. Is a worker running?")

    def clear(self) -> None:
        if self._shown is not None:
            self._shown[1].clear()


def _folder(options: dict[str, Any]) -> Folder:
    for name in ("sample", "first"):
        if options[name] is not None and options[name] < 1:
            raise _wrong(f"--{name} is to be at least 1.")
    if not 0 <= options["seed"] < 2**31:
        raise _wrong("--seed is to be a whole number from 0 to 2147483647.")
    path = Path(options["path"])
    if not path.is_dir():
        raise _wrong(f"There is no folder {options['path']!r}. Check its name.")
    if not re.fullmatch(r"[\w.-]+", options["split"]):
        raise _wrong("--split is the name of a file in qrels, without .tsv.")
    return Folder(path, options["split"], options["first"])


def _stages(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in STAGES]
    if unknown:
        raise _wrong(f"There is no stage {unknown[0]!r}. Stages: {', '.join(STAGES)}.")
    return names


def _gates(texts: list[str]) -> list[Gate]:
    try:
        return [parse_gate(text) for text in texts]
    except ValueError as exc:
        raise _wrong(f"--min {exc}") from exc


def _tenant(slug: str) -> Tenant:
    if not _SLUG.fullmatch(slug):
        raise _wrong("A tenant's slug has lower-case letters, digits and hyphens.")
    tenant = Tenant.objects.filter(slug=slug).first()
    return tenant or create_tenant(slug=slug, name=slug.replace("-", " ").capitalize())


def _name(folder: Folder, given: str) -> str:
    name = given.strip() or folder.path.resolve().name
    return f"{name} (first {folder.first})"[-200:] if folder.first else name[-200:]


def _collection(tenant: Tenant, name: str, fresh: bool) -> Collection:
    """The command's own collection of that name; nobody else's, for it deletes documents."""
    with tenant_scope(tenant.id):
        found = Collection.objects.filter(tenant=tenant, name=name).first()
    if found is not None and found.description != _OWN:
        raise _wrong(
            f"The tenant has a collection named {name!r} that this command did not make. Choose "
            "another name (--collection) or tenant (--tenant)."
        )
    if found is not None and fresh:
        services.delete_collection(tenant=tenant, collection=found, actor=None)
        found = None
    try:
        return found or services.create_collection(
            tenant=tenant, user=None, name=name, description=_OWN
        )
    except NameTaken:  # by a command like this, just now
        return _collection(tenant, name, False)


def _wrong(words: str) -> CommandError:
    return CommandError(words, returncode=WRONG_USE)


def _number(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.3f}"


def _tables(report: _Report) -> list[str]:
    figures, stages = report.run.figures, report.run.configuration["stages"]
    if not figures.get("stages"):
        return []
    head = ("stage", *METRICS)
    rows = [
        (stage, *(f"{figures['stages'][stage][name]:.3f}" for name in METRICS)) for stage in stages
    ]
    low, high = figures["intervals"]["ndcg@10"]
    hops = [
        (name, str(hop["count"]), *(_ms(hop[key]) for key in ("p50_ms", "p95_ms")))
        for name, hop in figures["hops"].items()
    ]
    return [
        *table([head, *rows], right=range(1, len(head))),
        f"nDCG@10 of {stages[-1]}: 95 % interval {low:.3f} to {high:.3f}, "
        f"{figures['questions']} questions",
        "",
        *table([("hop", "questions", "p50 ms", "p95 ms"), *hops], right=(1, 2, 3)),
        "",
    ]


def _ms(value: float | None) -> str:
    return "" if value is None else f"{value:.0f}"


def _remarks(report: _Report) -> list[str]:
    loaded, written = report.loaded, report.written
    counts = [
        (loaded.empty, "passages are empty and were left out"),
        (loaded.same_text, "passages have the text of another and are one document with it"),
        (loaded.removed, "documents were deleted that the corpus does not have so"),
        (written.unlabelled, "questions have no judgement and were left out"),
        (written.unknown_questions, "judged questions are not among the questions"),
        (written.unknown_passages, "judged passages are not among the documents"),
        (written.without_passages, "questions lack all of their passages and were left out"),
        *((count, name) for name, count in sorted(report.folder.odd.items())),
        *(
            (count, f"questions were searched with {code}")
            for code, count in report.run.figures.get("degraded", {}).items()
        ),
    ]
    return [
        *(f"{count} {words}" for count, words in counts if count),
        f"{loaded.total} passages ({loaded.sent} sent, {loaded.unchanged} unchanged) in "
        f"{report.ingest_s:.1f} s, {report.run.done} of {written.questions} questions in "
        f"{report.search_s:.1f} s; run {report.run.id}",
    ]


def _as_json(report: _Report) -> dict[str, Any]:
    run, loaded, written = report.run, report.loaded, report.written
    return {
        "path": str(report.folder.path),
        "tenant": run.tenant.slug,
        "collection": written.labelled_set.name,
        "run": str(run.id),
        "state": run.state,
        "error_code": run.error_code,
        "seed": run.seed,
        "sample": run.sample,
        **run.figures,
        "configuration": run.configuration,
        "corpus": _without(loaded, "documents"),
        "labels": _without(written, "labelled_set"),
        "odd": dict(report.folder.odd),
        "gates": [
            {
                "stage": gate.stage or run.configuration["stages"][-1],
                "metric": gate.metric,
                "at_least": gate.at_least,
                "got": report.value(gate),
                "met": report.is_met(gate),
            }
            for gate in report.gates
        ],
        "seconds": {"ingest": round(report.ingest_s, 2), "search": round(report.search_s, 2)},
    }


def _without(counts: Loaded | Written, *names: str) -> Mapping[str, Any]:
    return {name: value for name, value in vars(counts).items() if name not in names}
