"""`make bench`: hops, time to first token, indexing throughput and memory, in one run.

QUESTIONS (200), PAIRS (30) and COPIES (6) of the documentation set the counts.
"""

from __future__ import annotations

import os
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from apps.documents.management.terminal import table
from tests.bench.memory import pss_mib
from tests.bench.stand import ANSWER_TOKENS, Stand, running_stack

if TYPE_CHECKING:
    from ragsite.stack.demo.client import Answer
    from tests.bench.first_token import Pair
    from tests.bench.indexing import Indexing

QUESTIONS = int(os.environ.get("QUESTIONS") or 200)
PAIRS = int(os.environ.get("PAIRS") or 30)
COPIES = int(os.environ.get("COPIES") or 6)


def main() -> None:
    # What is measured is how long the hops take, not how well they are avoided.
    os.environ.update(RESPONSE_CACHE_TTL_S="0", EMBEDDING_CACHE_TTL_S="0")
    with running_stack() as stand:
        _run(stand)


def _run(stand: Stand) -> None:
    # After Django has been set up.
    from django.conf import settings

    from ragsite.stack.demo import client, corpus
    from ragsite.stack.demo.people import SLUG, ensure_demo
    from tests.bench import first_token, indexing
    from tests.bench.questions import questions

    load = os.getloadavg()[0]
    print(f"{os.cpu_count()} cores, load {load:.1f} before; answers of {ANSWER_TOKENS} tokens")
    demo = ensure_demo()
    collection = corpus.ensure_collection(demo)
    corpus.bring_up_to_date(demo, collection, settings.BASE_DIR / "docs")
    for _ in corpus.wait_until_ingested(demo, collection):
        pass
    cookie = client.sign_in(stand.site, email=demo.corpus_admin.email, password=demo.password)
    chosen = [str(collection.id)]
    with client.open_chat(stand.site, SLUG, cookie=cookie) as chat:
        client.ask(chat, "What is a collection?", collections=chosen)
        idle = pss_mib(stand)
        series = questions(demo, collection, series="Q")
        answers = [client.ask(chat, next(series), collections=chosen) for _ in range(QUESTIONS)]
        after = pss_mib(stand)
        series = questions(demo, collection, series="P")
        pairs = first_token.measure(chat, demo, collection, series, PAIRS)
    _print_hops(answers)
    _print_first_token(pairs)
    results = [
        indexing.measure(demo, "small documents", indexing.small_documents(COPIES)),
        indexing.measure(demo, "large documents", indexing.large_documents(COPIES)),
    ]
    _print_indexing(results)
    _print_memory(idle, after)


def _print_hops(answers: Sequence[Answer]) -> None:
    work: dict[str, list[float]] = defaultdict(list)
    status: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for answer in answers:
        for hop in answer.hops:
            work[hop["hop"]].append(hop["work_ms"])
            status[hop["hop"]][hop["status"]] += 1
    rows = [("hop", "n", "p50 ms", "p95 ms", "status")]
    rows += [
        (name, str(len(values)), *_quantiles(values), _counts(status[name].items()))
        for name, values in work.items()
    ]
    first = [answer.first_token_ms for answer in answers if answer.first_token_ms is not None]
    rows.append(("first token", str(len(first)), *_quantiles(first), "from question sent"))
    print(f"\nHops of {len(answers)} questions over the websocket, one after another")
    print(*table(rows, right=(1, 2, 3)), sep="\n")


def _print_first_token(pairs: Sequence[Pair]) -> None:
    rows = [("time to first token", "p50 ms", "p95 ms")]
    rows += [
        ("through the site", *_quantiles([pair.site_ms for pair in pairs])),
        ("  of it embed, search, rerank", *_quantiles([pair.before_ms for pair in pairs])),
        ("directly at the engine", *_quantiles([pair.direct_ms for pair in pairs])),
        ("added, without those three", *_quantiles([pair.added_ms for pair in pairs])),
    ]
    tokens = statistics.median(pair.prompt_tokens for pair in pairs)
    print(
        f"\n{len(pairs)} pairs of one prompt each, {tokens:.0f} tokens (median), caches overwritten"
    )
    print(*table(rows, right=(1, 2)), sep="\n")
    within = sum(pair.added_ms <= 40 for pair in pairs)
    print(f"at most 40 ms added in {within} of {len(pairs)} pairs (target: the median)")


def _print_indexing(results: Sequence[Indexing]) -> None:
    rows = [
        ("indexing", "documents", "passages", "to ready", "encoder alone", "ratio", "work by hop")
    ]
    rows += [
        (
            result.name,
            str(result.documents),
            str(result.passages),
            f"{result.passages / result.whole_s:.1f}/s",
            f"{result.passages / result.bare_s:.1f}/s",
            f"{result.ratio:.2f}",
            ", ".join(f"{hop} {spent_s:.1f} s" for hop, spent_s in result.hops_s.items()),
        )
        for result in results
    ]
    print()
    print(*table(rows, right=range(1, 6)), sep="\n")
    print("passages a second from received to ready, and merely embedded; target: ratio 0.8")


def _print_memory(idle: dict[str, float], after: dict[str, float]) -> None:
    rows = [("memory, PSS in MiB", "idle", f"after {QUESTIONS} questions")]
    rows += [(name, f"{idle[name]:.0f}", f"{after[name]:.0f}") for name in idle]
    rows.append(("whole stack", f"{sum(idle.values()):.0f}", f"{sum(after.values()):.0f}"))
    print()
    print(*table(rows, right=(1, 2)), sep="\n")
    print("target: the whole stack idle under 2048 MiB; `make run` adds its supervisor, about 25")


def _quantiles(values: Sequence[float]) -> tuple[str, str]:
    """p50 and p95."""
    if len(values) < 2:
        return (f"{values[0]:.1f}",) * 2 if values else ("-", "-")
    cuts = statistics.quantiles(values, n=20, method="inclusive")
    return f"{cuts[9]:.1f}", f"{cuts[18]:.1f}"


def _counts(counts: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{n} {name}" for name, n in counts)


if __name__ == "__main__":
    main()
