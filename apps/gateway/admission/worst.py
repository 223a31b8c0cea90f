"""The most that a request may use."""

from __future__ import annotations

from dataclasses import dataclass

from django.utils.translation import gettext

from apps.gateway.errors import BadRequest

# Far above what any model takes or any call costs, far below what a bigint holds: sums of these
# cannot overflow.
MOST_TOKENS = 10**12
MOST_MICROS = 10**15


@dataclass(frozen=True)
class WorstCase:
    """The most that a request may use, over all its calls."""

    micros: int
    tokens: int  # that language models read and write

    def check(self) -> None:
        """Raises ValueError for what no request can use, BadRequest for what none may."""
        if self.micros < 0 or self.tokens < 0:
            raise ValueError(f"a request cannot use less than nothing: {self}")
        if self.micros > MOST_MICROS or self.tokens > MOST_TOKENS:
            raise BadRequest(
                gettext("The request asks for more than can be counted. Ask for fewer tokens."),
                param="max_tokens",
            )
