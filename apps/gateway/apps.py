"""The gateway's place in Django."""

from __future__ import annotations

from django.apps import AppConfig


class GatewayConfig(AppConfig):
    name = "apps.gateway"

    def ready(self) -> None:
        from django.db.models.signals import post_save

        from apps.gateway import gauges
        from apps.gateway.admission.rules import limits_changed
        from apps.gateway.api.kept_keys import keys_changed
        from apps.gateway.approvals import note_first
        from apps.gateway.ledger.counters import recount
        from apps.gateway.ledger.traces import book_uses
        from apps.telemetry.services import on_uses
        from apps.tenants.limits import on_change
        from apps.tenants.services.keys import on_revoke
        from apps.tenants.services.tenants import on_move

        gauges.register()
        # By whatever way a route is added: forms, a command, a shell.
        post_save.connect(note_first, sender="gateway.GatewayRoute", dispatch_uid="first_route")
        on_change.append(limits_changed)
        on_revoke.append(keys_changed)
        on_move.append(recount)
        on_uses.append(book_uses)
