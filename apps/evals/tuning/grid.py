"""What a curve varies: values of the knobs of search, and the settings they make together.

Vector search is measured over the HNSW knobs (`storage`, `m`, `ef_construction`, `ef_search`);
the whole search, where there are labelled questions, over `leg_candidates` and
`rerank_candidates`. The setting in force is always one of those measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, cast

from apps.evals.tuning.errors import GridInvalid
from apps.retrieval.options import SearchOptions, Storage
from apps.retrieval.profiles import BOUNDS, STORAGES

KNOBS = ("ef_search", "storage", "m", "ef_construction", "leg_candidates", "rerank_candidates")
# Values of each knob at most, and of what they make together: a curve ends within minutes.
VALUES_MAX, VARIANTS_MAX, SETTINGS_MAX, DEPTHS_MAX = 12, 6, 48, 16
# Where nothing is asked for. Another HNSW build costs disk and minutes: only what is asked for.
DEFAULTS: dict[str, tuple[int, ...]] = {
    "ef_search": (100, 150, 200, 300, 400, 600, 800),
    "leg_candidates": (50, 100, 200),
    "rerank_candidates": (10, 20, 40),
}


@dataclass(frozen=True, order=True)
class Variant:
    """One way to build the HNSW index."""

    storage: Storage
    m: int
    ef_construction: int

    @property
    def buildable(self) -> bool:
        return self.ef_construction >= 2 * self.m


@dataclass(frozen=True, order=True)
class Setting:
    """One way to search the vectors."""

    variant: Variant
    ef_search: int


@dataclass(frozen=True, order=True)
class Depth:
    """How many candidates each leg gives, and how many of them are ranked again."""

    leg_candidates: int
    rerank_candidates: int


def variant_of(options: SearchOptions) -> Variant:
    return Variant(options.storage, options.m, options.ef_construction)


def parse_grid(words: str) -> dict[str, list[Any]]:
    """`"ef_search=100,200 storage=halfvec,bit"` as values by knob. Raises GridInvalid."""
    found: dict[str, list[Any]] = {}
    for word in words.split():
        knob, equals, values = word.partition("=")
        if not equals or not values:
            raise GridInvalid(f"{word!r} is not of the form knob=value,value.")
        found[knob] = [_value(knob, each) for each in values.split(",") if each]
    return found


def complete_grid(
    asked: Mapping[str, Sequence[Any]], in_force: SearchOptions
) -> dict[str, list[Any]]:
    """Every knob's values, as `TuneRun.grid` keeps them: asked for, else usual, else in force.

    Raises GridInvalid, naming the knob, for a value that cannot be searched with, and where the
    values make more settings than a curve can measure.
    """
    if unknown := sorted(set(asked) - set(KNOBS)):
        raise GridInvalid(f"There is no knob {unknown[0]!r}. There are: {', '.join(KNOBS)}.")
    grid: dict[str, list[Any]] = {}
    for knob in KNOBS:
        mine = getattr(in_force, knob)
        values = {*(asked.get(knob) or DEFAULTS.get(knob, (mine,))), mine}
        grid[knob] = sorted(_checked(knob, value) for value in values)
        if len(values) > VALUES_MAX + 1:
            raise GridInvalid(f"{knob} has at most {VALUES_MAX} values.")
    _check_size("HNSW builds", len(variants(grid, in_force)), VARIANTS_MAX)
    _check_size("settings of vector search", len(settings(grid, in_force)), SETTINGS_MAX)
    _check_size("pairs of candidates", len(depths(grid)), DEPTHS_MAX)
    return grid


def variants(grid: Mapping[str, Sequence[Any]], in_force: SearchOptions) -> list[Variant]:
    """The one in force first: the others are built beside it."""
    mine = variant_of(in_force)
    made = (
        Variant(cast(Storage, storage), m, ef_construction)
        for storage, m, ef_construction in product(
            grid["storage"], grid["m"], grid["ef_construction"]
        )
    )
    return [mine, *sorted(each for each in made if each.buildable and each != mine)]


def settings(grid: Mapping[str, Sequence[Any]], in_force: SearchOptions) -> list[Setting]:
    """Of each variant, the ef_search values that find as many candidates as are asked for."""
    floor = in_force.leg_candidates
    values = [ef_search for ef_search in grid["ef_search"] if ef_search >= floor]
    return [Setting(each, value) for each in variants(grid, in_force) for value in values]


def depths(grid: Mapping[str, Sequence[Any]]) -> list[Depth]:
    return sorted(
        Depth(leg, rerank)
        for leg, rerank in product(grid["leg_candidates"], grid["rerank_candidates"])
    )


def _value(knob: str, word: str) -> int | str:
    if knob == "storage":
        return word
    try:
        return int(word)
    except ValueError as exc:
        raise GridInvalid(f"{knob} takes whole numbers, not {word!r}.") from exc


def _checked(knob: str, value: Any) -> Any:
    if knob == "storage":
        if value not in STORAGES:
            raise GridInvalid(f"storage is one of: {', '.join(STORAGES)}.")
        return value
    bounds = BOUNDS[knob]
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole or not bounds.low <= value <= bounds.high:
        raise GridInvalid(f"{knob} is a whole number from {bounds.low} to {bounds.high}.")
    return value


def _check_size(what: str, count: int, most: int) -> None:
    if count > most:
        raise GridInvalid(
            f"These values make {count} {what}; a curve measures at most {most}. Take some out."
        )
