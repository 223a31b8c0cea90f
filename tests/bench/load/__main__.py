"""`make bench-load`: the load generator's own ceiling, against a server that costs almost nothing.

Requests a second (open loop, 32 tokens at once) and streams at a time (closed loop, 32 tokens 40 ms
apart) go up until the generator is late: its timer's or its sending's p99 above 10 ms. Then the
same streams through httpx, with the site's own connections beneath it, in the same process.
EACH_S (5) is the length of each step. Generator and server share the machine's cores.
"""

from __future__ import annotations

import os
import subprocess
import sys

from apps.capacity.load.measures import Figures
from apps.capacity.load.types import Arrivals, Bounds, Event, Job, Lengths, Target, Workload
from apps.documents.management.terminal import table
from tests.bench.load.through_httpx import through_httpx

EACH_S = float(os.environ.get("EACH_S") or 5)
RATES = (50, 100, 200, 400, 600, 800, 1200)
STREAMS = (16, 64, 128, 256, 512, 1000)
TOKENS = 32
PACE_MS = 40.0
MOST_MS = 10.0


def main() -> None:
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} before; {EACH_S:g} s each step")
    print(f"\nOpen loop, Poisson, {TOKENS} tokens at once")
    _print(_climb("poisson", RATES, 0.0), "requests/s")
    print(f"\nClosed loop, {TOKENS} tokens {PACE_MS:g} ms apart")
    _print(_climb("closed", STREAMS, PACE_MS), "streams")
    _print_clients()


def _climb(kind: str, loads: tuple[int, ...], pace_ms: float) -> list[tuple[int, Figures]]:
    """Up to the first load at which the generator is late."""
    steps: list[tuple[int, Figures]] = []
    for load in loads:
        steps.append((load, _point(kind, load, pace_ms)))
        if _late_ms(steps[-1][1]) > MOST_MS:
            break
    return steps


def _point(kind: str, load: int, pace_ms: float) -> Figures:
    lengths = {"prompt": Lengths(mean=200), "output": Lengths(mean=TOKENS)}
    job = Job(
        target=Target(kind="null", pace_ms=pace_ms),
        workload=Workload(kind="synthetic", **lengths),
        arrivals=Arrivals(kind=kind, load=load),
        bounds=Bounds(duration_s=EACH_S, requests=100_000),
        cross_check=0,
    )
    done = subprocess.run(
        (sys.executable, "-m", "apps.capacity.load"),
        input=job.model_dump_json().encode(),
        stdout=subprocess.PIPE,
        check=True,
    )
    return Figures.model_validate(Event.model_validate_json(done.stdout.splitlines()[-1]).figures)


def _late_ms(figures: Figures) -> float:
    return max(figures.client.lag_p99_ms, figures.client.late_p99_ms)


def _print(steps: list[tuple[int, Figures]], unit: str) -> None:
    rows = [(unit, "done", "failed", "CPU", "lag p99", "late p99", "TTFT p50", "p99", "ms", "us")]
    for load, each in steps:
        cpu_s = each.client.cpu_share * each.duration_s
        late = f"{each.client.lag_p99_ms:.1f} ms", f"{each.client.late_p99_ms:.1f} ms"
        ttft = each.ttft
        rows.append(
            (
                str(load),
                str(each.complete),
                str(each.failed),
                f"{each.client.cpu_share:.0%}",
                *late,
                *((f"{ttft.p50_ms:.1f} ms", f"{ttft.p99_ms:.1f} ms") if ttft else ("", "")),
                f"{1000 * cpu_s / max(1, each.complete):.2f}",
                f"{1e6 * cpu_s / max(1, each.output_tokens):.0f}",
            )
        )
    print("the last two columns: CPU a request, and a token")
    print(*table(rows, right=range(10)), sep="\n")
    kept = [load for load, each in steps if _late_ms(each) <= MOST_MS]
    print(f"on time up to {kept[-1] if kept else 0} {unit}")


def _print_clients() -> None:
    print(
        f"\nTwo clients, closed loop, {TOKENS} tokens {PACE_MS:g} ms apart; TTFT is at least that"
    )
    rows = [
        ("streams", "client", "requests", "CPU", "TTFT p50", "p99", "gap p99", "CPU us a token")
    ]
    for streams in (16, 64):
        mine = _point("closed", streams, PACE_MS)
        assert mine.ttft is not None
        assert mine.itl is not None
        cpu_s = mine.client.cpu_share * mine.duration_s
        times = mine.ttft.p50_ms, mine.ttft.p99_ms, mine.itl.p99_ms
        share = mine.client.cpu_share
        rows.append(_row(streams, "ours", mine.complete, share, times, cpu_s / mine.output_tokens))
        theirs = through_httpx(streams, EACH_S, TOKENS, PACE_MS)
        rows.append(_row(streams, "httpx", *theirs))
    print(*table(rows, right=[0, *range(2, 8)]), sep="\n")


def _row(
    streams: int,
    client: str,
    requests: int,
    cpu_share: float,
    times_ms: tuple[float, ...],
    cpu_token_s: float,
) -> tuple[str, ...]:
    times = (f"{each:.1f} ms" for each in times_ms)
    cpu = f"{cpu_share:.0%}"
    return str(streams), client, str(requests), cpu, *times, f"{1e6 * cpu_token_s:.0f}"


if __name__ == "__main__":
    main()
