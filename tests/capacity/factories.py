"""Load tests with figures, made from a server that there is none of: for pages and sums over them.

Times come from a queue-like formula and a seeded generator, so that latency grows with load and a
promise breaks between two loads; the figures are computed from the same records that are kept.
"""

from __future__ import annotations

import gzip
import random
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

import numpy as np

from apps.capacity.load.measures import Client, Figures, Percentiles, Record
from apps.capacity.load.types import Bounds, Lengths, Promises, Target, Workload
from apps.capacity.loadtests.plan import Knee, Plan
from apps.capacity.models import LoadPoint, LoadTest
from apps.tenants.models import User

PROMISES = Promises(ttft_ms=600.0, tpot_ms=40.0)
WORKLOAD = Workload(
    kind="synthetic", prompt=Lengths(mean=200, stdev=40), output=Lengths(mean=20, stdev=4)
)
TARGET = Target(kind="openai", url="http://127.0.0.1:8080/v1", model="smol", upstream="engine")
CONDITIONS = {
    "model": "SmolLM2-135M-Instruct",
    "engine": "llama.cpp",
    "engine_version": "b6500",
    "precision": "Q8_0",
    "kv_precision": "f16",
    "context_policy": "8192 tokens, 4 slots",
    "machine": "2 cores, 8 GiB",
    "gpus": 0,
    "gpu": "",
    "hour_micros": 80_000,
}
KNEE = Knee(
    found=True,
    low=2.0,
    high=4.0,
    load=2.6,
    load_low=2.2,
    load_high=3.1,
    arrivals="poisson",
    output_per_s=38.0,
    input_per_s=390.0,
    requests_per_s=1.95,
    repeats=3,
)
CAPACITY_PER_S = 5.0  # where the made-up server is full


def make_records(
    load: float, *, requests: int = 40, failed: int = 0, seed: int = 0
) -> list[Record]:
    """Requests at `load` a second, the last `failed` of them without an answer."""
    dice = random.Random(f"{load} {seed}")  # noqa: S311 - the same figures each time
    return [
        _failed(number, number / load)
        if number >= requests - failed
        else _complete(number, load, dice)
        for number in range(requests)
    ]


def _complete(number: int, load: float, dice: random.Random) -> Record:
    at, busy = number / load, min(load / CAPACITY_PER_S, 0.97)
    tokens = dice.randint(14, 26)
    pieces = [at + (0.2 + 0.15 * busy / (1 - busy)) * dice.uniform(0.8, 1.25)]
    for _ in range(tokens - 1):
        pieces.append(pieces[-1] + 0.012 * (1 + 2 * busy) * dice.uniform(0.8, 1.3))
    return Record(
        number=number,
        intended_s=at,
        sent_s=at + dice.uniform(0.0001, 0.001),
        first_s=pieces[0],
        last_s=pieces[-1],
        end_s=pieces[-1] + 0.001,
        outcome="complete",
        prompt_tokens=200,
        output_tokens=tokens,
        wanted_prompt_tokens=200,
        wanted_output_tokens=tokens,
        pieces_s=tuple(pieces),
    )


def _failed(number: int, at: float) -> Record:
    return Record(
        number=number,
        intended_s=at,
        sent_s=at,
        end_s=at + 1,
        outcome="failed",
        error_code="http_503",
    )


def make_client(**changes: Any) -> Client:
    values = {
        "cpu_share": 0.08,
        "lag_p50_ms": 0.1,
        "lag_p99_ms": 1.2,
        "lag_max_ms": 3.0,
        "late_p99_ms": 0.9,
        "late_max_ms": 1.0,
        "is_trustworthy": True,
    }
    return Client.model_validate({**values, **changes})


def make_figures(
    records: Sequence[Record], *, promises: Promises = PROMISES, **changes: Any
) -> Figures:
    """What the records add up to; `changes` overrule."""
    done = [record for record in records if record.outcome == "complete"]
    ends = [record.end_s or record.intended_s for record in records]
    duration = max(ends, default=1.0) or 1.0
    good = sum(_is_good(record, promises) for record in done)
    output = sum(record.output_tokens for record in done)
    prompt = sum(record.prompt_tokens for record in done)
    values: dict[str, Any] = {
        "requests": len(records),
        "complete": len(done),
        "failed": len(records) - len(done),
        "errors": {"http_503": len(records) - len(done)} if len(done) < len(records) else {},
        "offered_per_s": len(records) / max((r.intended_s for r in records), default=1.0)
        if len(records) > 1
        else 1.0,
        "duration_s": duration,
        "concurrency_mean": sum(_e2e(r) for r in done) / duration,
        "concurrency_max": 4,
        "prompt_tokens": prompt,
        "output_tokens": output,
        "cached_tokens": 0,
        "cached_share": 0.0,
        "tokens_reported": len(done),
        "pieces_per_token": 1.0,
        "output_per_s": output / duration,
        "input_per_s": prompt / duration,
        "requests_per_s": len(done) / duration,
        "ttft": _percentiles([_ttft(r) for r in done]),
        "ttft_sent": _percentiles([(r.first_s or 0) - (r.sent_s or 0) for r in done]),
        "tpot": _percentiles([_tpot(r) for r in done if r.output_tokens > 1]),
        "itl": _percentiles(
            [b - a for r in done for a, b in zip(r.pieces_s, r.pieces_s[1:], strict=False)]
        ),
        "e2e": _percentiles([_e2e(r) for r in done]),
        "good": good,
        "good_share": good / len(records) if records else 0.0,
        "goodput_per_s": good / duration,
        "keeps_promises": bool(records) and good / len(records) >= promises.share,
        "client": make_client(),
    }
    return Figures.model_validate({**values, **changes})


def make_point(
    test: LoadTest,
    load: float,
    *,
    repeat: int = 0,
    number: int | None = None,
    purpose: str = LoadPoint.Purpose.SWEEP,
    records: Sequence[Record] | None = None,
    keep_records: bool = True,
    **figures: Any,
) -> LoadPoint:
    """One point of `test`; `figures` overrule what its records add up to."""
    plan = Plan.model_validate(test.plan)
    chosen = make_records(load, seed=repeat) if records is None else records
    return LoadPoint.objects.create(
        test=test,
        number=test.points.count() if number is None else number,
        purpose=purpose,
        arrivals=plan.arrivals,
        load=load,
        repeat=repeat,
        seed=repeat,
        figures=make_figures(chosen, promises=plan.promises, **figures).model_dump(mode="json"),
        records=packed(chosen) if keep_records else b"",
    )


def packed(records: Sequence[Record]) -> bytes:
    """As a point keeps them: JSON Lines, gzip."""
    return gzip.compress("".join(f"{r.model_dump_json()}\n" for r in records).encode())


def make_test(
    *,
    name: str = "Sweep of the engine",
    state: str = LoadTest.State.DONE,
    loads: Sequence[float] = (0.5, 1.0, 2.0, 4.0),
    repeats: int = 3,
    mode: Literal["sweep", "knee", "sweep+knee"] = "sweep+knee",
    arrivals: Literal["poisson", "constant", "closed", "trace"] = "poisson",
    promises: Promises = PROMISES,
    workload: Workload = WORKLOAD,
    target: Target = TARGET,
    conditions: Mapping[str, Any] | None = None,
    knee: Knee | None = KNEE,
    with_points: bool = True,
    user: User | None = None,
    finished_at: datetime | None = None,
    **fields: Any,
) -> LoadTest:
    """A load test as it would be kept, with `repeats` points at each of `loads`.

    `knee` None: the search had no result. `fields` are those of the row, such as `progress`.
    """
    plan = Plan(
        mode=mode,
        arrivals=arrivals,
        loads=tuple(loads),
        repeats=repeats,
        promises=promises,
        bounds=Bounds(duration_s=20.0, requests=200),
        seed=7,
    )
    result = {} if knee is None else {"knee": knee.model_dump(mode="json")}
    values: dict[str, Any] = {
        "name": name,
        "state": state,
        "target": target.model_dump(mode="json"),
        "workload": workload.model_dump(mode="json"),
        "plan": plan.model_dump(mode="json"),
        "conditions": {**CONDITIONS, **(conditions or {})},
        "result": result,
        "created_by": user,
        "finished_at": finished_at,
    }
    test = LoadTest.objects.create(**{**values, **fields})
    if with_points:
        for load in loads:
            for repeat in range(repeats):
                make_point(test, load, repeat=repeat)
    return test


def _is_good(record: Record, promises: Promises) -> bool:
    kept = (
        (promises.ttft_ms, _ttft(record)),
        (promises.tpot_ms, _tpot(record)),
        (promises.e2e_ms, _e2e(record)),
    )
    return all(promise is None or took * 1000 <= promise for promise, took in kept)


def _ttft(record: Record) -> float:
    return (record.first_s or 0.0) - record.intended_s


def _tpot(record: Record) -> float:
    return ((record.last_s or 0.0) - (record.first_s or 0.0)) / max(record.output_tokens - 1, 1)


def _e2e(record: Record) -> float:
    return (record.end_s or 0.0) - record.intended_s


def _percentiles(seconds: Sequence[float]) -> Percentiles | None:
    if not seconds:
        return None
    ms = np.array(seconds) * 1000
    p50, p95, p99 = (float(np.percentile(ms, share)) for share in (50, 95, 99))
    return Percentiles(
        count=len(seconds),
        mean_ms=float(ms.mean()),
        p50_ms=p50,
        p95_ms=p95,
        p99_ms=p99,
        max_ms=float(ms.max()),
    )
