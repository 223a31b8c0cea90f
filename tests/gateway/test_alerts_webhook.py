"""Webhooks: which addresses are called, what is sent, and receivers that misbehave."""

from __future__ import annotations

import hashlib
import hmac
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from pytest_django import Settings

from apps.gateway.alerting import addresses, webhook
from apps.gateway.alerting.addresses import AddressRefused, find_target, is_public
from apps.gateway.alerting.webhook import WebhookFailed, call_webhook, sign
from tests.gateway.hooks import Hook

PRIVATE = [
    *("127.0.0.1", "127.9.9.9", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1"),  # noqa: S104
    *("169.254.169.254", "100.64.0.1", "224.0.0.1", "255.255.255.255", "240.0.0.1", "192.0.2.1"),
    *("::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "ff02::1"),
    *("::ffff:127.0.0.1", "::ffff:169.254.169.254", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe"),
    *("2002:7f00:1::", "2001:db8::1", "", "localhost", "1.2.3", "0x7f000001"),
]


@pytest.fixture
def hook(settings: Settings) -> Iterator[Hook]:
    settings.WEBHOOK_ALLOW_PRIVATE = True
    with Hook() as server:
        yield server


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """What names resolve to, each list used up from its beginning."""
    known: dict[str, list[str]] = {}
    real = socket.getaddrinfo

    def look_up(host: str, port: int, *args: Any, **options: Any) -> Any:
        if host not in known:
            return real(host, port, *args, **options)
        found = known[host].pop(0) if len(known[host]) > 1 else known[host][0]
        return [(2, 1, 6, "", (each, port)) for each in found.split()]

    monkeypatch.setattr(addresses.socket, "getaddrinfo", look_up)
    return known


@pytest.mark.parametrize("address", PRIVATE)
def test_addresses_that_are_not_public_are_told(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8"])
def test_public_addresses_are_told(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "url",
    [
        *("http://example.com/", "ftp://example.com", "example.com", "", "https://", "https:///x"),
        *("https://user:pw@example.com/", "https://exa mple.com/", "https://example.com:99999/"),
        *("https://example.com/\r\nX: y", "https://[::1", "https://bücher.example/", "//x.com"),
        "https://example.com/" + "a" * 500,
    ],
)
def test_what_is_no_whole_https_address_is_refused(url: str) -> None:
    with pytest.raises(AddressRefused):
        find_target(url, timeout_s=1)


@pytest.mark.parametrize(
    "url",
    [
        *("https://127.0.0.1/", "https://localhost:6379/", "https://[::1]/", "https://2130706433/"),
        *("https://0x7f.1/", "https://0/", "https://127.1/", "https://169.254.169.254/latest"),
        *("https://[::ffff:10.0.0.1]/", "https://[fe80::1%25lo]/"),
    ],
)
def test_ways_into_the_private_network_are_refused(url: str) -> None:
    with pytest.raises(AddressRefused):
        find_target(url, timeout_s=1)


def test_one_private_address_among_public_ones_is_too_many(names: dict[str, list[str]]) -> None:
    names["hooks.example"] = ["8.8.8.8 10.0.0.1"]
    with pytest.raises(AddressRefused, match="not on the public internet"):
        find_target("https://hooks.example/", timeout_s=1)


def test_the_address_that_was_looked_at_is_the_one_that_is_called(
    hook: Hook, names: dict[str, list[str]]
) -> None:
    """A name that resolves to another address a moment later gains nothing."""
    names["hooks.example"] = ["127.0.0.1", "10.255.255.1"]
    port = hook.url.rpartition(":")[2]
    call_webhook(f"http://hooks.example:{port}/in?a=b", "secret", {"a": 1})
    (request,) = hook.requests
    assert (request.headers["host"], request.path) == (f"hooks.example:{port}", "/in?a=b")
    assert names["hooks.example"] == ["10.255.255.1"], "looked up once"


def test_a_name_that_is_slow_to_resolve_ends_with_the_deadline(
    monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    over = threading.Event()
    monkeypatch.setattr(addresses.socket, "getaddrinfo", lambda *_, **__: over.wait(30))
    with pytest.raises(AddressRefused, match="no such host"):
        find_target("https://hooks.example/", timeout_s=0.05)
    over.set()


def test_the_body_is_signed_with_its_time(hook: Hook) -> None:
    call_webhook(hook.url, "secret", {"percent": 80, "tenant": "acme"})
    (request,) = hook.requests
    stamp, _, signature = request.headers["ragsite-signature"].partition(",v1=")
    at = int(stamp.removeprefix("t="))
    expected = hmac.new(b"secret", f"{at}.".encode() + request.body, hashlib.sha256).hexdigest()
    assert hmac.compare_digest(signature, expected)
    assert abs(time.time() - at) < 60
    assert hook.payloads == [{"percent": 80, "tenant": "acme"}]


def test_a_signature_depends_on_secret_body_and_time() -> None:
    kinds = {sign("a", b"x", 1), sign("b", b"x", 1), sign("a", b"y", 1), sign("a", b"x", 2)}
    assert len(kinds) == 4


@pytest.mark.parametrize(
    ("how", "code"),
    [
        (500, "http_500"),
        (404, "http_404"),
        (429, "http_429"),
        ("redirect", "redirect"),
        ("reset", "unreachable"),
        ("garbage", "bad_answer"),
    ],
)
def test_what_is_not_taken_is_told(hook: Hook, how: int | str, code: str) -> None:
    hook.how = how
    with pytest.raises(WebhookFailed) as caught:
        call_webhook(hook.url, "secret", {})
    assert caught.value.code == code
    assert len(hook.requests) == 1, "nothing is followed or repeated"


@pytest.mark.parametrize("how", ["silent", "drip", "continue"])
def test_a_receiver_that_takes_its_time_is_given_up(
    hook: Hook, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(webhook, "DEADLINE_S", 0.3)
    hook.how = how
    with pytest.raises(WebhookFailed) as caught:
        call_webhook(hook.url, "secret", {})
    assert caught.value.code == "timeout"


def test_an_endless_answer_is_not_read(hook: Hook) -> None:
    hook.how = "endless"
    call_webhook(hook.url, "secret", {})


def test_nobody_listening_is_told(settings: Settings) -> None:
    settings.WEBHOOK_ALLOW_PRIVATE = True
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(WebhookFailed, match="unreachable"):
        call_webhook(f"http://127.0.0.1:{port}/", "secret", {})


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """Key and certificate of hooks.example, which nobody has signed but itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "hooks.example")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("hooks.example")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path / "both.pem"
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + certificate.public_bytes(serialization.Encoding.PEM)
    )
    return path


@pytest.fixture
def tls_port(settings: Settings, certificate: Path) -> Iterator[int]:
    """Takes one call over TLS and answers 200."""
    settings.WEBHOOK_ALLOW_PRIVATE = True
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with suppress(OSError), context.wrap_socket(connection, server_side=True) as secured:
                while (read := secured.recv(65536)) and not read.endswith(b"{}"):
                    pass
                secured.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
            connection.close()

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1]
        thread.join()


def test_the_certificate_has_to_be_the_names_and_not_the_addresss(
    tls_port: int,
    certificate: Path,
    names: dict[str, list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    names["hooks.example"] = ["127.0.0.1"]
    call_webhook(f"https://hooks.example:{tls_port}/", "secret", {})


def test_a_certificate_of_another_name_is_refused(
    tls_port: int,
    certificate: Path,
    names: dict[str, list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    names["other.example"] = ["127.0.0.1"]
    with pytest.raises(WebhookFailed, match="tls"):
        call_webhook(f"https://other.example:{tls_port}/", "secret", {})


def test_a_certificate_that_nobody_vouches_for_is_refused(
    tls_port: int, names: dict[str, list[str]]
) -> None:
    names["hooks.example"] = ["127.0.0.1"]
    with pytest.raises(WebhookFailed, match="tls"):
        call_webhook(f"https://hooks.example:{tls_port}/", "secret", {})
