"""What a person types for the command, made into plans, workloads and conditions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from apps.capacity.errors import LoadTestError
from apps.capacity.load.types import Lengths, Promises, Workload
from apps.capacity.loadtests.conditions import COUNTS, WORDS
from apps.capacity.loadtests.plan import Plan
from apps.capacity.loadtests.workloads import (
    ledger_workload,
    synthetic_workload,
    trace_workload,
)
from apps.tenants.models import Tenant
from apps.tenants.money import MICROS

T = TypeVar("T")
ALL_TENANTS = "all"
TRACE_BYTES_MAX = 64 * 1024 * 1024
_PROMISES = {"ttft": "ttft_ms", "tpot": "tpot_ms", "e2e": "e2e_ms", "e2el": "e2e_ms"}


class Mistyped(LoadTestError):
    """An option that says nothing that can be done; the words name it."""

    code = "mistyped"


def typed_plan(options: Mapping[str, Any]) -> Plan:
    """Raises Mistyped."""
    rates, concurrency = options["rates"], options["concurrency"]
    if (rates is None) == (concurrency is None):
        raise Mistyped("Give either --rates or --concurrency.")
    mode = "sweep+knee" if options["sweep"] else "knee"
    told = {
        "mode": mode if options["knee"] else "sweep",
        "arrivals": "closed" if rates is None else options["arrivals"],
        "loads": _numbers("--rates or --concurrency", rates or concurrency),
        "repeats": options["repeats"],
        "tightness": options["tightness"],
        "promises": typed_promises(options["promise"], share=options["share"]),
        "bounds": {
            "duration_s": options["duration"],
            "requests": options["requests"],
            "warmup_requests": options["warmup"],
            "request_timeout_s": options["timeout"],
            "drain_s": options["timeout"],
        },
        "self_test": options["self_test"],
        "most_s": options["most_minutes"] * 60,
        "most_requests": options["most_requests"],
        "seed": options["seed"],
    }
    return _checked(lambda: Plan.model_validate(told))


def typed_promises(words: Sequence[str], *, share: float) -> Promises:
    """ "ttft:500" or "ttft=500", milliseconds, as vLLM's --goodput has them. Raises Mistyped."""
    promises: dict[str, float] = {}
    for word in words:
        name, _, value = word.replace("=", ":").partition(":")
        if name not in _PROMISES:
            raise Mistyped(f"There is no promise {name[:30]!r}: ttft, tpot or e2e, as ttft:500.")
        promises[_PROMISES[name]] = _number("--promise", value)
    return _checked(lambda: Promises(**promises, share=share))


def typed_workload(options: Mapping[str, Any]) -> Workload:
    """Raises Mistyped or WorkloadInvalid."""
    kind, *rest = options["workload"]
    shared = options["shared_prefix"]
    if kind == "synthetic" and not rest:
        return _checked(
            lambda: synthetic_workload(
                prompt=_lengths("--prompt-tokens", options["prompt_tokens"]),
                output=_lengths("--output-tokens", options["output_tokens"]),
                shared_prefix_tokens=shared,
            )
        )
    if kind == "trace" and len(rest) == 1:
        return _trace(Path(rest[0]), keep_times=options["arrivals"] == "trace", shared=shared)
    if kind == "ledger" and len(rest) == 1:
        return _ledger(rest[0], options)
    raise Mistyped("--workload is `synthetic`, `trace FILE` or `ledger TENANT` (or `ledger all`).")


def typed_conditions(words: Sequence[str], *, hour_price: str | None) -> dict[str, Any]:
    """ "engine=vLLM", "gpus=2". Raises Mistyped."""
    typed: dict[str, Any] = {}
    for word in words:
        name, _, value = word.partition("=")
        if name in WORDS and value.strip():
            typed[name] = value.strip()
        elif name in COUNTS and value.isascii() and value.isdigit() and len(value) < 16:
            typed[name] = int(value)
        else:
            names = ", ".join((*WORDS, *COUNTS))
            raise Mistyped(f"--condition {word[:60]!r} is not NAME=VALUE, of these: {names}.")
    if hour_price is not None:
        typed["hour_micros"] = _micros(hour_price)
    return typed


def _trace(path: Path, *, keep_times: bool, shared: int) -> Workload:
    try:
        if path.stat().st_size > TRACE_BYTES_MAX:
            raise Mistyped(f"{path.name} is larger than {TRACE_BYTES_MAX // 2**20} MiB.")
        with path.open("rb") as lines:
            return trace_workload(
                lines, name=path.name, keep_times=keep_times, shared_prefix_tokens=shared
            )
    except OSError as exc:
        raise Mistyped(f"The trace {str(path)[:200]!r} cannot be read: {exc.strerror}.") from exc


def _ledger(slug: str, options: Mapping[str, Any]) -> Workload:
    tenant = None if slug == ALL_TENANTS else Tenant.objects.filter(slug=slug).first()
    if tenant is None and slug != ALL_TENANTS:
        raise Mistyped(f"There is no tenant {slug[:60]!r}; `all` is all of them together.")
    return ledger_workload(
        tenant=tenant,
        days=options["days"],
        seed=options["seed"],
        shared_prefix_tokens=options["shared_prefix"],
    )


def _lengths(name: str, words: str) -> Lengths:
    """ "200" or "200,40": the mean, and the standard deviation; cut off at four of these."""
    mean, *rest = _numbers(name, words)
    stdev = rest[0] if rest else 0.0
    if mean != int(mean) or len(rest) > 1:
        raise Mistyped(f"{name} is MEAN or MEAN,DEVIATION, such as 200,40.")
    wide = math.ceil(4 * stdev)
    whole = int(mean)
    return Lengths(
        mean=whole, stdev=stdev, least=max(1, whole - wide), most=min(1_000_000, whole + wide)
    )


def _numbers(name: str, words: str) -> list[float]:
    return [_number(name, word) for word in words.split(",")]


def _number(name: str, word: str) -> float:
    try:
        value = float(word)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or abs(value) > 1e12:
        raise Mistyped(f"{name}: {word[:30]!r} is no number.")
    return value


def _micros(words: str) -> int:
    try:
        price = Decimal(words)
    except InvalidOperation:
        price = Decimal(-1)
    if not price.is_finite() or not 0 <= price <= 10_000_000:
        raise Mistyped(f"--hour-price {words[:30]!r} is no price.")
    return int(price * MICROS)


def _checked(make: Callable[[], T]) -> T:
    """What `make` makes; a value that a type refuses, in its words."""
    try:
        return make()
    except ValidationError as exc:
        fault = exc.errors(include_input=False, include_url=False, include_context=False)[0]
        where = ".".join(str(step) for step in fault["loc"])
        words = fault["msg"].removeprefix("Value error, ")
        raise Mistyped(f"{where}: {words}" if where else words) from exc
