"""What a plan's limits and promises are called in plain words."""

from __future__ import annotations

from typing import Any

from apps.capacity.arithmetic.derived import Derived, figure
from apps.capacity.planning.plan import Plan
from apps.capacity.planning.saying import digits, say_ms
from apps.capacity.planning.serving import Limit
from apps.capacity.planning.sizing import missing_memory

_LIMITS: dict[Limit, str] = {
    "memory": "more do not fit in memory.",
    "engine": "the engine's setting allows no more.",
    "tpot": "with one more, tokens would come more slowly than you promise.",
    "e2e": "with one more, a long answer would take longer than you promise.",
    "ttft": "with one more, the first token would come later than you promise.",
}
_BROKEN: dict[Limit, str] = {
    "memory": "Not one request fits in memory.",
    "engine": "The engine takes no request.",
    "tpot": "Even one answer alone is written more slowly than you promise.",
    "e2e": "Even alone, a long answer takes longer than you promise.",
    "ttft": "Even on an idle machine, the first token of a long prompt comes later than you "
    "promise.",
}
_HELP: dict[Limit, str] = {
    "memory": "See step 1 for what would make it fit.",
    "engine": "",
    "tpot": "A smaller model, weights of fewer bits, a GPU with more bandwidth, or more GPUs that "
    "share the model would speed it up. Or promise less.",
    "e2e": "Shorter answers, a smaller model, weights of fewer bits, or more GPUs that share the "
    "model would help. Or promise less.",
    "ttft": "Shorter prompts, a prefix cache, FP8 or INT8 where the GPU has it, or more GPUs that "
    "share the model would help. Or promise less.",
}


def words_of(plan: Plan) -> dict[str, Any]:
    """For the page: `limit_words`, `limit_help`, `missing`, `promised`, `warnings`, and loads."""
    load = plan.load
    words = (_LIMITS if load.carries else _BROKEN)[load.limit]
    return {
        "limit_words": words,
        "limit_help": "" if load.carries else _HELP[load.limit],
        "missing": "" if plan.sizing.fit.fits else missing_memory(plan.sizing.fit),
        "promised": _promised(plan),
        "warnings": _warnings(plan),
        **_loads(plan),
    }


def _promised(plan: Plan) -> dict[str, str]:
    load, promises = plan.load, plan.inputs.promises
    pairs: dict[str, tuple[Derived, float | None]] = {
        "ttft": (load.ttft_ms, promises.ttft_ms),
        "tpot": (load.tpot_ms, promises.tpot_ms),
        "e2e": (load.e2e_ms, promises.e2e_ms),
    }
    return {name: _kept(time, most) for name, (time, most) in pairs.items()}


def _kept(time: Derived, most: float | None) -> str:
    if most is None:
        return "Nothing is promised."
    verdict = "Kept" if time.value <= most else "Broken"
    return f"{verdict}: you promise {say_ms(most)}."


def _warnings(plan: Plan) -> list[str]:
    inputs = plan.inputs
    found = []
    if inputs.context_tokens > inputs.shape.context_tokens:
        found.append(
            f"{inputs.shape.name} was made for at most {figure(inputs.shape.context_tokens)} tokens"
            f" of context, and {figure(inputs.context_tokens)} are wished for."
        )
    if inputs.demand.most_tokens > inputs.context_tokens:
        found.append(
            "A long prompt and a long answer together take "
            f"{figure(round(inputs.demand.most_tokens))} tokens, more than the context of "
            f"{figure(inputs.context_tokens)}: they would be cut."
        )
    if inputs.demand.a_day > inputs.demand.peak_per_s * 86_400 * (1 + 1e-9):
        found.append(
            "So many requests a day are more than the peak, held all day long: one of the two "
            "figures is wrong."
        )
    return found


def _loads(plan: Plan) -> dict[str, str]:
    """The peak that these machines still carry, and what one of them must."""
    if plan.fleet is None:
        return {}
    count = plan.fleet.machines.value
    return {
        "peak_room": f"{digits(plan.load.per_s.value * count)} requests a second",
        "knee_needed": digits(plan.inputs.demand.peak_per_s / count),
    }
