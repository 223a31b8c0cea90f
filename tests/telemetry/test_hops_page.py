"""Operations see where time goes, of all tenants; nobody else sees the page."""

from __future__ import annotations

import pytest

from apps.telemetry.hops import Trace
from apps.telemetry.services import record_trace
from tests.cast import Cast, signed_in

pytestmark = pytest.mark.django_db

PAGE = "/ops/hops/"


def test_operations_see_the_hops_of_every_tenant(cast: Cast) -> None:
    for tenant in (cast.acme, cast.rival):
        trace = Trace(tenant.id, "answer")
        with trace.hop("search"):
            pass
        with trace.hop("rerank") as hop:
            hop.end_as("degraded", "unavailable")
        record_trace(trace)
    page = signed_in(cast.olga).get(PAGE).content.decode()
    assert "search" in page
    assert "degraded 2" in page
    assert "No document was ingested in this time." in page


@pytest.mark.parametrize("hours", ["1", "168", "", "0", "-1", "9" * 40, "abc", "1;DROP"])
def test_any_stretch_of_time_gives_a_page(cast: Cast, hours: str) -> None:
    assert signed_in(cast.olga).get(PAGE, {"hours": hours}).status_code == 200


@pytest.mark.parametrize("who", ["alice", "carl", "bob", "mallory"])
def test_for_others_there_is_no_such_page(cast: Cast, who: str) -> None:
    assert signed_in(getattr(cast, who)).get(PAGE).status_code == 404


def test_a_stranger_is_asked_to_sign_in(cast: Cast) -> None:
    assert signed_in(None).get(PAGE).status_code == 302


def test_operations_are_shown_the_way_there(cast: Cast) -> None:
    assert PAGE in signed_in(cast.olga).get("/").content.decode()
