"""Step 2, which phase is bound by what: reading prompts, writing answers, and how batches help."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from apps.capacity.arithmetic.decoding import Decode, decode
from apps.capacity.arithmetic.prefilling import Prefill, prefill
from apps.capacity.planning.inputs import PlanInputs
from apps.capacity.planning.serving import Load, new_tokens
from apps.capacity.planning.sizing import deployment_of

_MOST_SHOWN = 1024


@dataclass(frozen=True, slots=True)
class BatchRow:
    """The ceiling of decode at a batch of each copy."""

    batch: int
    found: Decode
    fits: bool  # so many requests of the mean size have room in the KV cache
    is_planned: bool  # the batch that the plan computes with


@dataclass(frozen=True, slots=True)
class Phases:
    """Bounds: an efficiency is in none of them, but for the prefill's."""

    prefill: Prefill  # of a mean prompt, at the utilisation assumed
    alone: Decode  # one sequence
    planned: Decode  # at the plan's batch
    rows: list[BatchRow]


def phases_of(inputs: PlanInputs, load: Load) -> Phases:
    """Both phases at the mean lengths of the demand."""
    deployment, demand = deployment_of(inputs), inputs.demand
    context = round(demand.held_tokens)

    def at(batch: int) -> Decode:
        return decode(deployment, batch=batch, context_tokens=context)

    planned = max(1, load.batch)
    return Phases(
        prefill=prefill(
            deployment,
            tokens=new_tokens(demand.prompt.mean, demand.prefix_reuse),
            utilisation=inputs.assumptions.prefill_efficiency,
        ),
        alone=at(1),
        planned=at(planned),
        rows=[
            BatchRow(batch, at(batch), batch <= load.memory_batch, batch == load.batch)
            for batch in _batches(planned)
        ],
    )


def _batches(planned: int) -> Sequence[int]:
    """1, 2, 4, … to well past the planned one, and that itself."""
    top = min(_MOST_SHOWN, max(32, planned * 4))
    doubled = {2**n for n in range(math.floor(math.log2(top)) + 1)}
    return sorted(doubled | ({planned} if planned <= _MOST_SHOWN else set()))
