"""Sums, averages and shares are said as far as they are known."""

from __future__ import annotations

import pytest

from apps.gateway.ledger.selectors import Sums
from apps.ops.templatetags.costs import cost, money, percent, times_100, unit_cost

KNOWN = Sums(calls=2, cost_micros=500)
IN_PART = Sums(calls=2, cost_micros=500, unpriced_calls=1)
UNKNOWN = Sums(calls=2, unpriced_calls=2)


@pytest.mark.parametrize(
    ("sums", "words"),
    [
        (KNOWN, "$0.0005"),
        (IN_PART, "at least $0.0005"),
        (UNKNOWN, "not known"),
        (Sums(calls=3), "$0.00"),
    ],
)
def test_a_cost_is_said_as_far_as_it_is_known(sums: Sums, words: str) -> None:
    assert cost(sums) == words


@pytest.mark.parametrize(
    ("micros", "sums", "words"),
    [
        (None, KNOWN, "–"),
        (None, UNKNOWN, "–"),
        (250.0, KNOWN, "$0.00025"),
        (250.0, IN_PART, "at least $0.00025"),
        (0.0, UNKNOWN, "not known"),
        (0.0, Sums(calls=3), "$0.00"),
    ],
)
def test_an_average_is_too(micros: float | None, sums: Sums, words: str) -> None:
    assert unit_cost(micros, sums) == words


@pytest.mark.parametrize(
    ("share", "words"),
    [
        *[(None, "–"), (0.0, "0 %"), (0.001, "< 1 %"), (0.01, "1 %"), (0.294, "29 %")],
        *[(0.996, "> 99 %"), (1.0, "100 %"), (2.5, "250 %")],
    ],
)
def test_a_share_is_not_rounded_to_none_or_all(share: float | None, words: str) -> None:
    assert percent(share) == words.replace(" %", "\N{NO-BREAK SPACE}%")


def test_bars_and_dashes() -> None:
    assert [times_100(share) for share in (None, 0.0, 0.12345, 1.0)] == [0.0, 0.0, 12.35, 100.0]
    assert [money(None), money(0)] == ["–", "$0.00"]
