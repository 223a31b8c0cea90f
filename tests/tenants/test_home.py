"""The front door, the switcher, and what is said when something is wrong."""

from __future__ import annotations

import pytest
from django.template.loader import render_to_string
from django.test import Client, RequestFactory
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries

from apps.tenants.context import navigation
from apps.tenants.models import Membership, Role
from tests.cast import Cast, make_user, signed_in

pytestmark = pytest.mark.django_db


def test_a_stranger_is_asked_to_sign_in() -> None:
    response = Client().get("/")
    assert response.status_code == 302
    assert response.headers["Location"].startswith(reverse("account_login"))


def test_someone_with_one_tenant_goes_straight_to_its_chat(cast: Cast) -> None:
    assert signed_in(cast.bob).get("/").headers["Location"] == "/t/acme/chat/"


def test_someone_with_several_tenants_chooses(cast: Cast) -> None:
    Membership.objects.create(tenant=cast.rival, user=cast.bob, role=Role.MEMBER)
    page = signed_in(cast.bob).get("/").content.decode()
    assert "/t/acme/chat/" in page
    assert "/t/rival/chat/" in page


def test_someone_with_none_is_told_what_to_do(cast: Cast) -> None:
    page = signed_in(make_user("dora")).get("/").content.decode()
    assert "You belong to no organisation yet" in page
    assert "dora@example.com" in page


def test_operations_find_the_tenants_that_let_them_read(cast: Cast) -> None:
    cast.acme.ops_may_read_text = True
    cast.acme.save()
    page = signed_in(cast.olga).get("/").content.decode()
    assert "/t/acme/documents/" in page
    assert "Rival" not in page


def test_the_switcher_costs_one_query(
    cast: Cast, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    Membership.objects.create(tenant=cast.rival, user=cast.bob, role=Role.MEMBER)
    request = RequestFactory().get("/")
    request.user = cast.bob
    with django_assert_num_queries(1):
        names = [one.tenant.name for one in navigation(request)["memberships"]]
    assert names == ["Acme", "Rival"]


@pytest.mark.parametrize("name", ["400", "403", "403_csrf", "404", "429", "500"])
def test_an_error_page_needs_no_request_and_no_database(
    name: str, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(0):
        assert "css/site.css" in render_to_string(f"{name}.html")


@pytest.mark.parametrize("path", ["/nowhere/", "/t/acme/nowhere/", "/t/../../etc/passwd", "/%00"])
def test_a_wrong_address_gets_a_page(cast: Cast, path: str) -> None:
    response = signed_in(cast.alice).get(path)
    assert response.status_code == 404
    assert "There is nothing here" in response.content.decode()


def test_a_form_without_its_token_is_refused_with_words(cast: Cast) -> None:
    browser = Client(enforce_csrf_checks=True)
    response = browser.post("/accounts/login/", {"login": "a@example.com", "password": "x"})
    assert response.status_code == 403
    assert "This form is too old" in response.content.decode()
