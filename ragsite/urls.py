"""Where everything is."""

from __future__ import annotations

from django.contrib import admin
from django.urls import include, path
from django.views.i18n import set_language

from ragsite.installable import manifest, offline, service_worker
from ragsite.languages import script_words

urlpatterns = [
    path("admin/", admin.site.urls),
    path("accounts/", include("allauth.urls")),
    path("language/", set_language, name="set_language"),
    path("words/<str:language>/<str:version>.js", script_words, name="script_words"),
    path("manifest.webmanifest", manifest, name="manifest"),
    path("sw.js", service_worker, name="service_worker"),
    path("offline/<str:language>/", offline, name="offline"),
    path("api/v1/", include("apps.documents.api.urls")),
    path("", include("apps.tenants.urls")),
    path("t/<slug:tenant_slug>/", include("apps.documents.urls")),
    path("t/<slug:tenant_slug>/", include("apps.retrieval.urls")),
    path("t/<slug:tenant_slug>/", include("apps.chat.urls")),
    path("t/<slug:tenant_slug>/", include("apps.evals.urls")),
    path("", include("apps.gateway.urls")),
    path("", include("apps.telemetry.urls")),
    path("", include("apps.capacity.urls")),
    path("", include("apps.ops.urls")),
]
