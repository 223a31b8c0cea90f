"""What a page of costs was asked for, checked: which test, which prices, which stretch."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from typing import Literal

from apps.capacity.economics.measured import Measured
from apps.capacity.models import ListPrice

SHARES = (Fraction(1), Fraction(2, 5), Fraction(1, 4))  # of the knee that is used
BUSY = Fraction(2, 5)  # planned with, where nobody says otherwise

Kind = Literal["measured", "booked", "list", "typed", "computed", "assumed"]


@dataclass(frozen=True)
class Hour:
    """What an hour of the measured machine costs, all its GPUs together."""

    micros: Fraction
    kind: Kind
    words: str  # where it is from
    source: str = ""
    as_of: date | None = None
    warning: str = ""  # why it may not be the price of the machine that was measured


@dataclass(frozen=True)
class Choices:
    """`measured` has the throughput; the rest is what it is held against."""

    measured: Measured
    hour: Hour
    api: ListPrice | None = None
    endpoint: ListPrice | None = None
    days: int = 7
    mix_of: Literal["test", "ledger"] = "test"
    busy: Fraction = BUSY
    shared_micros: Fraction = Fraction(0)  # a month, however many machines
    marginal_micros_per_mtok: Fraction = Fraction(0)
    volume_tokens: Fraction | None = None  # a month; None: as the ledger goes on
