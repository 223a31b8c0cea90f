"""Where the websocket is."""

from __future__ import annotations

from django.urls import path

from apps.chat.consumers import ChatConsumer

websocket_urlpatterns = [
    path("ws/t/<slug:tenant_slug>/chat/", ChatConsumer.as_asgi()),
]
