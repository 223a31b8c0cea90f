"""The ASGI application: pages and APIs over HTTP, the chat over websockets."""

from __future__ import annotations

import os

from channels.auth import AuthMiddlewareStack
from channels.routing import ProtocolTypeRouter, URLRouter
from channels.security.websocket import OriginValidator
from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ragsite.settings")
# Before anything that imports models.
pages = get_asgi_application()

from django.conf import settings  # noqa: E402

from apps.chat.languages import ReadersLanguage  # noqa: E402
from apps.chat.routing import websocket_urlpatterns  # noqa: E402
from apps.gateway.api.asgi import mounted  # noqa: E402

application = ProtocolTypeRouter(
    {
        "http": mounted(pages),
        # Full origins, not ALLOWED_HOSTS: those ignore scheme and port, and "*" lets all in.
        "websocket": OriginValidator(
            AuthMiddlewareStack(ReadersLanguage(URLRouter(websocket_urlpatterns))),
            settings.SITE_ORIGINS,
        ),
    }
)
