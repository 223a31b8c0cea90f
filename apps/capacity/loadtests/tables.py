"""Load tests as lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from apps.capacity.loadtests.conditions import COUNTS, WORDS
from apps.capacity.showing.comparisons import compare_wholes
from apps.capacity.showing.rows import Row, Whole
from apps.capacity.showing.spreads import Spread
from apps.capacity.showing.words import figure, knee_words
from apps.documents.management.terminal import table

_SHORT_ID = 8


def test_lines(whole: Whole) -> list[str]:
    """One test: its conditions, its points by load, its knee, and what to doubt."""
    test = whole.test
    lines = [f"{test.name}  ({test.state}{f', {whole.ended}' if whole.ended else ''})", ""]
    lines += [f"{name.replace('_', ' ')}: {value}" for name, value in _conditions(whole)]
    lines += ["", *table(_rows(whole), right=range(12))]
    lines += [
        "",
        "Means over the repeats. TTFT and end-to-end begin when a request was meant to be",
    ]
    lines += ["sent; TPOT = (last - first token) / (n - 1). Failed requests are in every share."]
    if words := knee_words(whole):
        lines += ["", words]
    return [*lines, *_doubts(whole), "", f"id {test.id}"]


def listed_lines(wholes: Sequence[Whole]) -> list[str]:
    """The tests that there are, the newest first."""
    if not wholes:
        return ["There is no load test yet. Start one: loadtest --upstream NAME --rates 0.5,1,2"]
    rows = [("id", "begun", "state", "knee", "name")]
    for whole in wholes:
        begun = f"{whole.test.created_at:%Y-%m-%d %H:%M}"
        row = (_short(whole), begun, whole.test.state, _knee(whole), whole.test.name)
        rows.append(row)
    return table(rows)


def comparison_lines(wholes: Sequence[Whole]) -> list[str]:
    """Two to four tests side by side."""
    compared = compare_wholes(wholes)
    head = ("", *(letter for letter, _ in compared.named))
    lines = [f"{letter}: {w.test.name} ({_short(w)})" for letter, w in compared.named]
    differing = [(fact.name, *fact.values) for fact in compared.facts]
    if differing:
        lines += ["", "What differs:", *table([head, *differing])]
    else:
        lines += ["", "Nothing that is known differs between them."]
    lines += ["", *compared.incomparable]
    figures = [
        (f"{each.name} at {each.load:g}", *map(_spread, each.spreads), each.verdict)
        for each in compared.figures
    ]
    knees = ("Knee", *(_knee(whole) for _, whole in compared.named), "")
    lines += [*table([(*head, ""), knees, *figures]), ""]
    return [*lines, "95 % intervals in brackets; times in milliseconds.", compared.knee_verdict]


def _conditions(whole: Whole) -> Iterator[tuple[str, object]]:
    conditions = whole.test.conditions if isinstance(whole.test.conditions, dict) else {}
    sources = conditions.get("sources")
    for name in (*WORDS, *COUNTS):
        if conditions.get(name) not in (None, ""):
            source = sources.get(name, "") if isinstance(sources, dict) else ""
            yield name, f"{conditions[name]}{f'  ({source})' if source else ''}"


def _rows(whole: Whole) -> list[tuple[str, ...]]:
    head = (
        "load", "n", "failed", "TTFT p50", "p95", "p99", "TPOT p50", "p95", "e2e p95",
        "tokens/s", "good %", "good/s",
    )  # fmt: skip
    return [head, *(_row(row) for row in whole.rows)]


def _row(row: Row) -> tuple[str, ...]:
    times = [
        _mean(row.time(name, f"p{percent}_ms"))
        for name, percents in (("ttft", (50, 95, 99)), ("tpot", (50, 95)), ("e2e", (95,)))
        for percent in percents
    ]
    good = "-" if row.good_share is None else f"{100 * row.good_share:.1f}"
    return (
        f"{row.load:g}",
        str(row.requests),
        str(row.failed),
        *times,
        _mean(row.rates["output_per_s"]),
        good,
        _mean(row.rates["goodput_per_s"]),
    )


def _doubts(whole: Whole) -> list[str]:
    lines = []
    if any(not row.is_trustworthy for row in whole.rows):
        loads = ", ".join(f"{row.load:g}" for row in whole.rows if not row.is_trustworthy)
        lines.append(f"The load generator was late or busy at {loads}: times are partly its own.")
    if any(row.is_flattered for row in whole.rows) and not whole.wants_prefixes:
        lines.append("The server took prompts from its cache although they shared no beginning.")
    if whole.self_test is not None and whole.self_test.ttft is not None:
        p99 = figure(whole.self_test.ttft.p99_ms)
        lines.append(f"Self-test: a server that answers at once took {p99} ms at p99.")
    return ["", *lines] if lines else []


def _mean(spread: Spread | None) -> str:
    return "-" if spread is None else figure(spread.value)


def _spread(spread: Spread | None) -> str:
    return "-" if spread is None else _between(spread.value, spread.low, spread.high)


def _knee(whole: Whole) -> str:
    knee = whole.knee
    return _between(knee.load, knee.load_low, knee.load_high) if knee and knee.found else "-"


def _short(whole: Whole) -> str:
    return str(whole.test.id)[:_SHORT_ID]


def _between(value: float | None, low: float | None, high: float | None) -> str:
    if value is None:
        return "-"
    if low is None or high is None or low == high:
        return figure(value)
    return f"{figure(value)} [{figure(low)}-{figure(high)}]"
