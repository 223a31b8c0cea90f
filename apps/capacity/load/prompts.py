"""Made-up prompts of wanted lengths, from a fixed list of words that most vocabularies know whole.

Each prompt begins with words of its own, so that no server's prefix cache can know it. They differ
from run to run even with the same seed: a server's cache may still hold those of the last run.
"""

from __future__ import annotations

import random
import secrets
from dataclasses import dataclass
from typing import NamedTuple

from apps.capacity.load.types import Workload

_WORDS = (
    "time year people way day man thing woman life child world school state family student group "
    "country problem hand part place case week company system program question work government "
    "number night point home water room mother area money story fact month lot right study book "
    "eye job word business issue side kind head house service friend father power hour game line "
    "end member law car city community name president team minute idea body information back "
    "parent face others level office door health person art war history party result change "
    "morning reason research girl guy moment air teacher force education foot boy age policy "
    "music market sense nation plan college interest death experience effect use class control "
    "field development role effort rate heart drug show leader light voice wife police mind"
)
WORDS = _WORDS.split()
# 12 words out of 128 and more: two of a million prompts begin alike with a chance below 1e-13.
OWN_WORDS = 12
# At the end, since what begins alike would be cached: models that may end their answers go on.
_ASK = "\nGo on with this list of words and do not stop:"
_RING = 1 << 16


@dataclass(frozen=True)
class Calibration:
    """A prompt of w words is `fixed + per_word * w` tokens: chat template and question are fixed.

    The default is what a vocabulary that knows the words makes of ChatML.
    """

    per_word: float = 1.0
    fixed: float = 20.0

    def words(self, tokens: int) -> int:
        """How many words come nearest to `tokens`; at least one."""
        return max(1, round((tokens - self.fixed) / self.per_word))

    @classmethod
    def of(cls, short: tuple[int, int], long: tuple[int, int]) -> Calibration:
        """From what the server reported of two prompts, each (words, tokens)."""
        per_word = (long[1] - short[1]) / (long[0] - short[0])
        if not 0.2 <= per_word <= 20:  # it does not count this prompt
            return cls()
        return cls(per_word, short[1] - per_word * short[0])


class Prompt(NamedTuple):
    """Two turns. The first is the system's: else a template may put one in front that is cached."""

    opening: str
    rest: str

    @property
    def text(self) -> str:
        return f"{self.opening} {self.rest}"


class Prompts:
    """Prompts that nobody has seen; making one takes some microseconds."""

    def __init__(self, workload: Workload, calibration: Calibration, *, salt: str = "") -> None:
        self._calibration = calibration
        self._rng = random.Random(salt or secrets.token_hex(16))  # noqa: S311
        ring = self._rng.choices(WORDS, k=_RING)
        self._ring = " ".join(ring)
        self._starts = [0]
        for word in ring:
            self._starts.append(self._starts[-1] + len(word) + 1)
        self._prefix_words = round(workload.shared_prefix_tokens / calibration.per_word)
        shared = random.Random(f"prefix/{workload.seed}")  # noqa: S311
        self._prefix = " ".join(shared.choices(WORDS, k=self._prefix_words))

    def of_tokens(self, tokens: int) -> Prompt:
        """A prompt that the server is expected to count as `tokens`, its template included."""
        words = self._calibration.words(tokens)
        if not self._prefix:
            return self.of_words(words)
        own = self.of_words(words - self._prefix_words)
        return Prompt(self._prefix, own.text)

    def of_words(self, words: int) -> Prompt:
        """Its own words first; at least one."""
        own = " ".join(self._rng.choices(WORDS, k=min(max(words, 1), OWN_WORDS)))
        return Prompt(own, self._slice(words - OWN_WORDS) + _ASK)

    def _slice(self, words: int) -> str:
        whole, part = divmod(max(words, 0), _RING)
        begin = self._rng.randrange(_RING - part)
        end = self._starts[begin + part] - 1 if part else self._starts[begin]
        return " ".join([self._ring] * whole + [self._ring[self._starts[begin] : end]]).strip()
