"""What a person asks a load test for. What cannot be right is answered at its field."""

from __future__ import annotations

from apps.capacity.testing_forms.choices import TargetChoice
from apps.capacity.testing_forms.plans import PlanForm
from apps.capacity.testing_forms.prefilling import beginning, prefilled
from apps.capacity.testing_forms.tests import LoadTestForm

__all__ = ["LoadTestForm", "PlanForm", "TargetChoice", "beginning", "prefilled"]
