"""One turn's work on a curve: what is planned, measured, kept, and concluded."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from apps.evals.models import TuneRun
from apps.evals.tuning import builds, jobs
from apps.evals.tuning.depths import ask_depths, labelled_questions
from apps.evals.tuning.figures import depth_figures, vector_figures
from apps.evals.tuning.grid import Depth, Setting, Variant, depths, settings, variant_of
from apps.evals.tuning.measuring import Ground, ask_all, sample_of, survey, warm_up
from apps.evals.tuning.probes import choose_probes, vector_of
from apps.evals.tuning.proposing import EXACT, PIPELINE, VECTORS, propose
from apps.retrieval.options import SearchOptions
from apps.retrieval.plans import SearchPlan, hnsw_plan
from apps.retrieval.profiles import KNOBS

# What was measured is written this often: a killed worker's successor asks little again.
KEEP_EVERY_S = 2.0
SAMPLES = "samples"  # of a point that is not measured to its end

Point = dict[str, Any]


@dataclass(frozen=True)
class Pace:
    """How long a turn lasts, and what it leaves to others."""

    until: float | None = None  # time.monotonic(); None: to the end
    rest: bool = True  # half of the time
    build_here: bool = False  # HNSW indexes, where else the job for them is waited for
    progress: Callable[[int, int], None] = lambda done, total: None

    @property
    def over(self) -> bool:
        return self.until is not None and time.monotonic() >= self.until


def begin(claim: jobs.Claim, pace: Pace) -> Measurement | None:
    """The curve's measurement as far as it has come; None where it has ended instead."""
    curve = TuneRun.objects.filter(tenant_id=claim.tenant_id, id=claim.curve_id).first()
    ground = survey(claim.tenant_id)
    if curve is None or ground is None or ground.index.id != curve.index_id:
        jobs.fail(claim, code="index_changed")
        return None
    noted = curve.proposal.get("in_force")
    if noted:  # a profile that was applied meanwhile changes nothing here
        ground = replace(ground, in_force=replace(ground.in_force, **noted))
    return Measurement(claim, curve, ground, pace)


class Measurement:
    """The points of one curve, in the order they were planned in."""

    def __init__(self, claim: jobs.Claim, curve: TuneRun, ground: Ground, pace: Pace) -> None:
        self.claim, self.curve, self.ground, self.pace = claim, curve, ground, pace
        self.points: list[Point] = curve.points
        self.kept_at = time.monotonic()
        probes = choose_probes(ground.index, seed=curve.id)
        self.probes = probes.all
        self.questions = labelled_questions(claim.tenant_id, seed=curve.id)
        if not self.points:
            self._plan(probes.counts)

    def measure_vectors(self) -> bool:
        """Recall and time of every setting; False where the turn ended before."""
        places = self._places(EXACT, VECTORS)
        if self._measured(places):
            return True
        plans = self._plans(places)
        self._warm_up(plans)
        for turn in range(self._asked(places), len(self.probes)):
            start = time.monotonic()
            probe = self.probes[turn]
            vector = vector_of(probe, self.ground.index)
            answers = ask_all(self.ground, plans, probe, vector, turn=turn)
            for place, answer in zip(places, answers, strict=True):
                sample = sample_of(answer, answers[0], k=self.curve.k)
                self.points[place][SAMPLES].append(sample)
            if not self._go_on(start):
                return False
        self._conclude(places, vector_figures)
        return True

    def measure_depths(self) -> bool:
        """Whole searches of labelled questions; False where the turn ended before."""
        places = self._places(PIPELINE)
        if self._measured(places):
            return True
        wanted = [_depth_of(self.points[place]) for place in places]
        for turn in range(self._asked(places), len(self.questions)):
            start = time.monotonic()
            samples = ask_depths(self.ground, wanted, self.questions[turn], turn=turn)
            for place, sample in zip(places, samples, strict=True):
                self.points[place][SAMPLES].append(sample)
            if not self._go_on(start):
                return False
        self._conclude(places, depth_figures)
        return True

    def finish(self) -> None:
        proposal = propose(self.points, goal=self.curve.recall_goal, in_force=self.ground.in_force)
        self.curve.proposal |= proposal
        total = self.curve.total
        jobs.finish(
            self.claim, points=self.points, proposal=self.curve.proposal, done=total, total=total
        )
        self.pace.progress(total, total)

    def _plan(self, counts: Mapping[str, int]) -> None:
        """Note what is measured, and with what."""
        in_force, grid = self.ground.in_force, self.curve.grid
        self.points = [{"kind": EXACT, SAMPLES: []}]
        if not self.ground.exactly:
            self.points += [_vector_point(each, in_force) for each in settings(grid, in_force)]
        if self.questions:
            self.points += [_depth_point(each, in_force) for each in depths(grid)]
        self.curve.proposal = {
            "in_force": {knob: getattr(in_force, knob) for knob in KNOBS},
            "rows": self.ground.rows,
            "exactly": self.ground.exactly,
            "questions": dict(counts),
        }
        self.curve.total = len(self.probes) + len(self.questions)
        self._keep()

    def _plans(self, places: Sequence[int]) -> list[SearchPlan]:
        """How each of the points is searched; raises NotReady while an index is being built."""
        points = [self.points[place] for place in places]
        wanted = {_setting_of(point).variant for point in points if point["kind"] == VECTORS}
        built = builds.ready_indexes(
            *(self.claim, self.curve, self.ground.index, sorted(wanted)), here=self.pace.build_here
        )
        plans = []
        for point in points:
            if point["kind"] == EXACT:
                plans.append(SearchPlan("exact", "asked for", self.ground.rows))
                continue
            setting = _setting_of(point)
            ann = built[setting.variant]
            point |= {"build_s": ann.build_s, "size_bytes": ann.size_bytes}
            options = replace(self.ground.in_force, ef_search=setting.ef_search)
            plans.append(hnsw_plan(ann, options, rows=self.ground.rows))
        return plans

    def _warm_up(self, plans: Sequence[SearchPlan]) -> None:
        first = [vector_of(probe, self.ground.index) for probe in self.probes[:3]]
        warm_up(self.ground, plans, first)

    def _go_on(self, start: float) -> bool:
        """Keep what there is from time to time; False where the turn is over."""
        over = self.pace.over
        if over or time.monotonic() - self.kept_at >= KEEP_EVERY_S:
            self._keep()
        if self.pace.rest:
            time.sleep(min(1.0, time.monotonic() - start))
        return not over

    def _conclude(self, places: Sequence[int], figures: Callable[[Any], Point]) -> None:
        for place in places:
            self.points[place] |= figures(self.points[place].pop(SAMPLES))
        self._keep()

    def _keep(self) -> None:
        done = sum(self._asked(places) for places in self._stages() if places)
        jobs.keep(
            self.claim,
            points=self.points,
            proposal=self.curve.proposal,
            done=done,
            total=self.curve.total,
        )
        self.kept_at = time.monotonic()
        self.pace.progress(done, self.curve.total)

    def _stages(self) -> tuple[list[int], list[int]]:
        return self._places(EXACT, VECTORS), self._places(PIPELINE)

    def _places(self, *kinds: str) -> list[int]:
        return [n for n, point in enumerate(self.points) if point["kind"] in kinds]

    def _measured(self, places: Sequence[int]) -> bool:
        return not any(SAMPLES in self.points[place] for place in places)

    def _asked(self, places: Sequence[int]) -> int:
        """Questions that a stage has been asked."""
        first = self.points[places[0]]
        return len(first[SAMPLES]) if SAMPLES in first else int(first["questions"])


def _vector_point(setting: Setting, in_force: SearchOptions) -> Point:
    variant = setting.variant
    mine = (variant, setting.ef_search) == (variant_of(in_force), in_force.ef_search)
    return {
        "kind": VECTORS,
        "storage": variant.storage,
        "m": variant.m,
        "ef_construction": variant.ef_construction,
        "ef_search": setting.ef_search,
        "in_force": mine,
        SAMPLES: [],
    }


def _depth_point(depth: Depth, in_force: SearchOptions) -> Point:
    mine = Depth(in_force.leg_candidates, in_force.rerank_candidates)
    return {
        "kind": PIPELINE,
        "leg_candidates": depth.leg_candidates,
        "rerank_candidates": depth.rerank_candidates,
        "in_force": depth == mine,
        SAMPLES: [],
    }


def _setting_of(point: Point) -> Setting:
    variant = Variant(point["storage"], point["m"], point["ef_construction"])
    return Setting(variant, point["ef_search"])


def _depth_of(point: Point) -> Depth:
    return Depth(point["leg_candidates"], point["rerank_candidates"])
