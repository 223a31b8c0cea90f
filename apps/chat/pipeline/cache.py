"""Hop: the response cache. A seam: nothing is cached yet, and the span says so."""

from __future__ import annotations

from apps.chat.pipeline.types import AnswerRequest
from apps.telemetry.hops import Trace


def look_up(request: AnswerRequest, trace: Trace) -> None:
    """Record that the question was not eligible for a cached answer."""
    with trace.hop("cache") as hop:
        hop.end_as("skipped")
        hop.set(eligible=False)
