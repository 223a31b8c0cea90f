"""What a person does with a load test that there is: stop it, run it again, delete it."""

from __future__ import annotations

import uuid

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from apps.capacity.errors import CapacityError
from apps.capacity.loadtests import services
from apps.capacity.selectors import UNFINISHED
from apps.capacity.views.tests import find, person
from apps.telemetry.access import ops_page


@require_POST
@ops_page
def run_again(request: HttpRequest, loadtest_id: uuid.UUID) -> HttpResponse:
    """Start the same test once more."""
    test = find(loadtest_id)
    try:
        again = services.run_again(test_id=test.id, user=person(request))
    except CapacityError as exc:
        messages.error(request, str(exc))
        return redirect("capacity:test", test.id)
    return redirect("capacity:test", again.id)


@require_http_methods(["GET", "HEAD", "POST"])
@ops_page
def stop_test(request: HttpRequest, loadtest_id: uuid.UUID) -> HttpResponse:
    """Ask, then stop; what was measured is kept."""
    test = find(loadtest_id)
    if request.method != "POST" and test.state in UNFINISHED:
        return render(request, "capacity/test_stop.html", {"test": test})
    if request.method == "POST" and not services.stop_test(test_id=test.id, user=person(request)):
        messages.info(request, "It had ended already.")
    return redirect("capacity:test", test.id)


@require_http_methods(["GET", "HEAD", "POST"])
@ops_page
def delete_test(request: HttpRequest, loadtest_id: uuid.UUID) -> HttpResponse:
    """Ask, then delete with all that was measured."""
    test = find(loadtest_id)
    if request.method != "POST":
        context = {"test": test, "points": test.points.count()}
        return render(request, "capacity/test_delete.html", context)
    try:
        services.delete_test(test_id=test.id, user=person(request))
    except CapacityError as exc:
        messages.error(request, str(exc))
        return redirect("capacity:test", test.id)
    messages.success(request, f"“{test.name}” is deleted.")
    return redirect("capacity:tests")
