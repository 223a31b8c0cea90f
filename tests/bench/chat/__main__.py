"""`make bench-chat`: what the chat's sockets cost, with one web process and with two.

IDLE sockets (1,000) wait while ASKING others (100) are each sent an answer of TOKENS (1,200), 20 a
second, each of a person of their own. A frame's delay is from the model server's sending of the
token that waited longest to the frame's arrival, while all are being written at once; both clocks
are the machine's. The people and the model server share the machine's cores with what is measured.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from apps.documents.management.terminal import table
from tests.bench.chat.stand import GAP_MS, TOKENS, bench, run

if TYPE_CHECKING:
    from tests.bench.chat.stand import Phases

IDLE = int(os.environ.get("IDLE") or 1000)
ASKING = int(os.environ.get("ASKING") or 100)
SPREAD_S = float(os.environ.get("SPREAD_S") or 20)
PROCESSES = [int(each) for each in (os.environ.get("PROCESSES") or "1,2").split(",")]


def main() -> None:
    load = os.getloadavg()[0]
    print(
        f"{os.cpu_count()} cores, load {load:.1f} before; {IDLE} idle sockets, {ASKING} of answers "
        f"of {TOKENS} tokens, {GAP_MS:g} ms apart"
    )
    with bench(IDLE + ASKING) as running:
        rounds = []
        for count in PROCESSES:
            phases = run(running, processes=count, idle=IDLE, asking=ASKING, spread_s=SPREAD_S)
            print(_summary(count, phases), flush=True)
            rounds.append((count, phases))
    _print(rounds)


def _print(rounds: list[tuple[int, Phases]]) -> None:
    rows: list[tuple[str, ...]] = [
        ("web", "frames' delay ms", "", "", "idle socket", "streaming", "CPU idle", "CPU", "Redis"),
        ("processes", "p50", "p95", "worst", "KiB", "KiB", "of a core", "streaming", "CPU"),
    ]
    for processes, phases in rounds:
        delays = sorted(_delays(phases.report))
        busy_s = phases.ended.at - phases.streaming.at
        quiet_s = phases.idle_later.at - phases.idle.at
        rows.append(
            (
                str(processes),
                f"{_quantile(delays, 0.5):.1f}",
                f"{_quantile(delays, 0.95):.1f}",
                f"{delays[-1]:.0f}",
                f"{_kib(phases.idle.web_pss_mib, phases.empty.web_pss_mib, IDLE):.0f}",
                f"{_kib(phases.ended.web_pss_mib, phases.idle_later.web_pss_mib, ASKING):.0f}",
                _cpu(phases.idle_later.web_cpu_s, phases.idle.web_cpu_s, quiet_s),
                _cpu(phases.ended.web_cpu_s, phases.streaming.web_cpu_s, busy_s),
                f"{(phases.ended.redis_cpu_s - phases.streaming.redis_cpu_s) / busy_s:.0%}",
            )
        )
    print("\n".join(table(rows)))


def _summary(processes: int, phases: Phases) -> str:
    report: dict[str, Any] = phases.report
    seconds = phases.ended.at - phases.streaming.at
    expected = ASKING * TOKENS
    return (
        f"{processes}: {len(_delays(report)):,} frames in {seconds:.0f} s with all being written; "
        f"{report['tokens']:,} of {expected:,} tokens came, {report['out_of_order']} frames out "
        f"of order, {report['closed']} sockets closed, answers ended {report['states']}; memory of "
        f"the web processes {_mib(phases.empty.web_pss_mib)} empty, "
        f"{_mib(phases.idle.web_pss_mib)} idle, "
        f"{_mib(phases.ended.web_pss_mib)} at the streams' end"
    )


def _delays(report: dict[str, Any]) -> list[float]:
    return list(report["delays_ms"])


def _quantile(values: list[float], share: float) -> float:
    return values[min(len(values) - 1, round(share * (len(values) - 1)))]


def _kib(after: tuple[float, ...], before: tuple[float, ...], sockets: int) -> float:
    return (sum(after) - sum(before)) * 1024 / sockets


def _cpu(after: tuple[float, ...], before: tuple[float, ...], seconds: float) -> str:
    shares = [(b - a) / seconds for a, b in zip(before, after, strict=True)]
    return " + ".join(f"{share:.0%}" for share in shares)


def _mib(values: tuple[float, ...]) -> str:
    return " + ".join(f"{value:.0f}" for value in values) + " MiB"


if __name__ == "__main__":
    main()
