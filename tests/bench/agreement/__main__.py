"""`scripts/bench-agreement`: guidellm and our generator at the same servers, side by side.

The servers are the double with known latencies, fixed and stalled at every tenth request, and the
embedded engine. Both tools send the same lengths at the same rates, in turns (REPEATS, 3); what
each measured of each request is put together. A tap in front of the server writes down what went
by: what two runs at an engine differ by is the engine's and the machine's, and shows there too.
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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from apps.documents.management.terminal import table
from tests.bench.agreement.sides import WARM_UP, Load, Measured, guidellm, install, ours

REPEATS = int(os.environ.get("REPEATS") or 3)
PARTS = (os.environ.get("PART") or "double,engine").split(",")
WITHIN = 0.05

FIXED = {"first_s": 0.3, "gap_s": 0.02}
STALLED = {**FIXED, "stall_every": 10, "stall_s": 0.6}
AT_DOUBLE = Load("", "poisson", 4, 30, 100, 16)
AT_ENGINE = (
    Load("engine, one at a time", "one at a time", 0, 12, 120, 32),
    Load("engine, 0.3 requests/s", "constant", 0.3, 12, 120, 32),
)


@dataclass(frozen=True)
class Side:
    """What one tool measured, and what went by on the wire meanwhile; milliseconds."""

    ttft: list[float]
    inter_token: list[float]
    wire_ttft: list[float]
    wire_inter_token: list[float]
    failed: int = 0
    lag_ms: float = 0.0  # of our generator, p99


def main() -> None:
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} before; {REPEATS} turns each")
    install()
    rows: list[tuple[str, ...]] = []
    if "double" in PARTS:
        for name, known in (("double, fixed", FIXED), ("double, every tenth stalls", STALLED)):
            rows += _rows(name, [_at_double(known, turn) for turn in range(REPEATS)])
    if "engine" in PARTS:
        with _engine() as port:
            for load in AT_ENGINE:
                rows += _rows(load.name, [_turn(load, port, turn) for turn in range(REPEATS)])
    _print(rows)


def _print(rows: Sequence[tuple[str, ...]]) -> None:
    head = ("server and load", "figure", "ours", "guidellm", "ratio")
    wire = ("ours / wire", "guidellm / wire", "ratio of those", "")
    print("\nMilliseconds; TTFT from the writing of the request; wire: what went by meanwhile")
    print(*table([(*head, *wire), *rows], right=range(2, 8)), sep="\n")
    outside = sum(row[-1] == "outside" for row in rows)
    print(f"\n{len(rows) - outside} of {len(rows)} figures agree within {WITHIN:.0%} (last ratio)")
    print(f"load {os.getloadavg()[0]:.1f} after")


def _rows(name: str, turns: Sequence[tuple[Side, Side]]) -> Iterator[tuple[str, ...]]:
    mine, theirs = (_together(side) for side in zip(*turns, strict=True))
    count = f"{name}; {len(mine.ttft)} and {len(theirs.ttft)} requests"
    count += f", {mine.failed} and {theirs.failed} failed; our lag p99 {mine.lag_ms:.1f} ms"
    for figure, own, other, own_wire, other_wire in (
        ("TTFT", mine.ttft, theirs.ttft, mine.wire_ttft, theirs.wire_ttft),
        (
            "inter-token",
            *(mine.inter_token, theirs.inter_token),
            *(mine.wire_inter_token, theirs.wire_inter_token),
        ),
    ):
        for share in (50, 95):
            told = [float(np.percentile(v, share)) for v in (own, other, own_wire, other_wire)]
            against = told[0] / told[2], told[1] / told[3]
            agreed = against[0] / against[1]
            verdict = "" if abs(agreed - 1) <= WITHIN else "outside"
            ratios = (f"{told[0] / told[1]:.3f}", *(f"{each:.3f}" for each in against))
            pair = (f"{told[0]:.2f}", f"{told[1]:.2f}")
            yield (count, f"{figure} p{share}", *pair, *ratios, f"{agreed:.3f}", verdict)
            count = ""


def _together(parts: Sequence[Side]) -> Side:
    return Side(
        [value for each in parts for value in each.ttft],
        [value for each in parts for value in each.inter_token],
        [value for each in parts for value in each.wire_ttft],
        [value for each in parts for value in each.wire_inter_token],
        sum(each.failed for each in parts),
        max(each.lag_ms for each in parts),
    )


def _turn(load: Load, port: int, turn: int) -> tuple[Side, Side]:
    mine = _tapped(port, lambda url: ours(load, url, turn))
    return mine, _tapped(port, lambda url: guidellm(load, url))


def _at_double(known: dict[str, float], turn: int) -> tuple[Side, Side]:
    """A double each: which request stalls is counted from its first."""
    with _double(known) as port:
        mine = _tapped(port, lambda url: ours(AT_DOUBLE, url, turn))
    with _double(known) as port:
        return mine, _tapped(port, lambda url: guidellm(AT_DOUBLE, url))


def _tapped(port: int, measure: Callable[[str], Measured]) -> Side:
    command = (sys.executable, "-m", "tests.bench.agreement.tap", str(port))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as tap:
        assert tap.stdout is not None
        told = measure(f"http://127.0.0.1:{int(tap.stdout.readline())}")
        wire = json.loads(tap.communicate()[0])[WARM_UP:]
    lag_ms = told.client.lag_p99_ms if told.client else 0.0
    firsts, between = [each[0] for each in wire], [each[1] for each in wire]
    return Side(told.ttft_ms, told.inter_token_ms, firsts, between, told.failed, lag_ms)


@contextmanager
def _double(known: dict[str, float]) -> Iterator[int]:
    command = (sys.executable, "-m", "tests.capacity.load.double", json.dumps(known))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as double:
        assert double.stdout is not None
        yield int(double.stdout.readline())
        double.kill()


@contextmanager
def _engine() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = (sys.executable, "-m", "ragsite.stack.engine", "--port", str(port))
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as engine:
        try:
            _wait(f"http://127.0.0.1:{port}/health")
            yield port
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
