"""Addresses, and what is asked of which server."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from apps.capacity.errors import TargetRefused
from apps.capacity.load.prompts import Prompt
from apps.capacity.load.targets import Address, Api
from apps.capacity.load.types import Target
from tests.capacity.load.jobs import job

PROMPT = Prompt("time year", "people\nGo on")


def _body(kind: Any = "openai", url: str = "http://h/v1", **more: Any) -> tuple[str, Any]:
    api = {name: more.pop(name) for name in ("owners", "takes_system", "model") if name in more}
    wanted = job(target=Target(kind=kind, url=url), **more)
    raw = Api(wanted, Address.of(url), "sk-1", **api).ask_chat(PROMPT, 7)
    head, _, body = raw.partition(b"\r\n\r\n")
    return head.decode(), orjson.loads(body)


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("http://127.0.0.1:8082/v1", (False, "127.0.0.1", 8082, "/v1")),
        ("https://models.example/v1/", (True, "models.example", 443, "/v1")),
        ("http://[::1]:80", (False, "::1", 80, "")),
    ],
)
def test_an_address_is_taken_apart(url: str, told: tuple[Any, ...]) -> None:
    address = Address.of(url)
    assert (address.is_secure, address.host, address.port, address.path) == told


@pytest.mark.parametrize(
    "url",
    [
        "",
        "ftp://h/",
        "file:///etc/passwd",
        "http://",
        "http://user:secret@h/",
        "http://h:99999/",
        "http://h/a b",
        "http://h/\r\nx: y",
        "http://ü.example/",
        "http://[::1/",
        "//h/",
    ],
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(TargetRefused) as caught:
        Address.of(url)
    assert "secret" not in str(caught.value)


def test_a_stream_with_its_usage_is_asked_for() -> None:
    head, body = _body()
    assert head.startswith("POST /v1/chat/completions HTTP/1.1\r\nhost: h\r\n")
    assert "\r\nauthorization: Bearer sk-1\r\n" in head
    assert body["stream"] is True
    assert body["stream_options"] == {"include_usage": True}
    assert body["max_tokens"] == 7
    assert [each["role"] for each in body["messages"]] == ["system", "user"]


def test_a_server_that_may_not_know_a_field_is_not_sent_it() -> None:
    _, body = _body(owners=frozenset({"openai"}), cache_prompts=False)
    assert body.keys() == {"messages", "max_tokens", "temperature", "stream", "stream_options"}


def test_servers_that_can_are_held_to_the_length() -> None:
    for owner in ("llamacpp", "vllm", "sglang", "null"):
        assert _body(owners=frozenset({owner}))[1]["ignore_eos"] is True
    assert "ignore_eos" not in _body(owners=frozenset({"vllm"}), full_length=False)[1]


def test_llama_cpp_is_told_of_its_cache() -> None:
    _, body = _body(owners=frozenset({"llamacpp"}), cache_prompts=False)
    assert body["cache_prompt"] is False
    assert "cache_prompt" not in _body(owners=frozenset({"llamacpp"}))[1]


def test_tgi_is_asked_below_its_root() -> None:
    for url in ("http://h:3000", "http://h:3000/v1"):
        head, body = _body("tgi", url, model="tgi", owners=frozenset({"tgi"}))
        assert head.startswith("POST /v1/chat/completions HTTP/1.1\r\nhost: h:3000\r\n")
        assert body["model"] == "tgi"
        assert not {"stop", "top_p", "ignore_eos"} & body.keys()


def test_a_template_without_system_turns_gets_one_turn() -> None:
    _, body = _body(takes_system=False)
    assert body["messages"] == [{"role": "user", "content": "time year people\nGo on"}]


def test_the_key_is_in_no_representation() -> None:
    assert "sk-1" not in repr(Api(job(), Address.of("http://h"), "sk-1"))
