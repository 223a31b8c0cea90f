"""A route answers only while what it is served with is in force for its alias."""

from __future__ import annotations

import threading
import uuid
from dataclasses import asdict
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from django.test import Client
from pytest_django import Settings

from apps.gateway import approvals
from apps.gateway.calling import catalogue
from apps.gateway.calling.serving import changes_context, differing, read_serving, serving_of
from apps.gateway.errors import ServingChanged, UnknownModel
from apps.gateway.models import GatewayModel, GatewayRoute, GatewayUpstream, RouteApproval
from apps.telemetry.models import AuditEvent
from tests.cast import Cast, signed_in

pytestmark = pytest.mark.django_db
REASON = "The old server is on fire and this one is not."


@pytest.fixture(autouse=True)
def own(settings: Settings) -> None:
    settings.TGI_URL = settings.OPENAI_URL = ""
    catalogue.forget()


def upstream(name: str = "gpu-1", **fields: object) -> GatewayUpstream:
    return GatewayUpstream.objects.create(
        **{"name": name, "kind": "openai", "url": f"http://{name}.test/v1", **fields}
    )


def model(alias: str = "large", **fields: object) -> GatewayModel:
    return GatewayModel.objects.create(alias=alias, label=alias.title(), **fields)


def route(to: GatewayModel, at: GatewayUpstream, **fields: object) -> GatewayRoute:
    return GatewayRoute.objects.create(
        **{"model": to, "upstream": at, "upstream_model": "org/large", **fields}
    )


def offered(alias: str = "large") -> list[str]:
    """Names of the upstreams that an alias is routed to."""
    catalogue.forget()
    try:
        return [each.upstream.name for each in catalogue.current().find(alias).routes]
    except UnknownModel:
        return []


def test_the_first_of_an_alias_answers_and_is_recorded_as_such() -> None:
    route(model(), upstream())
    assert offered() == ["gpu-1"]
    assert RouteApproval.objects.get(alias="large").how == "first"


def test_the_same_at_another_server_is_a_replica() -> None:
    large = model()
    route(large, upstream())
    route(large, upstream("gpu-2"), weight=3)
    assert offered() == ["gpu-1", "gpu-2"]


@pytest.mark.parametrize(
    "fields",
    [
        {"precision": "FP8"},
        {"engine": "vLLM 0.12"},
        {"context_policy": "window of 4K"},
        {"upstream_model": "org/larger"},
        {"upstream_model": ""},
    ],
    ids=str,
)
def test_a_route_served_otherwise_waits(fields: dict[str, str]) -> None:
    large = model()
    route(large, upstream())
    route(large, upstream("gpu-2"), **fields)
    assert offered() == ["gpu-1"]
    assert "has not passed its gate" in " ".join(catalogue.current().problems)


def test_another_protocol_is_another_engine() -> None:
    large = model()
    route(large, upstream())
    route(large, upstream("gpu-2", kind="tgi"))
    assert offered() == ["gpu-1"]


def test_servers_whose_model_is_not_named_are_no_replicas() -> None:
    large = model()
    first = upstream()
    route(large, first, upstream_model="")
    route(large, upstream("gpu-2"), upstream_model="")
    assert offered() == ["gpu-1"]
    first.url = "http://elsewhere.test/v1"
    first.save()
    assert offered() == []


@pytest.mark.parametrize(
    "fields", [{"precision": "FP8"}, {"engine": "x"}, {"upstream_model": "y"}], ids=str
)
def test_a_change_in_place_goes_back_to_waiting_and_its_undoing_comes_back(
    fields: dict[str, str],
) -> None:
    row = route(model(), upstream())
    before = {name: getattr(row, name) for name in fields}
    GatewayRoute.objects.filter(id=row.id).update(**fields)  # past every form and signal
    assert offered() == []
    GatewayRoute.objects.filter(id=row.id).update(**before)
    assert offered() == ["gpu-1"]


@pytest.mark.parametrize(
    "fields",
    [{"prompt": "extractive"}, {"context_tokens": 4096}, {"max_tokens": 99}, {"passages": 3}],
    ids=str,
)
def test_a_change_of_the_models_own_figures_waits_too(fields: dict[str, Any]) -> None:
    large = model()
    route(large, upstream())
    GatewayModel.objects.filter(id=large.id).update(**fields)
    assert offered() == []


@pytest.mark.parametrize("fields", [{"label": "L"}, {"position": 3}], ids=str)
def test_what_no_answer_depends_on_needs_no_gate(fields: dict[str, Any]) -> None:
    large = model()
    row = route(large, upstream())
    GatewayModel.objects.filter(id=large.id).update(**fields)
    GatewayRoute.objects.filter(id=row.id).update(weight=7)
    assert offered() == ["gpu-1"]


def test_a_model_that_is_deleted_and_added_again_is_not_a_first_one() -> None:
    large = model()
    route(large, upstream())
    large.delete()
    route(model(), upstream("gpu-2"), precision="INT4")
    assert offered() == []


def test_rows_written_past_the_models_save_wait() -> None:
    GatewayRoute.objects.bulk_create(
        [GatewayRoute(model=model(), upstream=upstream(), upstream_model="m")]
    )
    assert offered() == []


def test_embedding_models_are_not_asked_for_a_gate() -> None:
    reader = model("reader", kind="embedding")
    route(reader, upstream("tei-1", kind="tei"))
    route(reader, upstream("tei-2", kind="tei"), precision="FP8")
    catalogue.forget()
    assert len(catalogue.current().find("reader", "embedding").routes) == 2


@pytest.mark.parametrize(("setting", "names"), [("warn", 2), ("off", 2), ("on", 1)])
def test_the_setting_says_whether_it_is_held(settings: Settings, setting: str, names: int) -> None:
    settings.ROUTE_GATES = setting
    large = model()
    route(large, upstream())
    route(large, upstream("gpu-2"), precision="FP8")
    assert len(offered()) == names
    assert bool(catalogue.current().problems) == (setting != "off")


def test_an_override_is_kept_with_name_and_reason(cast: Cast) -> None:
    large = model()
    route(large, upstream())
    row = route(large, upstream("gpu-2"), precision="FP8")
    expected = serving_of(row).fingerprint
    approvals.override(route_id=row.id, expected=expected, reason=REASON, user=cast.olga)
    assert offered() == ["gpu-1", "gpu-2"]
    kept = RouteApproval.objects.get(how="override")
    assert (kept.given_name, kept.reason) == (cast.olga.email, REASON)
    assert AuditEvent.objects.get(action="route.gate_overridden").actor_id == cast.olga.pk


@pytest.mark.parametrize("reason", ["", "   ", "because", "x" * 501, "\n \t "])
def test_an_override_without_a_reason_is_refused(cast: Cast, reason: str) -> None:
    large = model()
    route(large, upstream())
    row = route(large, upstream("gpu-2"), precision="FP8")
    with pytest.raises(ValueError, match="Say why"):
        approvals.override(
            route_id=row.id, expected=serving_of(row).fingerprint, reason=reason, user=cast.olga
        )
    assert offered() == ["gpu-1"]


def test_an_override_binds_what_was_seen_and_nothing_else(cast: Cast) -> None:
    large = model()
    route(large, upstream())
    row = route(large, upstream("gpu-2"), precision="FP8")
    seen = serving_of(row).fingerprint
    GatewayRoute.objects.filter(id=row.id).update(precision="INT4")
    with pytest.raises(ServingChanged):
        approvals.override(route_id=row.id, expected=seen, reason=REASON, user=cast.olga)
    with pytest.raises(ServingChanged):
        approvals.override(route_id=row.id + 999, expected=seen, reason=REASON, user=cast.olga)
    assert offered() == ["gpu-1"]


def test_a_passed_gate_approves_exactly_what_was_compared(cast: Cast) -> None:
    large = model()
    base = route(large, upstream())
    row = route(large, upstream("gpu-2"), precision="FP8")
    tested = serving_of(row)
    GatewayRoute.objects.filter(id=row.id).update(precision="INT4")
    approvals.approve_passed(
        alias="large", serving=tested, baseline=serving_of(base), gate_id=uuid.uuid4(), user=None
    )
    assert offered() == ["gpu-1"]
    GatewayRoute.objects.filter(id=row.id).update(precision="FP8")
    assert offered() == ["gpu-1", "gpu-2"]


def test_a_passed_gate_against_what_is_no_longer_in_force_approves_nothing() -> None:
    large = model()
    base = route(large, upstream())
    row = route(large, upstream("gpu-2"), precision="FP8")
    compared = serving_of(base)
    base.delete()
    with pytest.raises(ServingChanged):
        approvals.approve_passed(
            alias="large",
            serving=serving_of(row),
            baseline=compared,
            gate_id=uuid.uuid4(),
            user=None,
        )
    assert offered() == []


def test_a_configuration_that_waits_is_no_baseline() -> None:
    large = model()
    route(large, upstream())
    waiting = route(large, upstream("gpu-2"), precision="FP8")
    third = route(large, upstream("gpu-3"), precision="INT4")
    with pytest.raises(ServingChanged):
        approvals.approve_passed(
            alias="large",
            serving=serving_of(third),
            baseline=serving_of(waiting),
            gate_id=uuid.uuid4(),
            user=None,
        )


def test_new_figures_of_a_model_that_were_rehearsed_take_nothing_out_of_service() -> None:
    large = model()
    base = route(large, upstream())
    rehearsed = serving_of(base).with_changes({"context_tokens": 4096, "passages": 4})
    approvals.approve_passed(
        alias="large",
        serving=rehearsed,
        baseline=serving_of(base),
        gate_id=uuid.uuid4(),
        user=None,
    )
    GatewayModel.objects.filter(id=large.id).update(context_tokens=4096, passages=4)
    assert offered() == ["gpu-1"]


@pytest.mark.parametrize(
    "grounds",
    [{"how": "gate"}, {"how": "override"}, {"how": "override", "reason": "x"}, {"how": "chance"}],
    ids=str,
)
def test_the_database_takes_no_approval_without_grounds(grounds: dict[str, str]) -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        RouteApproval.objects.create(alias="large", fingerprint="0" * 64, serving={}, **grounds)


@pytest.mark.django_db(transaction=True)
def test_of_two_first_routes_saved_at_once_one_is_the_first() -> None:
    large = model()
    ups = [upstream(f"gpu-{n}") for n in range(4)]
    ready = threading.Barrier(4)

    def save(number: int) -> None:
        ready.wait()
        try:
            route(large, ups[number], precision=f"P{number}")
        finally:
            connection.close()

    threads = [threading.Thread(target=save, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert RouteApproval.objects.filter(alias="large").count() == 1
    assert len(offered()) == 1


def test_a_serving_survives_being_stored_and_differs_by_every_field() -> None:
    serving = serving_of(route(model(), upstream()))
    assert read_serving(asdict(serving)) == serving
    prints = {serving.fingerprint}
    for name, value in asdict(serving).items():
        other = read_serving(
            asdict(serving) | {name: value + 1 if isinstance(value, int) else value + " x"}
        )
        prints.add(other.fingerprint)
        assert list(differing(serving, other)) == [name]
    assert len(prints) == 1 + len(asdict(serving))


def test_only_some_changes_are_of_the_context() -> None:
    serving = serving_of(route(model(), upstream()))
    assert changes_context(serving, serving.with_changes({"context_tokens": 100}))
    assert not changes_context(serving, serving.with_changes({"prompt": "extractive"}))


MODEL_FORM = {
    "label": "Large",
    "context_tokens": 8192,
    "max_tokens": 1024,
    "passages": 8,
    "prompt": "instruct",
    "position": 100,
    "enabled": "on",
    "routes-TOTAL_FORMS": 1,
    "routes-INITIAL_FORMS": 1,
    "routes-0-weight": 1,
    "routes-0-upstream_model": "org/large",
}


@pytest.fixture
def staff(cast: Cast) -> Client:
    cast.olga.is_staff = cast.olga.is_superuser = True
    cast.olga.save()
    return signed_in(cast.olga)


def save_model(staff: Client, row: GatewayRoute, **fields: object) -> int:
    form = {
        **MODEL_FORM,
        "routes-0-id": row.id,
        "routes-0-model": str(row.model_id),
        "routes-0-upstream": str(row.upstream_id),
        **fields,
    }
    url = f"/admin/gateway/gatewaymodel/{row.model_id}/change/"
    response = staff.post(url, form)
    if response.status_code == 200:
        assert "out of service" in response.content.decode()
    return response.status_code


@pytest.mark.parametrize(
    "fields",
    [
        {"routes-0-precision": "FP8"},
        {"context_tokens": 4096},
        {"prompt": "extractive"},
        {"routes-0-DELETE": "on"},
    ],
    ids=str,
)
def test_the_form_warns_before_a_model_goes_out_of_service(
    staff: Client, fields: dict[str, object]
) -> None:
    row = route(model(), upstream())
    assert save_model(staff, row, **fields) == 200
    assert offered() == ["gpu-1"]
    assert save_model(staff, row, **fields, out_of_service="on") == 302
    assert offered() == []


def test_the_form_takes_what_leaves_a_route_in_force(staff: Client) -> None:
    row = route(model(), upstream())
    second = upstream("gpu-2")
    beside = {
        "routes-TOTAL_FORMS": 2,
        "routes-1-upstream": str(second.id),
        "routes-1-upstream_model": "org/large",
        "routes-1-precision": "FP8",
        "routes-1-weight": 1,
    }
    assert save_model(staff, row, **beside) == 302
    assert offered() == ["gpu-1"]
    assert [state.in_force for state in approvals.route_states()] == [True, False]


def test_the_form_of_an_upstream_warns_too(staff: Client) -> None:
    at = upstream()
    route(model(), at, upstream_model="")
    form = {
        "name": at.name,
        "kind": "openai",
        "url": "http://elsewhere.test/v1",
        "key_variable": "",
        "max_concurrency": 8,
        "queue_timeout_s": 10,
        "first_token_timeout_s": 60,
        "silence_timeout_s": 60,
        "deadline_s": 600,
        "enabled": "on",
    }
    url = f"/admin/gateway/gatewayupstream/{at.id}/change/"
    assert "out of service" in staff.post(url, form).content.decode()
    assert offered() == ["gpu-1"]
    assert staff.post(url, {**form, "out_of_service": "on"}).status_code == 302
    assert offered() == []
