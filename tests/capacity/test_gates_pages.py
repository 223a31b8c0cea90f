"""Pages and command of gates: whose they are, what they show, and what they refuse."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from apps.evals.models import AnswerRun
from apps.gateway.calling.serving import serving_of
from apps.gateway.models import GatewayRoute, RouteApproval
from tests.cast import Cast, signed_in
from tests.evals.gating import Scene, few_will_do, finish, open_scene
from tests.retrieval.conftest import embedder, reranker  # noqa: F401 - fixtures
from tests.retrieval.corpus import make_collection

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("embedder", "reranker"),
]
REASON = "The old server is gone, and people wait."


@pytest.fixture
def scene(cast: Cast, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    few_will_do(monkeypatch)
    settings.TGI_URL = settings.OPENAI_URL = ""
    cast.acme.ops_may_read_text = True
    cast.acme.save()
    with open_scene(make_collection(cast.acme), precision="<b>FP8</b>") as opened:
        yield opened


@pytest.fixture
def olga(cast: Cast) -> Client:
    return signed_in(cast.olga)


def form(scene: Scene, **changes: Any) -> dict[str, Any]:
    return {
        "route": scene.route.id,
        "task_set": f"{scene.tenant.id}/{scene.labelled_set.id}",
        "sample": 16,
        "seed": 0,
        "budget": 2,
        "needle": 5,
        "rule": "mean",
        **changes,
    }


def page(browser: Client, name: str, *args: object) -> str:
    response = browser.get(reverse(f"capacity:{name}", args=args))
    assert response.status_code == 200
    return " ".join(response.content.decode().split())


def test_only_operations_see_gates(cast: Cast, scene: Scene, client: Client) -> None:
    for name in ("gates", "gate_new"):
        assert client.get(reverse(f"capacity:{name}")).status_code == 302
        assert signed_in(cast.alice).get(reverse(f"capacity:{name}")).status_code == 404
    refused = signed_in(cast.alice).post(
        reverse("capacity:gate_override"),
        {"route": scene.route.id, "fingerprint": "x", "reason": REASON},
    )
    assert refused.status_code == 404


def test_a_gate_is_started_watched_and_read(olga: Client, scene: Scene) -> None:
    assert "Waits for its gate" in page(olga, "gates")
    started = olga.post(reverse("capacity:gate_new"), form(scene))
    run = AnswerRun.objects.get()
    assert started.status_code == 302
    assert "hx-trigger" in page(olga, "gate", run.id)
    finish(run)
    read = page(olga, "gate", run.id)
    assert "No slice lost more than its budget" in read
    assert "hx-trigger" not in read
    assert "&lt;b&gt;FP8" in read
    assert "<b>FP8" not in read
    assert "Passed its gate" in page(olga, "gates")


def test_a_gate_that_fails_names_the_slice(olga: Client, scene: Scene) -> None:
    scene.candidate.speaks = lambda prompt: "Nobody knows anything of that. [1]"
    run = finish(scene.start())
    read = page(olga, "gate", run.id)
    assert "beyond its budget" in read
    assert "benefits" in read
    assert "set out here" not in read  # no text of questions or answers


def test_a_gate_is_stopped_on_its_page(olga: Client, scene: Scene) -> None:
    run = scene.start()
    olga.post(reverse("capacity:gate_stop", args=[run.id]))
    assert "was stopped after 0 of 16" in page(olga, "gate", run.id)


@pytest.mark.parametrize(
    "changes",
    [
        {"sample": 0},
        {"sample": "nan"},
        {"budget": -1},
        {"budget": "inf"},
        {"slice_budgets": "tables=lots"},
        {"slice_budgets": "tables=-3"},
        {"route": 10**9},
        {"route": "x"},
        {"task_set": f"{uuid.UUID(int=0)}/{uuid.UUID(int=0)}"},
        {"context_tokens": 2},
        {"rule": "hope"},
    ],
    ids=str,
)
def test_what_cannot_be_meant_starts_nothing(
    olga: Client, scene: Scene, changes: dict[str, Any]
) -> None:
    assert olga.post(reverse("capacity:gate_new"), form(scene, **changes)).status_code == 422
    assert not AnswerRun.objects.exists()


def test_sets_of_tenants_that_let_nobody_read_are_not_offered(
    olga: Client, scene: Scene, cast: Cast
) -> None:
    cast.acme.ops_may_read_text = False
    cast.acme.save()
    assert "Tasks" not in page(olga, "gate_new")
    assert olga.post(reverse("capacity:gate_new"), form(scene)).status_code == 422


def test_an_override_on_the_page_needs_a_reason_and_what_was_seen(
    olga: Client, scene: Scene, cast: Cast
) -> None:
    seen = serving_of(scene.route).fingerprint
    url = reverse("capacity:gate_override")
    for given in (
        {"route": scene.route.id, "fingerprint": seen, "reason": ""},
        {"route": scene.route.id, "fingerprint": "0" * 64, "reason": REASON},
        {"route": "x", "fingerprint": seen, "reason": REASON},
        {"route": 10**30, "fingerprint": seen, "reason": REASON},
        {},
    ):
        assert olga.post(url, given).status_code == 302
    assert scene.offered() == ["old"]
    olga.post(url, {"route": scene.route.id, "fingerprint": seen, "reason": REASON})
    assert scene.offered() == ["old", "new"]
    assert RouteApproval.objects.get(how="override").given_name == cast.olga.email
    assert REASON in page(olga, "gates")


def command(scene: Scene, *more: str) -> tuple[int, str]:
    out = StringIO()
    given = [str(scene.route.id), "--set", "Tasks", "--tenant", scene.tenant.slug, *more]
    try:
        call_command("gate", *given, stdout=out, stderr=StringIO())
    except SystemExit as exc:
        return int(exc.code or 0), out.getvalue()
    return 0, out.getvalue()


def test_the_command_exits_with_one_where_it_fails(scene: Scene) -> None:
    scene.candidate.speaks = lambda prompt: "Nobody knows anything of that. [1]"
    code, said = command(scene, "--budget", "0.02", "--budget", "office=0.5")
    assert code == 1
    assert "beyond its budget" in said
    assert scene.offered() == ["old"]


def test_the_command_passes_what_is_as_good(scene: Scene) -> None:
    code, said = command(scene)
    assert (code, "Passed" in said) == (0, True)
    assert scene.offered() == ["old", "new"]


@pytest.mark.parametrize(
    "more", [["--budget", "x"], ["--budget", "a=2"], ["--rule", "hope"], ["--tenant", "nobody"]]
)
def test_the_command_says_what_is_wrong(scene: Scene, more: list[str]) -> None:
    with pytest.raises(CommandError):
        command(scene, *more)
    assert not AnswerRun.objects.exists()
    assert GatewayRoute.objects.count() == 2
