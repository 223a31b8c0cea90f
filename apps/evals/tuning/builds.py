"""HNSW indexes that stand beside the one in use while a curve compares them.

What a curve asks for is noted in its row (`proposal["built"]`) before it is asked for, so that
whatever ends the curve, `tidy` finds what it has left. Once the curve is done, the proposed one
stays to be applied: `apps.retrieval.ann.tend` drops it after a day where it is not.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple

from django.conf import settings
from django.db import connection

from apps.evals.models import TuneRun
from apps.evals.tuning import jobs
from apps.evals.tuning.grid import Variant, variant_of
from apps.retrieval import ann
from apps.retrieval.errors import AnnBuildFailed
from apps.retrieval.models import AnnIndex, EmbeddingIndex
from apps.retrieval.options import options_for
from worker.enqueue import wake

BUILDER = "retrieval.tend_ann_indexes"
WAIT_S = 10.0  # between two looks at an index that is being built


class NotReady(Exception):
    """An HNSW index is still being built."""

    code = "building_hnsw"
    delay_s = WAIT_S


class BuildFailed(Exception):
    """PostgreSQL could not build an index; `code` says why."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


def ready_indexes(
    claim: jobs.Claim,
    curve: TuneRun,
    index: EmbeddingIndex,
    wanted: Sequence[Variant],
    *,
    here: bool,
) -> dict[Variant, AnnIndex]:
    """The variants' HNSW indexes. Builds them where they are not: `here`, or by the job.

    Raises NotReady while the job is at it, BuildFailed, and jobs.Lost.
    """
    there = {_variant(each): each for each in _all_of(index)}
    built = [list(astuple(each)) for each in wanted if each not in there]
    if any(each not in curve.proposal.get("built", []) for each in built):
        curve.proposal["built"] = [*curve.proposal.get("built", []), *built]
        jobs.keep(claim, proposal=curve.proposal)
    if here:
        with _held(claim):
            return {each: _build(index, each) for each in wanted}
    asked = {
        each: ann.request_ann(
            index=index, storage=each.storage, m=each.m, ef_construction=each.ef_construction
        )
        for each in wanted
    }
    if failed := [each for each in asked.values() if each.state == AnnIndex.State.FAILED]:
        raise BuildFailed(failed[0].error_code or "ann_build_failed")
    if any(each.state != AnnIndex.State.READY for each in asked.values()):
        wake(BUILDER)
        raise NotReady
    return asked


def tidy(*, here: bool = False) -> None:
    """Have what ended curves built beside the index in use dropped, but for what they propose.

    `here` waits until it is gone; else the job drops it.
    """
    ended = TuneRun.objects.exclude(state__in=jobs.UNFINISHED).filter(proposal__has_key="built")
    for curve in ended:
        for each in unused(curve):
            if here:
                ann.drop_ann(each)
            else:
                each.delete()  # no search is planned with it any more; the job drops the index
        proposal = {name: value for name, value in curve.proposal.items() if name != "built"}
        TuneRun.objects.filter(tenant_id=curve.tenant_id, id=curve.id).update(proposal=proposal)
        wake(BUILDER)


def unused(curve: TuneRun) -> list[AnnIndex]:
    """What the curve built that is neither in use nor proposed."""
    options = options_for(curve.tenant_id)
    kept = {variant_of(options)}
    changes = curve.proposal.get("changes", {})
    if curve.state == TuneRun.State.DONE:
        knobs = ("storage", "m", "ef_construction")
        noted = curve.proposal.get("in_force", {})
        kept.add(Variant(*(changes.get(knob, noted.get(knob)) for knob in knobs)))
    built = {Variant(*each) for each in curve.proposal.get("built", [])} - kept
    rows = AnnIndex.objects.filter(tenant_id=curve.tenant_id, index_id=curve.index_id)
    return [each for each in rows if _variant(each) in built]


def _build(index: EmbeddingIndex, variant: Variant) -> AnnIndex:
    try:
        return ann.ensure_ann(
            index=index,
            storage=variant.storage,
            m=variant.m,
            ef_construction=variant.ef_construction,
        )
    except AnnBuildFailed as exc:
        raise BuildFailed(exc.code) from exc


@contextmanager
def _held(claim: jobs.Claim) -> Iterator[None]:
    """Hold the curve on, from another thread, while a build takes as long as it takes."""
    done = threading.Event()

    def hold() -> None:
        try:
            while not done.wait(settings.JOB_LEASE_S / 3):
                jobs.hold(claim)
        except jobs.Lost:
            return  # whoever measures on is told so with the next thing that is kept
        finally:
            connection.close()

    thread = threading.Thread(target=hold, name="curve-lease", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _all_of(index: EmbeddingIndex) -> Sequence[AnnIndex]:
    return list(AnnIndex.objects.filter(tenant_id=index.tenant_id, index_id=index.id))


def _variant(each: AnnIndex) -> Variant:
    return Variant("bit" if each.storage == "bit" else "halfvec", each.m, each.ef_construction)
