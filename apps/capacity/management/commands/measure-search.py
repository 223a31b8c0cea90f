"""Measure how search slows down as a corpus grows, on a table of its own; see docs/capacity.md."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, ArgumentTypeError
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from apps.capacity.errors import CapacityError
from apps.capacity.retrieval_planning.measuring import QUESTIONS, SIZES, Order, measure_search
from apps.capacity.retrieval_planning.points import Point
from apps.capacity.retrieval_planning.sizes import MOST_DIMENSIONS
from apps.documents.management.terminal import Progress, table

MOST_PASSAGES = 2_000_000


class Command(BaseCommand):
    help = (
        "Measures search at growing sizes, exactly and through HNSW, with the statements of the "
        "site on a table of its own that is dropped at the end. Nothing of the site is changed. "
        "The planner of retrieval draws its curves through what is measured."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        sizes = ",".join(map(str, SIZES))
        parser.add_argument(
            "--sizes", type=_sizes, default=SIZES, help=f"passages, by commas ({sizes})"
        )
        parser.add_argument(
            "--dimensions", type=_between(1, MOST_DIMENSIONS), default=384, help="(384)"
        )
        parser.add_argument(
            "--questions", type=_between(10, 2000), default=QUESTIONS,
            help=f"asked at each size ({QUESTIONS})",
        )  # fmt: skip
        parser.add_argument(
            "--minutes", type=_between(1, 600), default=5, help="no size is begun beyond that (5)"
        )

    def handle(self, **options: Any) -> None:
        order = Order(
            dimensions=options["dimensions"],
            sizes=options["sizes"],
            questions=options["questions"],
            most_s=options["minutes"] * 60.0,
        )
        bar = Progress(sys.stderr, "Sizes", len(order.sizes))
        try:
            row = measure_search(order, progress=lambda what, done, _: bar.show(done, what))
        except CapacityError as exc:
            raise CommandError(str(exc)) from exc
        except KeyboardInterrupt as exc:
            raise CommandError("Stopped. The sizes that were measured are kept.") from exc
        finally:
            bar.clear()
        self.stdout.write(f"{row.source}, {order.dimensions} dimensions")
        points = [Point.of_json(each) for each in row.points]
        self.stdout.write("\n".join(table(_lines(points), right=range(1, 9))))
        if not row.complete:
            self.stdout.write("The time was over before the last size. Allow more --minutes.")


def _lines(points: list[Point]) -> list[tuple[str, ...]]:
    head = (
        "way", "passages", "searches", "p50 ms", "p95 ms", "CPU ms", "recall@20", "build s", "MiB",
    )  # fmt: skip
    lines: list[tuple[str, ...]] = [head]
    for each in points:
        lines.append(
            (
                "exact" if each.kind == "exact" else f"HNSW, ef_search {each.ef_search}",
                f"{each.passages:,}",
                str(each.searches),
                f"{each.p50_ms:.2f}",
                f"{each.p95_ms:.2f}",
                "-" if each.cpu_ms is None else f"{each.cpu_ms:.2f}",
                "-" if each.recall is None else f"{each.recall:.3f}",
                "-" if each.build_s is None else f"{each.build_s:.1f}",
                "-" if each.size_bytes is None else f"{each.size_bytes / 2**20:.0f}",
            )
        )
    return lines


def _sizes(text: str) -> tuple[int, ...]:
    try:
        sizes = tuple(sorted({int(each) for each in text.split(",")}))
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is not numbers with commas between") from None
    if len(sizes) > 20 or not all(100 <= size <= MOST_PASSAGES for size in sizes):
        raise ArgumentTypeError(f"at most 20 sizes from 100 to {MOST_PASSAGES:,}")
    return sizes


def _between(least: int, most: int) -> Any:
    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if not least <= number <= most:
            raise ArgumentTypeError(f"{text!r} is not a whole number from {least} to {most}")
        return number

    return read
