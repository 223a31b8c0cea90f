"""Calls to model servers: which one, when, and what if it fails."""

from __future__ import annotations

from apps.gateway.calling.calls import CallReport, Embedded, Scored, embed, generate, rerank

__all__ = ["CallReport", "Embedded", "Scored", "embed", "generate", "rerank"]
