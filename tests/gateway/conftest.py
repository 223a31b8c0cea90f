"""Fixtures of the gateway's tests."""

from __future__ import annotations

from tests.gateway.api_world import key, tei, tgi  # noqa: F401 - fixtures
