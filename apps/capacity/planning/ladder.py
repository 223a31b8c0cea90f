"""The ladder: from the bottleneck to the rung of precision that could ease it.

Memory full: a smaller KV cache. Decode bound by bandwidth: smaller weights. Prefill bound by
multiplying: a format that the chip multiplies faster. Each rung is computed as a whole plan and
goes through the gate of quality before it may serve anybody.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from apps.capacity.arithmetic.derived import Derived, figure, given
from apps.capacity.arithmetic.shapes import FP8, INT4, INT8, KV8, KvPrecision, Precision
from apps.capacity.planning.inputs import PlanInputs
from apps.capacity.planning.phases import Phases
from apps.capacity.planning.saying import say
from apps.capacity.planning.serving import Load, serve


@dataclass(frozen=True, slots=True)
class Rung:
    """One step of the ladder."""

    bottleneck: str  # in plain words
    is_here: bool  # whether it is what limits this plan
    advice: str
    gain: Derived | None  # requests a second of it over the plan's; None: cannot be had
    why_not: str  # where it cannot be had, or is there already
    change: dict[str, str]  # of the page's address; empty: none
    reverses: str


@dataclass(frozen=True, slots=True)
class Ladder:
    bottleneck: str  # the one, in a sentence
    rungs: list[Rung]
    larger: str  # a rung other than the bottleneck's that would gain more; "" there is none


def ladder_of(inputs: PlanInputs, load: Load, phases: Phases) -> Ladder:
    """The three rungs, with the one to try first marked."""
    here = bottleneck_of(load, phases)
    rungs = [
        _kv_rung(inputs, load, is_here=here in ("memory", "nothing fits")),
        _weights_rung(inputs, load, is_here=here == "bandwidth"),
        _compute_rung(inputs, load, is_here=here == "compute"),
    ]
    return Ladder(_WORDS[here], rungs, _larger(rungs))


def _larger(rungs: list[Rung]) -> str:
    """One change may ease two limits at once: then the bottleneck alone does not tell the best."""
    here = next((rung for rung in rungs if rung.is_here), None)
    if here is None:
        return ""
    gained = here.gain.value if here.gain else 0.0
    others = [rung for rung in rungs if rung.gain and rung.gain.value > max(gained, 1.0) * 1.05]
    best = max(others, key=lambda rung: rung.gain.value if rung.gain else 0.0, default=None)
    if best is None or best.gain is None:
        return ""
    return f"By computation another rung gains more: {best.advice} ({say(best.gain)})"


_WORDS = {
    "nothing fits": "Memory: the model does not fit.",
    "memory": "Memory is full before a promise breaks: the KV cache limits how many are served.",
    "bandwidth": "Writing answers is limited by how fast memory is read.",
    "compute": "Multiplying is the limit: reading prompts takes most of the time, or is too slow "
    "for the promise.",
    "none": "Neither memory nor a promise limits this plan, only the engine's setting: fewer bits "
    "gain little here.",
}


def bottleneck_of(load: Load, phases: Phases) -> str:
    """What to ease first: memory, bandwidth, compute, none; or that nothing fits."""
    if load.memory_batch < 1:
        return "nothing fits"
    if load.limit == "ttft":
        return "compute" if phases.prefill.bound == "compute" else "bandwidth"
    if load.prefill_share.value > 50 and phases.prefill.bound == "compute":
        return "compute"
    if load.limit == "memory":
        return "memory"
    if load.limit in ("tpot", "e2e"):
        return "bandwidth" if phases.planned.bound == "memory" else "compute"
    return "none"


def _kv_rung(inputs: PlanInputs, load: Load, *, is_here: bool) -> Rung:
    title = "Memory is full (few sessions, waiting although GPUs are not busy)"
    if inputs.kv.bits <= KV8.bits:
        return Rung(
            title,
            is_here,
            "Keep KV in 8 bits",
            None,
            "It is kept so already.",
            {},
            "More memory: another GPU, or a shorter context.",
        )
    gain = _gain(inputs, load, kv=KV8)
    return Rung(
        title,
        is_here,
        "Keep the KV cache in 8 bits: twice as many tokens in the same memory.",
        gain,
        "",
        {"kv": KV8.key},
        _kv_reverses(load),
    )


def _kv_reverses(load: Load) -> str:
    return (
        f"A batch that stays below {figure(max(1, load.memory_batch))}: so many fit as it is. Or a "
        "slice of long contexts that the gate finds worse."
    )


def _weights_rung(inputs: PlanInputs, load: Load, *, is_here: bool) -> Rung:
    title = "Answers are written too slowly (memory bandwidth)"
    if inputs.precision.bits <= INT4.bits + 1:
        return Rung(
            title,
            is_here,
            "4-bit weights",
            None,
            "The weights are that small already.",
            {},
            "More GPUs that share the model, or a smaller model.",
        )
    gain = _gain(inputs, load, precision=INT4)
    return Rung(
        title,
        is_here,
        "Keep the weights, and only them, in 4 bits: each step reads a quarter of the bytes.",
        gain,
        "",
        {"precision": INT4.key},
        "A batch at which multiplying is the limit: unpacking 4-bit weights then only costs. Or a "
        "slice of answers that the gate finds worse.",
    )


def _compute_rung(inputs: PlanInputs, load: Load, *, is_here: bool) -> Rung:
    title = "Prompts are read too slowly (multiplications)"
    rung = next((r for r in (FP8, INT8) if _has_units(inputs, r)), None)
    if inputs.precision.runs_in != "bf16" and _has_units(inputs, inputs.precision):
        return Rung(
            title,
            is_here,
            f"Multiply in {inputs.precision.label}",
            None,
            "It does so already.",
            {},
            "Shorter prompts, or more GPUs.",
        )
    if rung is None:
        return Rung(
            title,
            is_here,
            "Multiply in FP8 or INT8",
            None,
            f"{inputs.chip.name} supports neither: it would multiply in 16 bits all the same.",
            {},
            "A GPU with FP8 or INT8 units; or shorter prompts and a prefix cache.",
        )
    gain = _gain(inputs, load, precision=rung)
    return Rung(
        title,
        is_here,
        f"Weights and multiplications in {rung.label}: {inputs.chip.name} is built for it.",
        gain,
        "",
        {"precision": rung.key},
        f"Prompts that take less than half of the time (now {load.prefill_share.value:.0f} %). Or "
        "a slice of answers that the gate finds worse.",
    )


def _has_units(inputs: PlanInputs, rung: Precision) -> bool:
    figures = {"fp8": inputs.chip.fp8_tflops, "int8": inputs.chip.int8_tops}
    return figures.get(rung.runs_in) is not None


def _gain(
    inputs: PlanInputs,
    load: Load,
    *,
    precision: Precision | None = None,
    kv: KvPrecision | None = None,
) -> Derived:
    changed = replace(inputs, precision=precision or inputs.precision, kv=kv or inputs.kv)
    after = serve(changed)
    now, then = load.per_s.value, after.per_s.value
    words = f"{figure(then)} ÷ {figure(now)}" if now else f"{figure(then)} instead of none"
    return Derived(
        then / now if now else then,
        "times as many requests" if now else "requests/s, where there were none",
        f"requests a second with it ÷ without = {words}",
        (
            given("with it", after.per_s.text, note=after.per_s.formula),
            given("without", load.per_s.text, note=load.per_s.formula),
        ),
        "Of the bounds and the same efficiencies; kernels of another precision may reach less of "
        "theirs.",
    )
