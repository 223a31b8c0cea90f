"""What the figures of a test hold for, in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from apps.tenants.money import format_money

NAMES = {
    "model": "Model",
    "engine": "Engine",
    "engine_version": "Version of the engine",
    "precision": "Precision of the weights",
    "kv_precision": "Precision of the KV cache",
    "context_policy": "Context",
    "machine": "Machine",
    "cpu": "CPU",
    "cores": "Cores",
    "memory_bytes": "Memory",
    "gpus": "GPUs",
    "gpu": "GPU",
    "hour_micros": "Price of an hour",
    "load_average": "Load of the machine at the begin",
}
_SOURCES = {
    "server": "said by the server",
    "file name": "from the name of its file",
    "catalogue": "from the gateway",
    "machine": "read here",
    "typed": "typed",
}
_VALUE_MAX = 300
_GIB = 2**30


@dataclass(frozen=True)
class Condition:
    """One of them; `value` is plain text."""

    key: str
    name: str
    value: str
    source: str = ""  # where it is from, in words


def conditions_of(conditions: Any) -> list[Condition]:
    """Those that are known, the usual ones first; "" where `conditions` is no mapping."""
    if not isinstance(conditions, Mapping):
        return []
    told = conditions.get("sources")
    sources = told if isinstance(told, Mapping) else {}
    others = sorted(str(key) for key in conditions if key not in NAMES and key != "sources")
    return [
        Condition(
            key,
            NAMES.get(key, key.replace("_", " ").capitalize()),
            words,
            _SOURCES.get(str(sources.get(key)), ""),
        )
        for key in [*(key for key in NAMES if key in conditions), *others]
        if (words := _words(key, conditions.get(key)))
    ]


def _words(key: str, value: Any) -> str:
    if value in (None, "", [], {}):
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float) and key == "hour_micros":
        return f"{format_money(value)}"
    if isinstance(value, int | float) and key == "memory_bytes":
        return f"{value / _GIB:.1f} GiB"
    if key == "gpus" and value == 0:
        return "none"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))[:_VALUE_MAX]
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {each}" for name, each in value.items())[:_VALUE_MAX]
    return str(value)[:_VALUE_MAX]
