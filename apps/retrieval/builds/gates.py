"""What has to be right before an index is put in force.

A gate is a named check of a build. Those that compare answers on labelled questions are above
retrieval, and register themselves when the site starts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from django.conf import settings
from django.utils import timezone

from apps.retrieval.builds import leases
from apps.retrieval.builds.leases import BuildClaim
from apps.retrieval.builds.selectors import missing_documents, ready_passages
from apps.retrieval.models import AnnIndex, EmbeddingIndex, IndexBuild
from apps.tenants.scope import tenant_scope

COMPLETE, SEARCH_PLAN = "complete", "search_plan"
Verdict = Mapping[str, Any]


@dataclass(frozen=True)
class GateResult:
    """How a check came out. Figures, identifiers and our own words: nothing of a tenant's text."""

    name: str
    passed: bool
    words: str  # for a person: what was found, and what to do
    pending: bool = False  # not known yet: it is asked again
    # Identifiers of what a check has begun belong here, too: it is given its last result.
    figures: Mapping[str, Any] = field(default_factory=dict)


Check = Callable[[IndexBuild], GateResult]
_CHECKS: dict[str, Check] = {}
_TITLES: dict[str, str] = {}


def register(name: str, check: Check, *, title: str) -> None:
    """Have `check` asked of every build; one that was registered by that name is replaced."""
    _CHECKS[name] = check
    _TITLES[name] = title


def title_of(name: str) -> str:
    """What a gate is called on pages."""
    return _TITLES.get(name, name)


def last_result(build: IndexBuild, name: str) -> Verdict:
    """What a gate said the last time; empty where it has not been asked since."""
    found: Verdict = build.gates.get("results", {}).get(name, {})
    return found


def titled_results(build: IndexBuild) -> list[dict[str, Any]]:
    """What the gates have said so far, as pages show it."""
    results: dict[str, dict[str, Any]] = build.gates.get("results", {})
    return [{**results[name], "title": title_of(name)} for name in _CHECKS if name in results]


def ask(claim: BuildClaim, build: IndexBuild) -> bool:
    """Ask the gates that have no answer yet; whether all have one now. Raises Lost."""
    results = dict(build.gates.get("results", {}))
    for name, check in _CHECKS.items():
        if name in results and not results[name]["pending"]:
            continue
        leases.renew(claim)
        results[name] = asdict(check(build))
        build.gates = {"results": results, "at": timezone.now().isoformat()}
        if not leases.held(claim).update(gates=build.gates):
            raise leases.Lost
    return not any(result["pending"] for result in results.values())


def refused(build: IndexBuild) -> list[str]:
    """Gates that have not been passed, by name. In the transaction that would switch.

    What can change from one moment to the next is looked at again.
    """
    names = [
        name
        for name in _CHECKS
        if not last_result(build, name).get("passed") and name not in (COMPLETE, SEARCH_PLAN)
    ]
    now = (check(build) for check in (check_complete, check_search_plan))
    return [*(result.name for result in now if not result.passed), *names]


def check_complete(build: IndexBuild) -> GateResult:
    """Every ready document is wholly in the new index."""
    with tenant_scope(build.tenant_id):
        missing = missing_documents(_target(build)).count()
    words = (
        f"{missing} documents are not in the new index yet. They are being added."
        if missing
        else "Every document is in the new index."
    )
    return GateResult(
        COMPLETE, not missing, words, pending=missing > 0, figures={"missing": missing}
    )


def check_search_plan(build: IndexBuild) -> GateResult:
    """Where there are too many passages for exact search, the HNSW index is there."""
    with tenant_scope(build.tenant_id):
        passages = ready_passages(build.tenant_id)
    if passages <= settings.HNSW_ABOVE_CHUNKS:
        words = f"{passages} passages are searched exactly: no index is needed to find them."
        return GateResult(SEARCH_PLAN, True, words, figures={"passages": passages})
    ready = AnnIndex.objects.filter(
        tenant_id=build.tenant_id, index=_target(build), state=AnnIndex.State.READY
    ).exists()
    words = (
        f"{passages} passages are searched by an HNSW index, which is ready."
        if ready
        else f"The HNSW index over {passages} passages is being built."
    )
    return GateResult(SEARCH_PLAN, ready, words, pending=not ready, figures={"passages": passages})


def _target(build: IndexBuild) -> EmbeddingIndex:
    if build.target is None:
        raise leases.Lost
    return build.target


register(COMPLETE, check_complete, title="Every document is in it")
register(SEARCH_PLAN, check_search_plan, title="It can be searched fast")
