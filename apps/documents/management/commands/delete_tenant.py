"""Delete a tenant with everything it has."""

from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.documents import services
from apps.documents.models import Collection, Document
from apps.tenants.models import Tenant
from apps.tenants.scope import tenant_scope


class Command(BaseCommand):
    help = "Delete a tenant: its people's places, documents, files, vectors and conversations."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("tenant", help="its slug")
        parser.add_argument("--yes", action="store_true", help="do not ask")

    def handle(self, *args: Any, **options: Any) -> None:
        tenant = Tenant.objects.filter(slug=options["tenant"]).first()
        if tenant is None:
            known = ", ".join(Tenant.objects.values_list("slug", flat=True)[:10]) or "none yet"
            raise CommandError(
                f"There is no tenant {options['tenant']!r}. Tenants: {known}.", returncode=2
            )
        if not options["yes"]:
            self._ask(tenant)
        services.delete_tenant(tenant=tenant, actor=None)
        self.stdout.write(
            f"Tenant {tenant.slug} is deleted. What happened stays in the audit trail."
        )

    def _ask(self, tenant: Tenant) -> None:
        """Raises CommandError unless the person types the tenant's slug."""
        with tenant_scope(tenant.id):
            documents = Document.objects.filter(tenant=tenant).count()
            collections = Collection.objects.filter(tenant=tenant).count()
        self.stdout.write(
            f"This deletes “{tenant.name}” for good: {documents} documents in {collections} "
            "collections, every conversation, and everyone's place in it."
        )
        self.stdout.write(f"Type {tenant.slug} to go on: ", ending="")
        self.stdout.flush()
        if sys.stdin.readline().strip() != tenant.slug:
            raise CommandError("Nothing was deleted.")
