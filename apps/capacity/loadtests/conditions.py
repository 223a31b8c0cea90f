"""What the figures of a test hold for: asked of the server, read from the catalogue and the
machine, and typed by a person, who is right where they say otherwise.

    {"model", "engine", "engine_version", "precision", "kv_precision", "context_policy",
     "machine", "gpus", "gpu", "hour_micros", "sources": {one of these: where it is from}}

Sources are "server", "file name" (of the weights that the server names), "catalogue", "machine" and
"typed". What nobody tells is left out: an unknown precision is not a guessed one.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping
from typing import Any

from apps.capacity.errors import TargetDown
from apps.capacity.load.types import Target
from apps.capacity.loadtests.machine import describe_machine, machine_words
from apps.capacity.loadtests.targets import routes_of
from apps.gateway.calling.upstreams import server_of
from apps.inference import errors
from apps.inference.transport import Server, fetch_json

WORDS = (
    "model",
    "engine",
    "engine_version",
    "precision",
    "kv_precision",
    "context_policy",
    "machine",
    "gpu",
)
COUNTS = ("gpus", "hour_micros")
WORDS_CHARS_MAX = 200
COUNT_MAX = 10**12
_PATIENCE_S = 4.0
# Of weights: Q4_K_M, IQ2_XS, BF16, F16, FP8 and the like, where a file's or model's name has one.
_PRECISION = re.compile(
    r"(?<![A-Za-z0-9])(I?Q\d(?:_[A-Z0-9]+)*|BF16|FP?16|FP?32|FP8|INT8|INT4|AWQ|GPTQ)(?![A-Za-z0-9])",
    re.IGNORECASE,
)

Told = dict[str, tuple[str, str]]  # a condition: its value and its source


def gather_conditions(target: Target, *, typed: Mapping[str, Any], key: str = "") -> dict[str, Any]:
    """All conditions of a test of `target`. Raises TargetDown where nobody answers there.

    `typed` may have any of WORDS and COUNTS; those that are empty or None say nothing.
    """
    told = {} if target.kind == "null" else _told(target, key)
    if _is_here(target):
        told["machine"] = (machine_words(describe_machine()), "machine")
    found: dict[str, Any] = {name: value for name, (value, _) in told.items() if value}
    sources = {name: source for name, (value, source) in told.items() if value}
    for name, value in _typed(typed).items():
        found[name], sources[name] = value, "typed"
    return {**found, "sources": sources}


def typed_again(conditions: Mapping[str, Any]) -> dict[str, Any]:
    """What a person had typed of `conditions`, for a test that is run again."""
    sources = conditions.get("sources")
    sources = sources if isinstance(sources, dict) else {}
    return {
        name: conditions[name]
        for name in (*WORDS, *COUNTS)
        if sources.get(name) == "typed" and name in conditions
    }


def _typed(typed: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in WORDS:
        if words := _cleaned(typed.get(name)):
            found[name] = words
    for name in COUNTS:
        value = typed.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= COUNT_MAX:
            found[name] = value
    return found


def _cleaned(value: object) -> str:
    text = value if isinstance(value, str) else ""
    return "".join(char for char in text if char.isprintable()).strip()[:WORDS_CHARS_MAX]


def _is_here(target: Target) -> bool:
    """Whether the model works on this machine, for the processor of another is not known."""
    if target.via == "gateway":
        return all(not _host_of_another(route.upstream.url) for route in routes_of(target))
    return target.kind == "null" or not target.host


def _host_of_another(url: str) -> bool:
    return "//127." not in url and "//localhost" not in url and "//[::1]" not in url


def _told(target: Target, key: str) -> Told:
    server = _server(target, key)
    if server is None:
        return {"model": (target.model, "catalogue")}
    told: Told = {"model": (_cleaned(target.model), "catalogue")}
    return {**told, **asyncio.run(_ask(server, "tgi" if _speaks_tgi(target) else "openai"))}


def _server(target: Target, key: str) -> Server | None:
    """Whom to ask: through the gateway, the one upstream that there is; of several, nobody."""
    routes = routes_of(target) if target.upstream or target.via == "gateway" else ()
    if target.via == "gateway":
        return _patient(server_of(routes[0].upstream)) if len(routes) == 1 else None
    if routes:
        key = routes[0].upstream.key
    elif target.key_variable:
        key = os.environ.get(target.key_variable, "")
    return Server("model", target.url, key, timeout_s=_PATIENCE_S)


def _speaks_tgi(target: Target) -> bool:
    if target.via == "gateway":
        return any(route.upstream.kind == "tgi" for route in routes_of(target))
    return target.kind == "tgi"


def _patient(server: Server) -> Server:
    return Server(server.kind, server.url, server.key, timeout_s=_PATIENCE_S)


async def _ask(server: Server, kind: str) -> Told:
    """Raises TargetDown where the first question already finds nobody."""
    if kind == "tgi":
        return _read_tgi(await _reached(server, f"{server.root}/info"))
    models = await _reached(server, f"{server.url}/models")
    entry, owner = _model_of(models)
    told = _read_model(entry)
    if owner == "llamacpp":
        return {**told, **_read_llama(await _asked(server, f"{server.root}/props"), entry)}
    version = await _asked(server, f"{server.root}/version")
    if owner == "vllm" or isinstance(version.get("version"), str):
        return {**told, **_named("vLLM" if owner == "vllm" else owner, version.get("version"))}
    if owner == "sglang":
        return {**told, **_read_sglang(await _asked(server, f"{server.root}/get_server_info"))}
    return {**told, **_named(owner, "")}


async def _reached(server: Server, url: str) -> dict[str, Any]:
    """What it answers; {} of a server that does not know the route or wants another key."""
    try:
        async with asyncio.timeout(_PATIENCE_S):
            return _as_dict(await fetch_json(server, "GET", url))
    except (errors.Unavailable, errors.TimedOut, TimeoutError) as exc:
        raise TargetDown(
            f"{server.where} does not answer. Start it, or check its address."
        ) from exc
    except errors.InferenceError:
        return {}


async def _asked(server: Server, url: str) -> dict[str, Any]:
    """What it answers to a question that it need not know."""
    try:
        async with asyncio.timeout(_PATIENCE_S):
            return _as_dict(await fetch_json(server, "GET", url))
    except (errors.InferenceError, TimeoutError):
        return {}


def _as_dict(reply: object) -> dict[str, Any]:
    return reply if isinstance(reply, dict) else {}


def _model_of(models: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """The first model that is listed, and whose server lists it."""
    entries = models.get("data")
    entry = _as_dict(entries[0]) if isinstance(entries, list) and entries else {}
    return entry, _cleaned(entry.get("owned_by"))


def _read_model(entry: Mapping[str, Any]) -> Told:
    name = _cleaned(entry.get("root")) or _cleaned(entry.get("id"))
    told: Told = {"model": (_stem(name), "server")}
    told.update(_precision_in(name))
    length = entry.get("max_model_len")
    if isinstance(length, int):
        told["context_policy"] = (f"{length} tokens", "server")
    return told


def _read_llama(props: Mapping[str, Any], entry: Mapping[str, Any]) -> Told:
    path = _cleaned(props.get("model_path")) or _cleaned(entry.get("id"))
    told: Told = {**_named("llama.cpp", props.get("build_info")), **_precision_in(path)}
    if path:
        told["model"] = (_stem(path), "server")
    slots = props.get("total_slots")
    context = _as_dict(props.get("default_generation_settings")).get("n_ctx")
    if isinstance(slots, int) and isinstance(context, int):
        told["context_policy"] = (f"{slots} slots of {context} tokens", "server")
    return told


def _read_sglang(info: Mapping[str, Any]) -> Told:
    told = _named("SGLang", info.get("version"))
    told["precision"] = (
        _cleaned(info.get("quantization")) or _cleaned(info.get("dtype")),
        "server",
    )
    told["kv_precision"] = (_cleaned(info.get("kv_cache_dtype")), "server")
    return told


def _read_tgi(info: Mapping[str, Any]) -> Told:
    sha = _cleaned(info.get("model_sha"))[:12]
    model = _cleaned(info.get("model_id"))
    told = _named("TGI", info.get("version"))
    told["model"] = (f"{model} at {sha}" if sha and model else model, "server")
    told["precision"] = (
        _cleaned(info.get("quantize")) or _cleaned(info.get("model_dtype")),
        "server",
    )
    most = info.get("max_total_tokens")
    if isinstance(most, int):
        told["context_policy"] = (f"{most} tokens", "server")
    return told


def _named(engine: str, version: object) -> Told:
    return {"engine": (engine, "server"), "engine_version": (_cleaned(version), "server")}


def _precision_in(name: str) -> Told:
    found = _PRECISION.search(name.rpartition("/")[2])
    return {"precision": (found.group(1).upper(), "file name")} if found else {}


def _stem(name: str) -> str:
    """A file's name without its folders, which are nobody's business; another name as it is."""
    if name.endswith(".gguf"):
        return name.rpartition("/")[2].removesuffix(".gguf")
    return name.rstrip("/").rpartition("/")[2] if name.startswith("/") else name
