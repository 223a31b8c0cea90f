"""Starting, stopping, repeating and deleting load tests."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now

from apps.capacity.errors import LoadTestError, LoadTestRunning, TargetRefused, WorkloadInvalid
from apps.capacity.load.types import Target, Workload
from apps.capacity.loadtests import claims
from apps.capacity.loadtests.claims import UNFINISHED
from apps.capacity.loadtests.conditions import gather_conditions, typed_again
from apps.capacity.loadtests.plan import Plan
from apps.capacity.loadtests.targets import check_target
from apps.capacity.loadtests.working import RUN_NEXT
from apps.capacity.models import LoadTest
from apps.telemetry.services import record_audit
from apps.tenants.models import User
from worker.enqueue import wake

SEED_MAX = 2**31 - 1
NAME_CHARS = 200


def new_seed() -> int:
    """A seed for a test's lengths and times; its prompts are new in every run in any case."""
    return 1 + secrets.randbelow(SEED_MAX)


def start_test(
    *,
    name: str,
    target: Target,
    workload: Workload,
    plan: Plan,
    conditions: Mapping[str, Any],
    user: User | None,
    rerun_of: LoadTest | None = None,
    held: bool = False,
    key: str = "",
) -> LoadTest:
    """A test for a worker to take up; `held`: for `run_here` in this process.

    `conditions` are those that a person typed; the others are asked of the target, with `key` where
    it is not the site's own. A plan with seed 0 is given a new one. Raises TargetRefused,
    TargetDown, WorkloadInvalid, and LoadTestRunning where a held one would have to wait.
    """
    check_target(target)
    _check_key(target, user, has_key=held and bool(key))
    _check_plan(plan, workload)
    gathered = gather_conditions(target, typed=conditions, key=key)
    test = LoadTest(
        name=_plain(name)[:NAME_CHARS] or "Load test",
        target=target.model_dump(mode="json"),
        workload=workload.model_dump(mode="json"),
        plan=(plan if plan.seed else plan.model_copy(update={"seed": new_seed()})).model_dump(
            mode="json"
        ),
        conditions=gathered,
        rerun_of=rerun_of,
        created_by=user,
    )
    with transaction.atomic():
        if held:
            _hold(test)
        test.save(force_insert=True)
        if held:
            mine = LoadTest.objects.filter(id=test.id)
            mine.update(lease_expires_at=claims.lease_end(), started_at=Now())
        record_audit(
            action="load_test.started",
            tenant_id=None,
            actor_id=user.id if user else None,
            subject_id=test.id,
        )
        if not held:
            wake(RUN_NEXT)
    return test


def run_again(
    *,
    test_id: uuid.UUID,
    user: User | None,
    same_seed: bool = False,
    held: bool = False,
    key: str = "",
) -> LoadTest:
    """The same test once more: the same target, workload and plan, conditions gathered anew.

    With a new seed, unless `same_seed`: then the same lengths come at the same times. Prompts are
    new either way. Raises LoadTest.DoesNotExist, and like `start_test`.
    """
    first = LoadTest.objects.get(id=test_id)
    try:
        plan = Plan.model_validate(first.plan)
        target = Target.model_validate(first.target)
        workload = Workload.model_validate(first.workload)
    except ValueError as exc:
        raise LoadTestError("What is stored of this test cannot be read.") from exc
    seed = plan.seed if same_seed else new_seed()
    conditions = first.conditions if isinstance(first.conditions, dict) else {}
    return start_test(
        name=first.name,
        target=target,
        workload=workload,
        plan=plan.model_copy(update={"seed": seed}),
        conditions=typed_again(conditions),
        user=user,
        rerun_of=first,
        held=held,
        key=key,
    )


@transaction.atomic
def stop_test(*, test_id: uuid.UUID, user: User | None) -> bool:
    """Stop a test, waiting or under way, within 2 s; what it has measured stays. False: it ended.

    One that runs keeps its lease until its generator has ended, so that no other begins before.
    """
    unfinished = LoadTest.objects.filter(id=test_id, state__in=UNFINISHED)
    stopped = unfinished.update(state=LoadTest.State.CANCELLED, finished_at=Now())
    if stopped:
        record_audit(
            action="load_test.stopped",
            tenant_id=None,
            actor_id=user.id if user else None,
            subject_id=test_id,
        )
        wake(RUN_NEXT)
    return stopped == 1


@transaction.atomic
def abandon_test(*, test_id: uuid.UUID, user: User | None) -> None:
    """Stop a test whose generator this process has just ended: others may begin at once."""
    stop_test(test_id=test_id, user=user)
    LoadTest.objects.filter(id=test_id, state=LoadTest.State.CANCELLED).update(
        lease_expires_at=None, progress={}
    )


@transaction.atomic
def delete_test(*, test_id: uuid.UUID, user: User | None) -> bool:
    """Delete a test that has ended, with its points. False: there is none.

    Raises LoadTestRunning for one that has not.
    """
    test = LoadTest.objects.select_for_update().filter(id=test_id).first()
    if test is None:
        return False
    under_way = Q(state__in=UNFINISHED) | Q(lease_expires_at__gt=Now())
    if LoadTest.objects.filter(under_way, id=test_id).exists():
        raise LoadTestRunning("This test is waiting or under way. Stop it, then delete it.")
    test.delete()
    record_audit(
        action="load_test.deleted",
        tenant_id=None,
        actor_id=user.id if user else None,
        subject_id=test_id,
    )
    return True


def _hold(test: LoadTest) -> None:
    """Have it begin as this process' own; nobody else begins one meanwhile."""
    claims.lock_taking()
    if claims.is_one_under_way():
        raise LoadTestRunning(
            "A load test is under way, and two would measure each other. Stop it or wait for it."
        )
    test.state, test.fence, test.attempt = LoadTest.State.RUNNING, 1, 1


def _check_key(target: Target, user: User | None, *, has_key: bool) -> None:
    if target.via == "gateway" and not has_key and not (target.tenant and user):
        raise TargetRefused(
            "A test through the gateway needs a key: name a tenant that pays for it, and who "
            "starts it, or give the command a key in LOADTEST_KEY."
        )


def _check_plan(plan: Plan, workload: Workload) -> None:
    if plan.arrivals == "trace" and workload.kind != "trace":
        raise WorkloadInvalid("Only a trace has times of its own: give one, or other arrivals.")
    if plan.arrivals == "closed" and any(load != int(load) for load in plan.loads):
        raise WorkloadInvalid("A closed loop has whole numbers of requests at a time.")
    if plan.most_s < plan.bounds.duration_s:
        raise WorkloadInvalid("One point takes longer than the whole test may. Change either.")


def _plain(text: str) -> str:
    return "".join(char for char in text if char.isprintable()).strip()
