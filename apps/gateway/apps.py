"""The gateway's place in Django."""

from __future__ import annotations

from django.apps import AppConfig


class GatewayConfig(AppConfig):
    name = "apps.gateway"
