"""Calls to model servers: which one, when, and what if it fails."""

from __future__ import annotations

from apps.gateway.calling.generating import generate
from apps.gateway.calling.reports import CallReport, Embedded, Scored
from apps.gateway.calling.texts import embed, rerank

__all__ = ["CallReport", "Embedded", "Scored", "embed", "generate", "rerank"]
