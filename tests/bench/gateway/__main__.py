"""`make bench-gateway`: what the gateway adds to a model server's times, in one run.

The same requests go to the double of a model server (32 tokens, 5 ms apart) directly and through
`/v1/chat/completions` of the site as it is served, in alternating blocks, under a key with every
limit and budget set, a price, and the response cache told to stay out of the way. A request that
fails counts as one that takes for ever. ROUNDS (3) and EACH (20 requests a stream and block) set
the counts, STREAMS (1,16,64) the levels.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from apps.documents.management.terminal import table
from tests.bench.gateway.measuring import (
    Block,
    Level,
    RoundTrips,
    burst,
    hits,
    identical,
    level,
    round_trips,
)
from tests.bench.gateway.stand import GAP_MS, STREAM_S, TOKENS, bench

if TYPE_CHECKING:
    from tests.bench.gateway.stand import Bench

ROUNDS = int(os.environ.get("ROUNDS") or 3)
EACH = int(os.environ.get("EACH") or 20)
STREAMS = [int(each) for each in (os.environ.get("STREAMS") or "1,16,64").split(",")]
HITS = 200
IDENTICAL = 64
COUNTED = 40


def main() -> None:
    load = os.getloadavg()[0]
    print(f"{os.cpu_count()} cores, load {load:.1f} before; {TOKENS} tokens, {GAP_MS:g} ms apart")
    with bench() as running:
        _run(running)


def _run(running: Bench) -> None:
    levels = [level(running, streams, rounds=ROUNDS, each=EACH) for streams in STREAMS]
    _print_levels(levels)
    _print_noise(levels)
    _print_bursts([(n, *burst(running, n, rounds=ROUNDS)) for n in STREAMS if n > 1])
    given = hits(running, HITS)
    print(
        f"\nfrom the response cache: first token p50 {given.first_ms(0.5):.1f} ms, "
        f"p95 {given.first_ms(0.95):.1f} ms ({HITS} hits, {given.failed} failed; target: below 10)"
    )
    answered, calls = identical(running, IDENTICAL)
    print(
        f"{IDENTICAL} identical questions at once: {calls} calls to the model, "
        f"{answered.failed} failed"
    )
    _print_round_trips(round_trips(running, COUNTED))


def _print_levels(levels: Sequence[Level]) -> None:
    rows: list[tuple[str, ...]] = [
        ("streams", "", "p50 ms", "", "", "p95 ms", "", "", "failed", "CPU ms", "req/s", "a core"),
        (*("", "", "direct", "gateway", "added", "direct", "gateway", "added"), "", "", "", ""),
    ]
    for each in levels:
        rate = f"{each.requests_per_s:.0f}"
        costs = (
            f"{each.gateway.failed} of {len(each.gateway.timings)}",
            f"{each.cpu_ms:.2f}",
            rate,
            f"{1000 / each.cpu_ms:.0f}",
        )
        rows.append((str(each.streams), "first token", *_pairs(each, Block.first_ms), *costs))
        rows.append(("", "whole answer", *_pairs(each, Block.total_ms), "", "", "", ""))
    print("\nAdded by the gateway; CPU of the web process a request; requests a second: those done")
    print("at this load, and those for which one core would last")
    print(*table(rows, right=range(2, 12)), sep="\n")
    print("targets at 16 streams: first token p50 below 5 ms added, p95 below 20 ms")


def _pairs(each: Level, figure: object) -> tuple[str, ...]:
    assert callable(figure)
    pairs = [(figure(each.direct, share), figure(each.gateway, share)) for share in (0.5, 0.95)]
    return tuple(
        f"{value:.1f}" for direct, gateway in pairs for value in (direct, gateway, gateway - direct)
    )


def _print_noise(levels: Sequence[Level]) -> None:
    """What the same direct block varies by, and what of its time is the generator's own."""
    rows = [("streams", "direct p50 ms", "again", "p95 ms", "again", "generator alone p50", "p95")]
    rows += [
        (
            str(each.streams),
            f"{each.direct.first_ms(0.5):.1f}",
            f"{each.direct_again.first_ms(0.5):.1f}",
            f"{each.direct.first_ms(0.95):.1f}",
            f"{each.direct_again.first_ms(0.95):.1f}",
            f"{each.null.first_ms(0.5):.1f}",
            f"{each.null.first_ms(0.95):.1f}",
        )
        for each in levels
    ]
    print(
        "\nNoise: first tokens of the same direct blocks twice, and of a server that answers whole"
    )
    print(*table(rows, right=range(7)), sep="\n")


def _print_bursts(bursts: Sequence[tuple[int, Block, Block]]) -> None:
    rows = [("at one instant", "direct p50 ms", "gateway", "direct p95", "gateway", "failed")]
    rows += [
        (
            str(streams),
            f"{direct.first_ms(0.5):.1f}",
            f"{gateway.first_ms(0.5):.1f}",
            f"{direct.first_ms(0.95):.1f}",
            f"{gateway.first_ms(0.95):.1f}",
            str(gateway.failed),
        )
        for streams, direct, gateway in bursts
    ]
    print(f"\nFirst tokens where all streams begin at once instead of over {STREAM_S * 1000:g} ms")
    print(*table(rows, right=range(6)), sep="\n")


def _print_round_trips(trips: RoundTrips) -> None:
    print(f"\nround trips a request, over {trips.requests} requests one after another")
    for name, counts in (("Redis", trips.redis), ("PostgreSQL", trips.postgres)):
        each = sum(counts.values()) / trips.requests
        print(f"  {name}: {each:.1f} ({_by_kind(counts, trips.requests)})")


def _by_kind(counts: Counter[str], requests: int) -> str:
    return ", ".join(f"{kind} {n / requests:.1f}" for kind, n in counts.most_common(12))


if __name__ == "__main__":
    main()
