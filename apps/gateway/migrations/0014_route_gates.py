"""What routes are served with, and which configurations may answer. Those in use go on."""

from dataclasses import asdict

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


def keep_in_force(apps, schema_editor):
    # Not frozen: what compares fingerprints is the code of the day that this runs.
    from apps.gateway.calling.serving import serving_of

    # The connection that migrates: another one would wait for its locks for ever.
    using = schema_editor.connection.alias
    routes = apps.get_model("gateway", "GatewayRoute").objects.using(using)
    routes = routes.filter(model__kind="chat")
    approvals = apps.get_model("gateway", "RouteApproval").objects.using(using)
    for route in routes.select_related("model", "upstream").order_by("id"):
        serving = serving_of(route)
        approvals.get_or_create(
            alias=route.model.alias,
            fingerprint=serving.fingerprint,
            defaults={"serving": asdict(serving), "how": "migrated"},
        )


class Migration(migrations.Migration):
    dependencies = [
        ("gateway", "0013_settling"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            "gatewayroute", "precision", models.CharField(blank=True, default="", max_length=60)
        ),
        migrations.AddField(
            "gatewayroute", "engine", models.CharField(blank=True, default="", max_length=120)
        ),
        migrations.AddField(
            "gatewayroute",
            "context_policy",
            models.CharField(blank=True, default="", max_length=200),
        ),
        migrations.CreateModel(
            name="RouteApproval",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("alias", models.CharField(max_length=100)),
                ("fingerprint", models.CharField(max_length=64)),
                ("serving", models.JSONField()),
                (
                    "how",
                    models.CharField(
                        choices=[
                            ("first", "The first of its alias: nothing to compare with"),
                            ("migrated", "In use before there were gates"),
                            ("gate", "Passed its gate"),
                            ("override", "Overridden by a person"),
                        ],
                        max_length=8,
                    ),
                ),
                ("gate_id", models.UUIDField(null=True)),
                ("reason", models.CharField(blank=True, max_length=500)),
                ("given_name", models.CharField(blank=True, max_length=254)),
                ("given_at", models.DateTimeField(auto_now_add=True)),
                (
                    "given_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "verbose_name": "approval of a route",
                "constraints": [
                    models.UniqueConstraint(
                        fields=("alias", "fingerprint"), name="approval_once"
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("how", "first")),
                        fields=("alias",),
                        name="approval_one_first",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("how__in", ["first", "migrated"]),
                            models.Q(("gate_id__isnull", False), ("how", "gate")),
                            models.Q(
                                ("how", "override"),
                                models.Q(("reason", ""), _negated=True),
                                models.Q(("given_name", ""), _negated=True),
                            ),
                            _connector="OR",
                        ),
                        name="approval_has_grounds",
                    ),
                ],
            },
        ),
        migrations.RunPython(keep_in_force, migrations.RunPython.noop, elidable=False),
    ]
