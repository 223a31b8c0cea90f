"""The channel layer over real Redis."""

from __future__ import annotations

from channels.layers import get_channel_layer


def test_a_silent_websocket_is_not_ended_by_the_clients_own_time_limit() -> None:
    layer = get_channel_layer()
    assert layer.hosts[0]["socket_timeout"] > layer.brpop_timeout
