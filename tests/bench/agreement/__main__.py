"""`scripts/bench-agreement`: guidellm and our generator at the same servers, side by side.

The servers are the double with known latencies, fixed and stalled at every tenth request, and the
embedded engine. Both tools send the same lengths at the same rates, in turns (REPEATS, 4), so
that both see what else the machine does; what each measured of each request is put together.
PART=double or PART=engine takes one of them.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from apps.documents.management.terminal import table
from tests.bench.agreement.sides import Load, Measured, guidellm, install, ours

REPEATS = int(os.environ.get("REPEATS") or 4)
PARTS = (os.environ.get("PART") or "double,engine").split(",")
WITHIN = 0.05

FIXED = {"first_s": 0.3, "gap_s": 0.02}
STALLED = {**FIXED, "stall_every": 10, "stall_s": 0.6}
AT_DOUBLE = Load("", "poisson", 4, 60, 100, 16)
AT_ENGINE = (
    Load("engine, one at a time", "one at a time", 0, 10, 120, 32),
    Load("engine, 0.5 requests/s", "constant", 0.5, 10, 120, 32),
)


def main() -> None:
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} before; {REPEATS} turns each")
    install()
    rows: list[tuple[str, ...]] = []
    if "double" in PARTS:
        for name, known in (("double, fixed", FIXED), ("double, every tenth stalls", STALLED)):
            rows += _rows(name, [_at_double(known) for _ in range(REPEATS)])
    if "engine" in PARTS:
        with _engine() as url:
            for load in AT_ENGINE:
                turns = [(ours(load, url, n), guidellm(load, url)) for n in range(REPEATS)]
                rows += _rows(load.name, turns)
    _print(rows)


def _print(rows: Sequence[tuple[str, ...]]) -> None:
    head = ("server and load", "figure", "ours", "guidellm", "ours / guidellm", "", "from intended")
    print("\nMilliseconds, p50 and p95; TTFT of both from the writing of the request")
    print(*table([head, *rows], right=range(2, 5)), sep="\n")
    outside = sum(row[5] == "outside" for row in rows)
    print(f"\n{len(rows) - outside} of {len(rows)} figures within {WITHIN:.0%}")


def _rows(name: str, turns: Sequence[tuple[Measured, Measured]]) -> Iterator[tuple[str, ...]]:
    mine, theirs = (_together(side) for side in zip(*turns, strict=True))
    count = f"{name} ({len(mine.ttft_ms)} and {len(theirs.ttft_ms)} requests"
    count += f", {mine.failed} and {theirs.failed} failed)"
    clients = [each.client for each, _ in turns if each.client]
    if not all(client.is_trustworthy for client in clients):
        lag = max(client.lag_p99_ms for client in clients)
        count += f"; our generator was late: lag p99 {lag:.1f} ms"
    intended = mine.intended_ttft_ms
    for figure, own, other in (
        ("TTFT", mine.ttft_ms, theirs.ttft_ms),
        ("inter-token", mine.inter_token_ms, theirs.inter_token_ms),
    ):
        for share in (50, 95):
            pair = float(np.percentile(own, share)), float(np.percentile(other, share))
            late = f"{np.percentile(intended, share):.2f}" if figure == "TTFT" else ""
            ratio = pair[0] / pair[1]
            verdict = "" if abs(ratio - 1) <= WITHIN else "outside"
            told = (f"{pair[0]:.2f}", f"{pair[1]:.2f}", f"{ratio:.3f}", verdict, late)
            yield (count, f"{figure} p{share}", *told)
            count = ""


def _together(parts: Sequence[Measured]) -> Measured:
    return Measured(
        [value for each in parts for value in each.ttft_ms],
        [value for each in parts for value in each.inter_token_ms],
        sum(each.failed for each in parts),
        [value for each in parts for value in each.intended_ttft_ms],
    )


def _at_double(known: dict[str, float]) -> tuple[Measured, Measured]:
    """A double each: which request stalls is counted from its first."""
    with _double(known) as url:
        mine = ours(AT_DOUBLE, url, seed=1)
    with _double(known) as url:
        return mine, guidellm(AT_DOUBLE, url)


@contextmanager
def _double(known: dict[str, float]) -> Iterator[str]:
    command = (sys.executable, "-m", "tests.capacity.load.double", json.dumps(known))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as double:
        assert double.stdout is not None
        yield f"http://127.0.0.1:{int(double.stdout.readline())}"
        double.kill()


@contextmanager
def _engine() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = (sys.executable, "-m", "ragsite.stack.engine", "--port", str(port))
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as engine:
        try:
            _wait(f"http://127.0.0.1:{port}/health")
            yield f"http://127.0.0.1:{port}"
        finally:
            engine.terminate()


def _wait(url: str) -> None:
    for _ in range(240):
        try:
            with urllib.request.urlopen(url, timeout=2):  # noqa: S310 - our own
                return
        except OSError:
            time.sleep(0.25)
    raise SystemExit("the engine did not start")


if __name__ == "__main__":
    main()
