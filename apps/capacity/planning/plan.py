"""The whole plan."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode

from apps.capacity.planning.choosing import Choice, choose
from apps.capacity.planning.fleet import Fleet, fleet_for
from apps.capacity.planning.gaining import Gain
from apps.capacity.planning.gains import gains_of
from apps.capacity.planning.inputs import PlanInputs
from apps.capacity.planning.ladder import Ladder, ladder_of
from apps.capacity.planning.money import Money, money_for
from apps.capacity.planning.phases import Phases, phases_of
from apps.capacity.planning.serving import Load, serve
from apps.capacity.planning.sizing import Sizing, size


@dataclass(frozen=True, slots=True)
class Plan:
    """The six steps."""

    inputs: PlanInputs
    sizing: Sizing  # 1
    phases: Phases  # 2
    load: Load  # 3
    fleet: Fleet | None  # 3; None: a machine carries nothing within the promises
    gains: list[Gain]  # 4
    ladder: Ladder  # 4
    money: Money | None  # 5
    choice: Choice  # 5
    test_query: str  # 6: what a new load test is filled in with


def make_plan(inputs: PlanInputs) -> Plan:
    """Compute all of it: some tens of milliseconds. PlanInvalid where a figure cannot be right."""
    sizing = size(inputs)
    load = serve(inputs)
    phases = phases_of(inputs, load)
    fleet = fleet_for(inputs, load, sizing.fit)
    money = money_for(inputs, load, fleet) if fleet else None
    return Plan(
        inputs=inputs,
        sizing=sizing,
        phases=phases,
        load=load,
        fleet=fleet,
        gains=gains_of(inputs, load),
        ladder=ladder_of(inputs, load, phases),
        money=money,
        choice=choose(inputs, load, fleet, money),
        test_query=test_query(inputs),
    )


def test_query(inputs: PlanInputs) -> str:
    """The workload and the promises, as the page of a new load test takes them."""
    demand, promises = inputs.demand, inputs.promises
    values: dict[str, float | None] = {
        "prompt_mean": demand.prompt.mean,
        "prompt_stdev": demand.prompt.stdev,
        "output_mean": demand.output.mean,
        "output_stdev": demand.output.stdev,
        "ttft_ms": promises.ttft_ms,
        "tpot_ms": promises.tpot_ms,
        "e2e_ms": promises.e2e_ms,
    }
    return urlencode({name: round(value) for name, value in values.items() if value is not None})
