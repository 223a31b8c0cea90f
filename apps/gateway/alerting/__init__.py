"""Telling who is responsible that a limit is being met: once, by mail and to a webhook.

note_thresholds()       a row for each threshold that is met and was not before
tell_due()              what those rows say, told; what failed, told again later
"""

from __future__ import annotations

from apps.gateway.alerting.sending import tell_due
from apps.gateway.alerting.thresholds import note_thresholds

__all__ = ["note_thresholds", "tell_due"]
