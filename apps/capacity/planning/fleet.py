"""Step 3, the rest: machines for the peak, and what is in flight on them then."""

from __future__ import annotations

import math
from dataclasses import dataclass

from apps.capacity.arithmetic.derived import Derived, figure, given, quantity
from apps.capacity.arithmetic.fitting import Fit
from apps.capacity.planning.inputs import PlanInputs
from apps.capacity.planning.serving import Load


@dataclass(frozen=True, slots=True)
class Fleet:
    """As many machines as the peak takes."""

    machines: Derived
    gpus: Derived
    busy: Derived  # % of the time, at the peak
    in_flight: Derived  # requests at a time, at the peak
    tokens_in_flight: Derived
    cache_used: Derived  # % of the cached tokens of all machines
    mean_busy: Derived  # % of the time, of a mean day


def fleet_for(inputs: PlanInputs, load: Load, fit: Fit) -> Fleet | None:
    """None where a machine carries nothing within the promises."""
    if not load.carries:
        return None
    demand, per_s = inputs.demand, load.per_s.value
    count = max(1, math.ceil(demand.peak_per_s / per_s - 1e-9))
    at_once = _in_flight(inputs, load)
    tokens = _tokens_in_flight(inputs, at_once)
    room = fit.cached_tokens.value * count
    busy = demand.peak_per_s / (count * per_s) * inputs.assumptions.utilisation
    mean_per_s = demand.a_day / 86_400
    mean_busy = mean_per_s / (count * per_s) * inputs.assumptions.utilisation
    return Fleet(
        machines=Derived(
            count,
            "machines" if count > 1 else "machine",
            "peak ÷ requests a second of a machine, rounded up = "
            f"{figure(demand.peak_per_s)} ÷ {figure(per_s)}",
            (
                given("requests a second at the peak", demand.peak_per_s, note=demand.origin),
                given("of one machine", load.per_s.text, note=load.per_s.formula),
            ),
            "A spare one for when a machine fails or is updated is not counted.",
            "at least",
        ),
        gpus=Derived(
            count * inputs.gpus,
            "GPUs" if count * inputs.gpus > 1 else "GPU",
            f"machines × GPUs of a machine = {count} × {inputs.gpus}",
            (given("machines", count), given("GPUs of a machine", inputs.gpus)),
            "",
            "at least",
        ),
        busy=Derived(
            100 * busy,
            "%",
            "peak × time of a machine that a request takes ÷ machines = "
            f"{figure(demand.peak_per_s)} × {inputs.assumptions.utilisation:.0%} ÷ "
            f"({count} × {figure(per_s)})",
            (given("requests a second at the peak", demand.peak_per_s, note=demand.origin),),
            f"Kept at {inputs.assumptions.utilisation:.0%} or below: nearer to 100 % waiting "
            "grows without bound.",
        ),
        in_flight=at_once,
        tokens_in_flight=tokens,
        cache_used=Derived(
            100 * tokens.value / room,
            "%",
            f"tokens in flight ÷ tokens that all machines cache = {figure(round(tokens.value))} ÷ "
            f"({count} × {figure(fit.cached_tokens.value)})",
            (
                given("tokens in flight", tokens.text, note=tokens.formula),
                given("tokens that one machine caches", fit.cached_tokens.text),
            ),
            "What is left serves bursts, and prefixes that are kept for later.",
        ),
        mean_busy=Derived(
            100 * mean_busy,
            "%",
            "requests of a mean day ÷ 86,400 s × utilisation ÷ (machines × requests a second) = "
            f"{figure(demand.a_day)} ÷ 86,400 × {inputs.assumptions.utilisation:.0%} ÷ "
            f"({count} × {figure(per_s)})",
            (given("requests of a mean day", demand.a_day, note=demand.origin),),
            "Own GPUs cost as much when they are idle.",
        ),
    )


def _in_flight(inputs: PlanInputs, load: Load) -> Derived:
    """Little's law: how many are there = how many come × how long each stays."""
    demand = inputs.demand
    stay_s = (
        load.prefill_ms.value + load.step_ms.value + demand.output.mean * load.tpot_ms.value
    ) / 1000
    return Derived(
        demand.peak_per_s * stay_s,
        "requests",
        "requests a second × seconds that one takes (Little's law) = "
        f"{figure(demand.peak_per_s)} × {figure(stay_s)} s",
        (
            given("requests a second at the peak", demand.peak_per_s, note=demand.origin),
            given(
                "seconds that a mean request takes",
                stay_s,
                "s",
                "prefill + one step + mean output × time a token = "
                f"{quantity(load.prefill_ms.value, 'ms')} + "
                f"{quantity(load.step_ms.value, 'ms')} + {figure(demand.output.mean)} × "
                f"{quantity(load.tpot_ms.value, 'ms')}",
            ),
        ),
        "Without the time in a queue.",
        "at least",
    )


def _tokens_in_flight(inputs: PlanInputs, at_once: Derived) -> Derived:
    demand = inputs.demand
    return Derived(
        at_once.value * demand.held_tokens,
        "tokens",
        "requests in flight × (mean prompt + half the mean output) = "
        f"{figure(at_once.value)} × ({figure(demand.prompt.mean)} + "
        f"{figure(demand.output.mean)} ÷ 2)",
        (
            given("requests in flight", at_once.text, note=at_once.formula),
            given("mean prompt", demand.prompt.mean, "tokens", demand.origin),
            given("mean output", demand.output.mean, "tokens", demand.origin),
        ),
        "An answer grows while it is written: on average half of it is there.",
        "at least",
    )
