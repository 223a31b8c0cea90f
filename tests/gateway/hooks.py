"""A receiver of webhooks that can misbehave."""

from __future__ import annotations

import json
from typing import Any

from tests.contract.loopback import ClientGone, Exchange, LoopbackServer


class Hook(LoopbackServer):
    """Answers as `how` says: a status, or a way to misbehave."""

    def __init__(self) -> None:
        super().__init__()
        self.how: int | str = 200

    @property
    def payloads(self) -> list[dict[str, Any]]:
        return [json.loads(request.body) for request in self.requests]

    def handle(self, exchange: Exchange) -> None:
        if isinstance(self.how, int):
            exchange.reply(self.how, b"whatever")
        elif self.how == "redirect":
            exchange.reply(302, headers={"location": f"{self.url}/elsewhere"})
        elif self.how == "silent":
            exchange.pause(60)
        elif self.how == "drip":
            for _ in range(600):
                exchange.send(b"H")
                exchange.pause(0.05)
        elif self.how == "reset":
            exchange.reset()
        elif self.how == "garbage":
            exchange.send(b"\x00\xff" * 40 + b"\r\n\r\n")
        elif self.how == "endless":
            exchange.send(b"HTTP/1.1 200 OK\r\ncontent-length: 10000000000\r\n\r\n")
            while True:
                exchange.send(b"x" * 65536)
        elif self.how == "continue":
            while True:
                exchange.send(b"HTTP/1.1 100 Continue\r\n\r\n")
                exchange.pause(0.01)
        else:
            raise ClientGone
