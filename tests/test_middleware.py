"""A part that is away gives a page that says so."""

from __future__ import annotations

import pytest
from django.core.cache import caches
from django.db import OperationalError
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory
from pytest_django import Settings

from ragsite.middleware import PartDownMiddleware
from tests.cast import PASSWORD, Cast, signed_in


@pytest.mark.django_db
def test_signing_in_without_redis_says_that_a_part_is_away(cast: Cast, settings: Settings) -> None:
    settings.CACHES = {
        "default": {**settings.CACHES["default"], "LOCATION": "redis://127.0.0.1:1/0"}
    }
    caches["default"].close()
    form = {"login": cast.bob.email, "password": PASSWORD}
    answer = signed_in(None).post("/accounts/login/", form)
    assert answer.status_code == 503
    assert answer["Retry-After"]
    assert b"is away for the moment" in answer.content


@pytest.mark.parametrize(
    ("fault", "status"), [(OperationalError("gone"), 503), (ValueError("a bug"), None)]
)
def test_only_a_part_that_is_away_is_answered_so(fault: Exception, status: int | None) -> None:
    def view(request: HttpRequest) -> HttpResponse:
        raise AssertionError

    request = RequestFactory().get("/")
    answer = PartDownMiddleware(view).process_exception(request, fault)
    assert (answer and answer.status_code) == status
