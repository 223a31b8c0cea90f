"""What a load test says, in sentences; each holds what it rests on."""

from __future__ import annotations

import math
from dataclasses import dataclass

from apps.capacity.load.types import Promises, Target, Workload
from apps.capacity.loadtests.plan import Plan
from apps.capacity.models import LoadTest
from apps.capacity.showing.rows import Row, Whole

UNITS = {
    "poisson": ("request a second", "requests a second"),
    "constant": ("request a second", "requests a second"),
    "closed": ("request at a time", "requests at a time"),
    "trace": ("times the trace's own speed", "times the trace's own speed"),
}
ARRIVALS = {
    "poisson": "at random (Poisson), whatever becomes of those before",
    "constant": "evenly, whatever becomes of those before",
    "closed": "each when one before it has ended (closed loop)",
    "trace": "as in the trace",
}
PROMISE_NAMES = {
    "ttft": "the first token",
    "tpot": "the tokens after the first",
    "e2e": "the whole answer",
}
_MESSAGE_MAX = 500
_PERCENTILES = ((0.5, "p50_ms", "p50"), (0.95, "p95_ms", "p95"), (1.0, "p99_ms", "p99"))


@dataclass(frozen=True)
class Broken:
    """The promise that fails first above the knee."""

    name: str
    words: str


def figure(value: float) -> str:
    """Three significant digits, without an exponent: "2.61", "0.0312", "1,240"."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else "–"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    words = f"{value:,.{min(digits, 6)}f}"
    return words.rstrip("0").rstrip(".") if "." in words else words


def load_words(load: float, arrivals: str) -> str:
    """ "2.6 requests a second", "1 request at a time"."""
    one, many = UNITS.get(arrivals, UNITS["poisson"])
    return f"{figure(load)} {one if load == 1 else many}"


def milliseconds(value: float) -> str:
    return f"{figure(value)} ms" if value < 1000 else f"{figure(value / 1000)} s"


def promise_words(promises: Promises) -> str:
    """ "at least 95 % of requests have their first token within 600 ms and …"; "" of none."""
    parts = []
    if promises.ttft_ms:
        parts.append(f"their first token within {milliseconds(promises.ttft_ms)}")
    if promises.tpot_ms:
        parts.append(
            f"at most {milliseconds(promises.tpot_ms)} for each token after it, on average"
        )
    if promises.e2e_ms:
        parts.append(f"the whole answer within {milliseconds(promises.e2e_ms)}")
    if not parts:
        return ""
    *most, last = parts
    listed = f"{', '.join(most)} and {last}" if most else last
    return f"at least {figure(100 * promises.share)} % of all requests have {listed}"


def knee_words(whole: Whole) -> str:
    """The knee in a sentence, or why there is none; "" while a search may still find it."""
    plan, knee = whole.plan, whole.knee
    if plan is None:
        return "The plan of this test cannot be read."
    if "knee" not in plan.mode:
        return "This was a sweep: no knee was looked for."
    if knee is None:
        return ""
    if knee.found and knee.load is not None:
        return _found(whole)
    return _not_found(whole, knee.reason)


def _found(whole: Whole) -> str:
    plan, knee = whole.plan, whole.knee
    if plan is None or knee is None or knee.load is None:
        return ""
    words = f"Up to about {load_words(knee.load, plan.arrivals)}"
    if knee.load_low is not None and knee.load_high is not None:
        words += f" (95 % interval {figure(knee.load_low)} to {figure(knee.load_high)})"
    words += f", {promise_words(plan.promises)}."
    if knee.low is not None:
        words += f" Kept at {figure(knee.low)}"
        words += f", broken at {figure(knee.high)}." if knee.high is not None else "."
    return words


def _not_found(whole: Whole, reason: str) -> str:
    plan = whole.plan
    if plan is None:
        return ""
    low, high = min(plan.loads), max(plan.loads)
    if whole.rows:
        low, high = min(low, whole.rows[0].load), max(high, whole.rows[-1].load)
    known = {
        "never_kept": "No knee: not even the lowest load, "
        f"{load_words(low, plan.arrivals)}, kept the promises. "
        "Promise less, or begin lower.",
        "always_kept": "No knee: every load up to "
        f"{load_words(high, plan.arrivals)} kept the promises, so it lies somewhere above that. "
        "Run it again with higher loads.",
        "stopped": "No knee: the test was stopped before the search had ended.",
        "out_of_requests": "No knee: the test had sent all the requests it was given before the "
        "search had ended. Give it more, or loads closer to where you expect it.",
        "out_of_time": "No knee: the test's time ran out before the search had ended. "
        "Give it more, or loads closer to where you expect it.",
        "untrustworthy": "No knee: the load generator itself was late or busy, so the times are "
        "partly its own. Run it where the machine has a core to spare.",
    }
    return known.get(reason, f"No knee was found ({reason or 'no reason was kept'}).")


def broken_first(whole: Whole) -> Broken | None:
    """What fails first: at the lowest load that broke the promises, the promise that is furthest
    beyond its limit at the percentile nearest to the promised share."""
    plan = whole.plan
    if plan is None:
        return None
    row = _breaking(whole)
    return None if row is None else _furthest(row, plan)


def _breaking(whole: Whole) -> Row | None:
    at = whole.row_at(whole.knee.high) if whole.knee else None
    return at or next((row for row in whole.rows if row.kept is False), None)


def _furthest(row: Row, plan: Plan) -> Broken:
    promises, at = plan.promises, load_words(row.load, plan.arrivals)
    if (row.failed_share or 0.0) > 1 - promises.share:
        code = row.errors[0][0] if row.errors else "no code"
        words = f"At {at}, {row.failed} of {row.requests} requests fail, most with {code}."
        return Broken("failures", words)
    _, field, called = next(p for p in _PERCENTILES if promises.share <= p[0])
    beyond = []
    for name in PROMISE_NAMES:
        limit, took = getattr(promises, f"{name}_ms"), row.time(name, field)
        if limit and took is not None:
            beyond.append((took.value / limit, name, limit, took.value))
    if not beyond or max(beyond)[0] <= 1:
        return Broken("together", f"At {at} no promise breaks alone: together they do.")
    _, name, limit, took_ms = max(beyond)
    words = (
        f"What breaks first is the promise about {PROMISE_NAMES[name]}: at {at} its {called} is "
        f"{milliseconds(took_ms)}, promised are {milliseconds(limit)}."
    )
    return Broken(name, words)


def target_words(target: Target | None) -> str:
    """Where a test's requests go."""
    if target is None:
        return "a target that cannot be read"
    if target.via == "gateway":
        return f"{target.model or 'the default model'} through the gateway"
    where = target.upstream or target.url or target.kind
    return f"{target.model} at {where}" if target.model else where


def workload_words(workload: Workload | None) -> str:
    """What is asked, in words."""
    if workload is None:
        return "a workload that cannot be read"
    if workload.kind == "synthetic" and workload.prompt and workload.output:
        prompt, output = workload.prompt, workload.output
        words = (
            f"made-up prompts of {_about(prompt.mean, prompt.stdev)} tokens, "
            f"answers of {_about(output.mean, output.stdev)}"
        )
    else:
        kind = "a replayed trace" if workload.kind == "trace" else "lengths drawn from real ones"
        words = f"{kind}, {len(workload.rows):,} requests"
        words += f" ({workload.origin})" if workload.origin else ""
    if workload.shared_prefix_tokens:
        return f"{words}; all begin with the same {workload.shared_prefix_tokens:,} tokens"
    return f"{words}; no two begin alike"


def _about(mean: int, stdev: float) -> str:
    return f"{mean:,} ± {stdev:,.0f}" if stdev else f"{mean:,}"


def failure_of(test: LoadTest) -> str:
    """What failed, in words; "" where that was not kept."""
    message = test.result.get("message") if isinstance(test.result, dict) else None
    return message[:_MESSAGE_MAX] if isinstance(message, str) else ""
