"""What a curve measured and proposes, in words, for the page and the command alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from apps.evals.models import TuneRun
from apps.evals.tuning.proposing import (
    DEPTH_KNOBS,
    HNSW_KNOBS,
    PIPELINE,
    QUESTIONS_LEAST,
    VECTORS,
)

Point = Mapping[str, Any]

KNOB_NAMES = {
    "ef_search": "ef_search",
    "storage": "storage",
    "m": "m",
    "ef_construction": "ef_construction",
    "leg_candidates": "candidates of each leg",
    "rerank_candidates": "candidates ranked again",
    "not_found_below": "“not in your documents” below",
}
FAILURES = {
    "index_changed": "The embedding index was changed while it was measured. Measure another one.",
    "index_behind": (
        "The documents were indexed with another embedding model than the one in use. Build an "
        "index with that one first, under Embedding model."
    ),
    "kept_crashing": "Measuring kept crashing and was given up. The worker's log says where.",
}


def label_of(point: Point) -> str:
    """The setting of a point: "halfvec, m 16, ef_construction 64, ef_search 200"."""
    if point["kind"] == VECTORS:
        knobs = [f"{knob} {point[knob]}" for knob in ("m", "ef_construction", "ef_search")]
        return ", ".join([str(point["storage"]), *knobs])
    if point["kind"] == PIPELINE:
        return (
            f"{point['leg_candidates']} candidates a leg, {point['rerank_candidates']} ranked again"
        )
    return "exact search"


def questions_of(curve: TuneRun) -> str:
    """What the curve was measured with, said plainly."""
    counts = curve.proposal.get("questions", {})
    parts = [
        (counts.get("labelled", 0), "labelled questions"),
        (counts.get("live", 0), "questions that were really asked"),
        (counts.get("passages", 0), "passages of the tenant's own in place of questions"),
    ]
    said = [f"{count} {what}" for count, what in parts if count]
    asked = " and ".join(said) or "no questions"
    if counts.get("passages"):
        asked += ", which are easier to find than questions: label some, and measure again"
    return f"Measured with {asked}."


def verdict_of(curve: TuneRun) -> list[str]:
    """The proposal's reasons, one sentence or two a part."""
    proposal = curve.proposal
    if VECTORS not in proposal:
        return []
    return [_on_vectors(curve, proposal[VECTORS]), _on_depths(curve.points, proposal[PIPELINE])]


def failure_of(curve: TuneRun) -> str:
    """Why a curve failed, or what it waits for; empty where neither."""
    if not curve.error_code:
        return ""
    if curve.state == TuneRun.State.FAILED:
        return FAILURES.get(curve.error_code, f"It failed: {curve.error_code}.")
    if curve.state == TuneRun.State.CANCELLED:
        return f"Something that was needed did not answer ({curve.error_code})."
    if curve.error_code == "building_hnsw":
        return "An HNSW index to compare is being built. Measuring goes on by itself afterwards."
    return f"It waits for something that does not answer ({curve.error_code}), and tries again."


def changes_of(curve: TuneRun) -> list[tuple[str, Any, Any]]:
    """What the proposal changes: knob, value in force when it was measured, value proposed."""
    before = curve.proposal.get("in_force", {})
    changes = curve.proposal.get("changes", {})
    return [
        (KNOB_NAMES[knob], before.get(knob), changes[knob])
        for knob in (*HNSW_KNOBS, *DEPTH_KNOBS)
        if knob in changes
    ]


def _on_vectors(curve: TuneRun, part: Mapping[str, Any]) -> str:
    goal, k = curve.recall_goal, curve.k
    verdict = part["verdict"]
    if verdict == "exact":
        exact = next(point for point in curve.points if point["kind"] == "exact")
        return (
            f"The {curve.proposal['rows']:,} passages are searched exactly: they are few enough "
            f"that nothing need be missed (p95 {exact['p95_ms']:.1f} ms), so there is no recall "
            "to trade for time."
        )
    if verdict == "none_meets":
        best = curve.points[part["best"]]
        return (
            f"No setting reached recall@{k} of {goal:g}. The best was {best['recall']:.3f}, with "
            f"{label_of(best)}. Try a higher ef_search, or an HNSW index with a higher m."
        )
    point = curve.points[part["point"]]
    figures = (
        f"recall@{k} {point['recall']:.3f} (95 % interval {point['recall_low']:.3f} to "
        f"{point['recall_high']:.3f}), p95 {point['p95_ms']:.1f} ms"
    )
    if verdict == "in_force":
        return f"Vector search stays as it is: {label_of(point)} meets the goal, {figures}."
    why = "is the cheapest that meets the goal"
    if verdict == "recall":
        why += ", which what is in force does not"
    return f"{label_of(point)} {why}: {figures}."


def _on_depths(points: Sequence[Point], part: Mapping[str, Any]) -> str:
    verdict = part["verdict"]
    if verdict == "no_labels":
        return (
            "How many candidates are worth their time was not measured: there are no labelled "
            "questions with passages that answer them."
        )
    if verdict == "few_labels":
        return (
            f"The candidates stay as they are: fewer than {QUESTIONS_LEAST} labelled questions "
            "cannot tell whether others would be as good."
        )
    if verdict == "degraded":
        return (
            "The candidates stay as they are: the reranker or the embedding model did not always "
            "answer while whole searches were measured."
        )
    if verdict == "needs_ef_search":
        return (
            "The candidates stay as they are: no ef_search that was measured finds as many as "
            "would be better."
        )
    point = points[part["point"]]
    figures = (
        f"nDCG@10 {point['ndcg_10']:.3f} over {point['questions']} questions, "
        f"p95 {point['p95_ms']:.0f} ms of a whole search"
    )
    if verdict == "in_force":
        return f"The candidates stay as they are: {label_of(point)}, {figures}."
    return f"{label_of(point)} is cheaper and no worse: {figures}."
