"""What a curve proposes, by a rule that it states.

Vector search: of each HNSW index the least `ef_search` whose recall meets the goal, and of those
the one with the lowest p95. Candidates: of those that are no more than in force now, and whose
nDCG@10 and recall@10 are not below what is in force, on the same questions, the one with the lowest
p95.
More work is never proposed for having been measured as quicker: that was chance. A setting is never
proposed because it is better for more time: that is a person's choice, and every point can be
applied.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from apps.retrieval.options import SearchOptions

Point = Mapping[str, Any]

VECTORS, EXACT, PIPELINE = "vectors", "exact", "pipeline"
HNSW_KNOBS = ("storage", "m", "ef_construction", "ef_search")
DEPTH_KNOBS = ("leg_candidates", "rerank_candidates")
# Within this share of the cheapest time, two settings cost the same: the one in force stays.
SAME_TIME = 0.05
# Fewer labelled questions than this do not say that a candidate less costs nothing.
QUESTIONS_LEAST = 25

RULE = (
    "Of each index the least ef_search whose recall meets the goal, and of those the one with the "
    "lowest p95; the one in force where that is within 5 % of it. Fewer candidates only where "
    f"nDCG@10 and recall@10 of the labelled questions, at least {QUESTIONS_LEAST}, are not below "
    "what they are now."
)


def propose(points: Sequence[Point], *, goal: float, in_force: SearchOptions) -> dict[str, Any]:
    """`{"changes": {knob: value}, "vectors": {...}, "pipeline": {...}}`, as `TuneRun.proposal`.

    Each part holds a `verdict` and, where it has one, the `point` (its place in `points`) that it
    chose. `changes` are empty where everything is to stay as it is.
    """
    depth = _choose_depth(points)
    leg = int(depth.get("leg_candidates", in_force.leg_candidates))
    vector = _choose_setting(points, goal=goal, leg=leg)
    chosen: dict[str, Any] = {}
    for part, knobs in ((depth, DEPTH_KNOBS), (vector, HNSW_KNOBS)):
        if "point" in part:
            chosen |= {knob: points[part["point"]][knob] for knob in knobs}
    if leg > int(chosen.get("ef_search", in_force.ef_search)):
        # No setting that was measured finds so many: the candidates stay as they are.
        depth = {"verdict": "needs_ef_search"}
        chosen = {knob: value for knob, value in chosen.items() if knob not in DEPTH_KNOBS}
    changes = {knob: value for knob, value in chosen.items() if value != getattr(in_force, knob)}
    return {"changes": changes, VECTORS: vector, PIPELINE: depth}


def changes_to(point: Point, in_force: SearchOptions) -> dict[str, Any]:
    """What a profile must change so that `point` is in force."""
    knobs = {VECTORS: HNSW_KNOBS, PIPELINE: DEPTH_KNOBS}.get(str(point["kind"]), ())
    changes = {knob: point[knob] for knob in knobs if point[knob] != getattr(in_force, knob)}
    leg = int(changes.get("leg_candidates", 0))
    if leg > in_force.ef_search:
        changes["ef_search"] = leg
    return changes


def _choose_setting(points: Sequence[Point], *, goal: float, leg: int) -> dict[str, Any]:
    places = [n for n, point in enumerate(points) if point["kind"] == VECTORS]
    if not places:
        return {"verdict": "exact"}
    usable = [n for n in places if points[n]["ef_search"] >= leg]
    enough = [n for n in usable if points[n]["recall"] >= goal]
    if not enough:
        best = max(usable or places, key=lambda n: points[n]["recall"])
        return {"verdict": "none_meets", "best": best}
    point = _cheapest(points, _least_of_each_index(points, enough))
    verdict = "in_force" if points[point].get("in_force") else "cheaper"
    mine = next((points[n] for n in places if points[n].get("in_force")), None)
    if verdict == "cheaper" and mine is not None and mine["recall"] < goal:
        verdict = "recall"
    return {"verdict": verdict, "point": point}


def _choose_depth(points: Sequence[Point]) -> dict[str, Any]:
    places = [n for n, point in enumerate(points) if point["kind"] == PIPELINE]
    mine = next((n for n in places if points[n].get("in_force")), None)
    if mine is None:
        return {"verdict": "no_labels"}
    if any(points[n]["degraded"] for n in places):
        return {"verdict": "degraded"}
    if points[mine]["questions"] < QUESTIONS_LEAST:
        return {"verdict": "few_labels"}
    enough = [
        n
        for n in places
        if all(points[n][name] >= points[mine][name] for name in ("ndcg_10", "recall_10"))
        and all(points[n][knob] <= points[mine][knob] for knob in DEPTH_KNOBS)
    ]
    point = _cheapest(points, enough)
    return {
        "verdict": "in_force" if point == mine else "cheaper",
        "point": point,
        "leg_candidates": points[point]["leg_candidates"],
    }


def _least_of_each_index(points: Sequence[Point], places: Iterable[int]) -> list[int]:
    """Of an index, less `ef_search` is less work whatever was measured; and the one in force."""
    least: dict[tuple[Any, ...], int] = {}
    for n in sorted(places, key=lambda n: points[n]["ef_search"]):
        least.setdefault(tuple(points[n][knob] for knob in HNSW_KNOBS[:-1]), n)
    return [*least.values(), *(n for n in places if points[n].get("in_force"))]


def _cheapest(points: Sequence[Point], places: Iterable[int]) -> int:
    """The lowest p95; the one in force where it is as good as that."""
    ordered = sorted(places, key=lambda n: (points[n]["p95_ms"], n))
    most = points[ordered[0]]["p95_ms"] * (1 + SAME_TIME)
    kept = (n for n in ordered if points[n].get("in_force") and points[n]["p95_ms"] <= most)
    return next(kept, ordered[0])
