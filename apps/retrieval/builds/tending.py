"""Working on builds, a slice at a time: what each needs follows from the state it is in."""

from __future__ import annotations

from django.db.models.functions import Now
from django.utils import timezone

from apps.retrieval import slots
from apps.retrieval.builds import building, controls, dropping, gates, leases
from apps.retrieval.builds.leases import BuildClaim
from apps.retrieval.models import EmbeddingIndex, IndexBuild

State = IndexBuild.State
# How soon a build is looked at again that has nothing to do, and one that waits for its gates.
IDLE_S = 15.0
GATES_S = 5.0


def tend_next() -> bool:
    """Work on the build that has waited longest; False when none is due."""
    claim = leases.take()
    if claim is None:
        return False
    delay_s = building.RETRY_S  # after an error that nobody foresaw
    try:
        delay_s = _tend(claim)
    except leases.Lost:
        pass
    except slots.PartitionBusy as exc:
        leases.held(claim).update(error_code=exc.code)
    finally:
        leases.release(claim, delay_s=delay_s)
    return True


def _tend(claim: BuildClaim) -> float:
    """Seconds until it is to be looked at again."""
    builds = IndexBuild.objects.select_related("source__embedder", "target__embedder")
    build = builds.get(tenant_id=claim.tenant_id, id=claim.build_id)
    if claim.state == State.DROPPING:
        dropping.drop(claim, build)
        return 0.0
    for index in _to_fill(claim, build):
        wait_s = building.fill(claim, build, index)
        if wait_s is not None:
            return wait_s
    return _go_on(claim, build)


def _to_fill(claim: BuildClaim, build: IndexBuild) -> list[EmbeddingIndex]:
    """While it is built, the index in force is ingestion's care; then both are kept in step."""
    indexes = [build.target] if claim.state == State.BUILDING else [build.target, build.source]
    return [index for index in indexes if index is not None]


def _go_on(claim: BuildClaim, build: IndexBuild) -> float:
    """Nothing is missing: what comes next."""
    if claim.state == State.BUILDING:
        if build.target is None or not building.doubt(build.target):
            leases.held(claim).update(state=State.READY, built_at=Now())
        return 0.0
    if claim.state in (State.READY, State.BACK) and not gates.ask(claim, build):
        return GATES_S
    if build.keep_until is not None and build.keep_until <= timezone.now():
        return 0.0 if controls.begin_dropping(build) else IDLE_S
    return IDLE_S
