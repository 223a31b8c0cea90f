"""Model servers that a load test may be sent to, as choices of a field."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

ADDRESS = "address"
UPSTREAM, FAR, GATEWAY = "upstream", "far", "gateway"


@dataclass(frozen=True)
class TargetChoice:
    """An upstream, asked directly, or a model, asked through the gateway."""

    via: str  # UPSTREAM or GATEWAY
    name: str  # the upstream's, or the model's alias
    host: str = ""  # of an upstream that is not on this machine

    @property
    def value(self) -> str:
        """Names of upstreams on other machines begin otherwise: the page asks for the host."""
        return f"{FAR if self.host else self.via}:{self.name}"

    @property
    def label(self) -> str:
        return f"{self.name}, at {self.host}" if self.host else self.name


def grouped(choices: Sequence[TargetChoice]) -> list[tuple[str, list[tuple[str, str]]]]:
    """As a select shows them."""
    titles = ((UPSTREAM, "Directly"), (GATEWAY, "Through the gateway of this site"))
    groups = [
        (title, [(each.value, each.label) for each in choices if each.via == via])
        for via, title in titles
    ]
    other = ("Elsewhere", [(ADDRESS, "Another address …")])
    return [*((title, each) for title, each in groups if each), other]


def host_of(url: str) -> str | None:
    """The host of an address in small letters; None where it is no address of a server."""
    try:
        parts = urlsplit(url.strip())
        host, _ = parts.hostname, parts.port
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or not host or parts.username or parts.password:
        return None
    return host.lower()


def is_loopback(host: str) -> bool:
    """Whether it is this machine, by what is written: a name is not looked up."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
