"""Why the figures of a test may not be what they seem."""

from __future__ import annotations

from collections.abc import Iterator

from apps.capacity.showing.rows import CACHE_WARNING, Whole
from apps.capacity.showing.words import figure, load_words, milliseconds

_ENDED = {
    "out_of_time": "the time that the whole test was given ran out",
    "out_of_requests": "the requests that the whole test was given were sent",
}
_RATIO_MAX = 0.05  # reported tokens may differ from counted ones by this much


def warnings_of(whole: Whole) -> list[str]:
    """Each in a sentence; none where nothing speaks against the figures."""
    return [
        *_unreadable(whole),
        *_client(whole),
        *_caches(whole),
        *_failures(whole),
        *_tokens(whole),
        *_stopped(whole),
    ]


def _unreadable(whole: Whole) -> Iterator[str]:
    if whole.unreadable:
        yield (
            f"{whole.unreadable} of its points cannot be read and {_are(whole.unreadable)} left "
            "out: they were kept by another version."
        )


def _client(whole: Whole) -> Iterator[str]:
    late = [point for point in whole.points if not point.figures.client.is_trustworthy]
    if late:
        worst = max(late, key=lambda point: point.figures.client.lag_p99_ms)
        client = worst.figures.client
        yield (
            f"The load generator was late or busy at {len(late)} of {len(whole.points)} points "
            f"(at worst its timers fired {milliseconds(client.lag_p99_ms)} late at p99 and it "
            f"used {figure(100 * client.cpu_share)} % of a core): their times are partly its own."
        )
    if whole.self_test is not None and not whole.self_test.client.is_trustworthy:
        yield (
            "Against a server that answers at once, the load generator was late: this machine is "
            "too busy to measure on."
        )


def _caches(whole: Whole) -> Iterator[str]:
    flattered = [point for point in whole.points if point.is_flattered]
    if flattered and not whole.wants_prefixes:
        worst = max(flattered, key=lambda point: point.prefix_share or 0.0)
        tokens = worst.figures.cached_tokens / max(worst.figures.complete, 1)
        each = f" (about {figure(tokens)} of each prompt)" if tokens else ""
        yield (
            f"The server took up to {figure(100 * (worst.prefix_share or 0.0))} % of the prompts’ "
            f"tokens from its prefix cache{each}, more than "
            f"{figure(100 * CACHE_WARNING)} %, although no two prompts begin alike: a part was not "
            "computed, and first tokens look faster than they are. A chat template that all "
            "prompts begin with is some tokens long; more than that is something else."
        )


def _failures(whole: Whole) -> Iterator[str]:
    for row in whole.rows:
        if row.requests and not row.complete:
            code = f", most with {row.errors[0][0]}" if row.errors else ""
            at = load_words(row.load, whole.arrivals)
            yield f"At {at} not one of {row.requests:,} requests was complete{code}."


def _tokens(whole: Whole) -> Iterator[str]:
    silent = sum(p.figures.complete - p.figures.tokens_reported for p in whole.points)
    if silent > 0:
        yield (
            f"For {silent:,} complete requests the server reported no tokens: pieces of text were "
            "counted instead, and a piece may hold several tokens."
        )
    checks = [p.figures.cross_check for p in whole.points if p.figures.cross_check]
    off = [
        check.output_ratio
        for check in checks
        if check.output_ratio is not None and abs(check.output_ratio - 1) > _RATIO_MAX
    ]
    if off:
        worst = max(off, key=lambda ratio: abs(ratio - 1))
        yield (
            "The server's tokenizer counts other output tokens than the server reported: at worst "
            f"{figure(worst)} were reported for each that was counted."
        )


def _stopped(whole: Whole) -> Iterator[str]:
    if whole.ended in _ENDED:
        yield f"Not all of the plan was done: {_ENDED[whole.ended]}."
    cut = sum(row.is_stopped for row in whole.rows)
    if cut:
        loads = "loads were" if cut > 1 else "load was"
        yield f"{cut} {loads} stopped early: fewer requests than meant."


def _are(count: int) -> str:
    return "are" if count > 1 else "is"
