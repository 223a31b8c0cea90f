"""Starting, stopping, repeating and deleting load tests on pages."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse
from pytest_django import Settings
from pytest_django.asserts import assertContains, assertNotContains, assertRedirects

from apps.capacity.load.types import Target
from apps.capacity.models import LoadTest
from apps.capacity.urls import urlpatterns
from apps.gateway.calling import catalogue
from apps.gateway.models import GatewayModel, GatewayRoute, GatewayUpstream
from apps.telemetry.models import AuditEvent
from tests.capacity.factories import KNEE, make_test
from tests.cast import Cast, signed_in

pytestmark = pytest.mark.django_db


class _Silent(BaseHTTPRequestHandler):
    """A server that is there, and knows nothing of models."""

    def do_GET(self) -> None:
        self.send_error(404)

    def log_message(self, *words: object) -> None:
        """Nothing is to be written."""


@pytest.fixture
def server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Silent) as http:
        threading.Thread(target=http.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{http.server_address[1]}/v1"
        http.shutdown()


@pytest.fixture
def olga(cast: Cast) -> Client:
    return signed_in(cast.olga)


def asked(**changes: Any) -> dict[str, Any]:
    """What the form posts."""
    return {
        "name": "By hand",
        "target": "address",
        "url": "http://127.0.0.1:9/v1",
        "kind": "openai",
        "workload": "synthetic",
        "prompt_mean": "100",
        "prompt_stdev": "20",
        "output_mean": "16",
        "output_stdev": "0",
        "mode": "sweep+knee",
        "arrivals": "poisson",
        "loads": "0.5, 1; 2 4",
        "repeats": "3",
        "ttft_ms": "1500",
        "tpot_ms": "100",
        "e2e_ms": "",
        "share_percent": "95",
        "duration_s": "20",
        "requests": "400",
        "most_minutes": "15",
        "most_requests": "5000",
        **changes,
    }


NEW = "/ops/capacity/tests/new/"


def test_only_operations_see_any_page_of_capacity(cast: Cast) -> None:
    """Every address of the room, found in the URLconf."""
    test = make_test(loads=(1.0,), repeats=1)
    values: dict[str, Any] = {"loadtest_id": test.id, "point_number": 0}
    routes = [each for each in urlpatterns if set(each.pattern.converters) <= set(values)]
    assert len(routes) > 12
    for route in routes:
        arguments = {name: values[name] for name in route.pattern.converters}
        url = reverse(f"capacity:{route.name}", kwargs=arguments)
        for method in ("get", "post"):
            assert getattr(Client(), method)(url).status_code in {302, 405}, url
            for name in ("alice", "bob", "mallory"):
                status = getattr(signed_in(getattr(cast, name)), method)(url).status_code
                assert status in {404, 405}, (url, method, name)
    assert LoadTest.objects.filter(id=test.id).exists()


def test_the_form_begins_with_what_this_machine_can_do(olga: Client) -> None:
    response = olga.get(NEW)
    assertContains(response, 'value="0.5, 1, 2, 4"')
    assertContains(response, "At most")
    assertContains(response, "5,000 requests, whatever happens")


def test_the_form_begins_around_the_newest_knee(olga: Client) -> None:
    make_test()
    assertContains(olga.get(NEW), 'value="0.65, 1.3, 2.6, 5.2"')


def test_points_are_long_enough_for_a_low_knee(olga: Client) -> None:
    low = KNEE.model_copy(update={"load": 0.1, "load_low": 0.09, "load_high": 0.12})
    make_test(knee=low)
    response = olga.get(NEW)
    assertContains(response, 'value="0.025, 0.05, 0.1, 0.2"')
    assertContains(response, 'name="duration_s" value="600"')
    assertContains(response, "points")


def test_a_plan_fills_in_what_it_knows(olga: Client) -> None:
    query = "?prompt_mean=512.4&prompt_stdev=60.5&output_mean=128&ttft_ms=800&tpot_ms=50"
    response = olga.get(f"{NEW}{query}")
    for value in ("512", "60.5", "128", "800", "50"):
        assertContains(response, f'value="{value}"')


@pytest.mark.parametrize(
    "query",
    [
        "?prompt_mean=nan&ttft_ms=inf&tpot_ms=-1",
        "?prompt_mean=<script>&output_mean=",
        "?prompt_mean=1e400&output_mean=" + "9" * 500,
        "?prompt_mean=0&e2e_ms=%00",
    ],
)
def test_an_address_that_makes_no_sense_fills_in_nothing_wrong(olga: Client, query: str) -> None:
    response = olga.get(f"{NEW}{query}")
    assert response.status_code == 200
    assertNotContains(response, "<script>&")


def test_a_test_is_started_and_waits_for_a_worker(olga: Client, cast: Cast, server: str) -> None:
    response = olga.post(NEW, asked(url=server, engine="double", gpus="0", hour_price="0.08"))
    test = LoadTest.objects.get()
    assertRedirects(response, reverse("capacity:test", args=[test.id]))
    assert test.state == LoadTest.State.WAITING
    assert test.created_by == cast.olga
    assert test.plan["loads"] == [0.5, 1.0, 2.0, 4.0]
    assert test.plan["promises"] == {"ttft_ms": 1500, "tpot_ms": 100, "e2e_ms": None, "share": 0.95}
    assert test.plan["most_s"] == 900
    assert test.workload["prompt"] == {"mean": 100, "stdev": 20, "least": 20, "most": 180}
    assert test.workload["output"] == {"mean": 16, "stdev": 0, "least": 16, "most": 16}
    assert test.conditions["engine"] == "double"
    assert test.conditions["hour_micros"] == 80_000
    assert test.target["url"] == server


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"url": ""}, "url"),
        ({"url": "ftp://127.0.0.1/"}, "url"),
        ({"url": "http://user:secret@127.0.0.1/v1"}, "url"),
        ({"url": "http://[::1/v1"}, "url"),
        ({"url": "http://127.0.0.1:99999/v1"}, "url"),
        ({"url": "http://models.example.com/v1"}, "host_again"),
        ({"url": "http://models.example.com/v1", "host_again": "models.example.org"}, "host_again"),
        ({"url": "http://127.0.0.1.example.com/v1"}, "host_again"),
        ({"target": "upstream:nobody"}, "target"),
        ({"target": ""}, "target"),
        ({"loads": ""}, "loads"),
        ({"loads": "1, two"}, "loads"),
        ({"loads": "0"}, "loads"),
        ({"loads": "-1"}, "loads"),
        ({"loads": "nan"}, "loads"),
        ({"loads": "inf"}, "loads"),
        ({"loads": "1e9"}, "loads"),
        ({"loads": " ".join(map(str, range(1, 60)))}, "loads"),
        ({"loads": "١, ٢", "mode": "knee"}, None),
        ({"loads": "1.5, 2", "arrivals": "closed"}, "loads"),
        ({"loads": "1", "mode": "knee"}, "loads"),
        ({"loads": " ".join(map(str, range(1, 50))), "repeats": "20"}, "loads"),
        ({"ttft_ms": "", "tpot_ms": ""}, "ttft_ms"),
        ({"ttft_ms": "nan"}, "ttft_ms"),
        ({"ttft_ms": "-5"}, "ttft_ms"),
        ({"share_percent": "0"}, "share_percent"),
        ({"share_percent": "101"}, "share_percent"),
        ({"repeats": "0"}, "repeats"),
        ({"repeats": "21"}, "repeats"),
        ({"duration_s": "0"}, "duration_s"),
        ({"duration_s": "19"}, "duration_s"),
        ({"loads": "0.001"}, "duration_s"),
        ({"duration_s": "inf"}, "duration_s"),
        ({"most_minutes": "100000"}, "most_minutes"),
        ({"most_requests": "0"}, "most_requests"),
        ({"prompt_mean": ""}, "prompt_mean"),
        ({"prompt_mean": "0"}, "prompt_mean"),
        ({"output_mean": "2000000"}, "output_mean"),
        ({"prompt_stdev": "nan"}, "prompt_stdev"),
        ({"workload": "trace"}, "trace"),
        ({"arrivals": "trace"}, "arrivals"),
        ({"workload": "ledger", "tenant": "all"}, "workload"),
        ({"workload": "ledger", "tenant": "nobody"}, "tenant"),
        ({"workload": "ledger", "days": "0"}, "days"),
        ({"hour_price": "-1"}, "hour_price"),
        ({"hour_price": "NaN"}, "hour_price"),
        ({"gpus": "-1"}, "gpus"),
        ({"name": "x" * 201}, "name"),
        ({"engine": "x" * 201}, "engine"),
        ({"key_variable": "PATH"}, "url"),
    ],
)
def test_what_cannot_be_right_is_said_at_its_field(
    olga: Client, server: str, changes: dict[str, Any], field: str | None
) -> None:
    response = olga.post(NEW, {**asked(url=server), **changes})
    if field is None:
        assert response.status_code == 302, response.context["form"].errors
        return
    assert response.status_code == 200
    assert list(response.context["form"].errors) == [field]
    assert not LoadTest.objects.exists()


def test_another_host_is_asked_for_by_name(olga: Client, settings: Settings) -> None:
    """Nobody answers at the port, but it was not refused for its host."""
    url = "http://127.0.0.1:9/v1"
    response = olga.post(NEW, asked(url=url))
    assert response.context["form"].errors.keys() == {"__all__"}


def test_a_trace_is_read_and_a_broken_one_is_answered(olga: Client, server: str) -> None:
    good = b'{"at_s": 1, "prompt_tokens": 9, "output_tokens": 3}\n' * 3
    changes = {"workload": "trace", "arrivals": "trace", "loads": "1, 2", "mode": "sweep"}
    file = SimpleUploadedFile("<b>busy</b>.jsonl", good)
    assert olga.post(NEW, asked(url=server, trace=file, **changes)).status_code == 302
    test = LoadTest.objects.get()
    assert (test.workload["kind"], len(test.workload["rows"])) == ("trace", 3)
    assertNotContains(olga.get(reverse("capacity:test", args=[test.id])), "<b>busy")
    for content in (b"", b"\x00\xff", b"[]", b'{"prompt_tokens": 1e999, "output_tokens": 1}'):
        file = SimpleUploadedFile("t.jsonl", content)
        response = olga.post(NEW, asked(url=server, trace=file, **changes))
        assert list(response.context["form"].errors) == ["trace"]


def test_a_trace_beyond_the_bound_is_refused(olga: Client, server: str) -> None:
    row = b'{"at_s": 1, "prompt_tokens": 9, "output_tokens": 3}\n'
    file = SimpleUploadedFile("t.jsonl", row * (11 * 2**20 // len(row)))
    response = olga.post(NEW, asked(url=server, workload="trace", trace=file))
    assertContains(response, "A trace has at most 10 MiB")


def test_lengths_alone_are_taken_from_a_trace_that_arrives_otherwise(
    olga: Client, server: str
) -> None:
    file = SimpleUploadedFile("t.jsonl", b'{"t": 1, "in": 9, "out": 3}\n')
    assert olga.post(NEW, asked(url=server, workload="trace", trace=file)).status_code == 302
    assert LoadTest.objects.get().workload["kind"] == "lengths"


@pytest.fixture
def far_upstream(server: str) -> str:
    """A model with an upstream on another machine."""
    upstream = GatewayUpstream.objects.create(
        name="far", kind="openai", url="http://models.example.com/v1"
    )
    model = GatewayModel.objects.create(
        alias="big", label="Big", context_tokens=8000, max_tokens=500
    )
    GatewayRoute.objects.create(model=model, upstream=upstream)
    catalogue.forget()
    return "models.example.com"


def test_a_configured_upstream_elsewhere_is_loaded_only_by_its_name(
    olga: Client, far_upstream: str
) -> None:
    assertContains(olga.get(NEW), 'value="far:far"')
    response = olga.post(NEW, asked(target="far:far"))
    assert list(response.context["form"].errors) == ["host_again"]


def test_the_gateway_needs_somebody_who_pays(olga: Client, far_upstream: str) -> None:
    response = olga.post(NEW, asked(target="gateway:big"))
    assert list(response.context["form"].errors) == ["payer"]


def test_the_bounds_are_said_before_it_starts(olga: Client) -> None:
    response = olga.get("/ops/capacity/tests/bounds/", asked(loads="1", repeats="2", mode="sweep"))
    # Two points and the self-test, 20 s and some around each.
    assertContains(response, "3 points")
    assertContains(response, "about 66 requests")
    assertNotContains(response, "<html")


def test_a_plan_that_does_not_fit_its_minutes_says_so(olga: Client) -> None:
    response = olga.get("/ops/capacity/tests/bounds/", asked(most_minutes="1"))
    assertContains(response, "more than the minutes")


@pytest.mark.parametrize("query", [{}, {"loads": "x"}, {"loads": "1", "repeats": "nan"}])
def test_bounds_of_what_is_half_typed_wait(olga: Client, query: dict[str, str]) -> None:
    response = olga.get("/ops/capacity/tests/bounds/", query)
    assertContains(response, "as soon as the loads")


def test_a_test_is_stopped_after_a_question(olga: Client) -> None:
    test = make_test(state="running", knee=None)
    stop = reverse("capacity:stop_test", args=[test.id])
    assertContains(olga.get(stop), "Stop this load test?")
    assertRedirects(olga.post(stop), reverse("capacity:test", args=[test.id]))
    test.refresh_from_db()
    assert test.state == LoadTest.State.CANCELLED
    assert AuditEvent.objects.filter(action="load_test.stopped", subject_id=test.id).exists()


def test_stopping_what_has_ended_changes_nothing(olga: Client) -> None:
    test = make_test(loads=(1.0,))
    stop = reverse("capacity:stop_test", args=[test.id])
    assert olga.get(stop).status_code == 302
    assertContains(olga.post(stop, follow=True), "It had ended already")
    test.refresh_from_db()
    assert test.state == LoadTest.State.DONE


def test_a_test_is_deleted_after_a_question(olga: Client) -> None:
    test = make_test(loads=(1.0,), name="<i>Old</i>")
    delete = reverse("capacity:delete_test", args=[test.id])
    assertContains(olga.get(delete), "3 points")
    response = olga.post(delete, follow=True)
    assertContains(response, "&lt;i&gt;Old&lt;/i&gt;” is deleted")
    assert not LoadTest.objects.exists()


def test_a_running_test_is_not_deleted(olga: Client) -> None:
    test = make_test(state="running", knee=None, with_points=False)
    response = olga.post(reverse("capacity:delete_test", args=[test.id]), follow=True)
    assertContains(response, "Stop it, then delete it")
    assert LoadTest.objects.filter(id=test.id).exists()


def test_a_test_is_run_again_with_one_click(olga: Client, server: str) -> None:
    first = make_test(loads=(1.0,), target=_at(server))
    response = olga.post(reverse("capacity:run_again", args=[first.id]))
    again = LoadTest.objects.exclude(id=first.id).get()
    assertRedirects(response, reverse("capacity:test", args=[again.id]))
    assert again.rerun_of == first
    assert again.plan["seed"] != first.plan["seed"]


def test_running_again_against_a_server_that_is_gone_says_so(olga: Client) -> None:
    first = make_test(loads=(1.0,), target=_at("http://127.0.0.1:9/v1"))
    response = olga.post(reverse("capacity:run_again", args=[first.id]), follow=True)
    assertContains(response, 'class="notice error"')
    assert LoadTest.objects.count() == 1


def test_running_again_what_cannot_be_read_says_so(olga: Client) -> None:
    first = make_test(loads=(1.0,))
    LoadTest.objects.update(plan={"mode": "?"})
    response = olga.post(reverse("capacity:run_again", args=[first.id]), follow=True)
    assertContains(response, "cannot be read")


@pytest.mark.parametrize("name", ["stop_test", "run_again", "delete_test"])
def test_what_is_not_there_cannot_be_acted_on(olga: Client, name: str) -> None:
    assert olga.post(reverse(f"capacity:{name}", args=[uuid.uuid4()])).status_code == 404


def _at(url: str) -> Target:
    return Target(kind="openai", url=url, model="smol")
