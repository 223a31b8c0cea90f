"""What holds for every model, chip and load: drawn at random, with seeds that are told."""

from __future__ import annotations

import math
from dataclasses import fields, is_dataclass, replace
from random import Random
from typing import Any

import pytest

from apps.capacity.arithmetic import (
    BF16,
    FP8,
    INT4,
    KV8,
    KV16,
    KV_PRECISIONS,
    PRECISIONS,
    Q4_0,
    Chip,
    Deployment,
    Derived,
    Shape,
    cached_tokens,
    can_share,
    decode,
    distinct_experts,
    fit,
    kv_bytes,
    prefill,
    sessions,
    smallest_fit,
    usable_memory,
    weight_bytes,
    weights_read,
)
from apps.capacity.errors import PlanInvalid

DRAWS = 60


def draws(seed: int) -> Random:
    return Random(seed)  # noqa: S311 - a seed, not a secret


def a_shape(draw: Random) -> Shape:
    kv_heads = draw.choice([1, 2, 4, 8])
    heads = kv_heads * draw.choice([1, 2, 4, 8])
    layers, parameters = draw.randint(1, 120), draw.randint(10**8, 10**12)
    latent, mixed = draw.random() < 0.25, draw.random() < 0.4
    windowed = draw.random() < 0.4
    experts = draw.choice([8, 60, 256]) if mixed else 0
    active = draw.randint(1, 8) if mixed else 0
    # Enough that what all tokens share is not below nothing.
    least = min(parameters, parameters * active // experts + 1) if mixed else parameters
    return Shape(
        name="drawn",
        attention="latent" if latent else "heads",
        layers=layers,
        hidden=draw.choice([576, 4096, 8192]),
        heads=heads,
        kv_heads=heads if latent else kv_heads,
        head_dim=draw.choice([64, 128, 256]),
        latent_dim=512 if latent else 0,
        rope_dim=64 if latent else 0,
        parameters=parameters,
        active_parameters=draw.randint(least, parameters),
        experts=experts,
        experts_active=active,
        context_tokens=131_072,
        window_tokens=draw.choice([512, 4096]) if windowed else 0,
        window_layers=draw.randint(1, layers) if windowed else 0,
        vocabulary=draw.choice([0, 6000]),
    )


def a_chip(draw: Random) -> Chip:
    bf16 = draw.uniform(10, 3000)
    return Chip(
        name="drawn",
        memory_bytes=draw.randint(8, 300) * 10**9,
        bandwidth_gb_s=draw.uniform(100, 10_000),
        bf16_tflops=bf16,
        fp8_tflops=draw.choice([None, 2 * bf16]),
        int8_tops=draw.choice([None, 2 * bf16]),
    )


def a_deployment(draw: Random) -> Deployment:
    return Deployment(
        a_shape(draw),
        a_chip(draw),
        gpus=draw.choice([1, 2, 3, 4, 8, 16]),
        precision=draw.choice(list(PRECISIONS.values())),
        kv=draw.choice(list(KV_PRECISIONS.values())),
        memory_share=draw.uniform(0.3, 1.0),
        reserve_bytes=draw.randint(0, 6 * 10**9),
    )


def every_figure(result: object) -> list[Derived]:
    if isinstance(result, Derived):
        return [result]
    if is_dataclass(result):
        return [f for part in fields(result) for f in every_figure(getattr(result, part.name))]
    return []


@pytest.mark.parametrize("seed", range(DRAWS))
def test_every_figure_is_finite_not_negative_and_says_how_it_came_about(seed: int) -> None:
    draw = draws(seed)
    d = a_deployment(draw)
    context, batch = draw.randint(1, 200_000), draw.randint(1, 5000)
    held = fit(d, context)
    found = every_figure(held)
    found += every_figure(decode(d, batch=batch, context_tokens=context))
    found += every_figure(prefill(d, tokens=context, utilisation=draw.uniform(0.01, 1)))
    found += [distinct_experts(d.shape, batch), weights_read(d.shape, d.precision, batch)]
    for figure in found:
        assert math.isfinite(figure.value), figure
        # Memory that is missing is the one figure below nothing.
        assert figure.value >= 0 or figure in (held.free, held.usable), figure
        assert figure.formula, figure
        assert figure.text, figure


@pytest.mark.parametrize("seed", range(DRAWS))
def test_a_longer_context_never_takes_less_nor_lets_more_in(seed: int) -> None:
    draw = draws(1000 + seed)
    d = a_deployment(draw)
    short = draw.randint(1, 100_000)
    long = short + draw.randint(1, 100_000)
    assert kv_bytes(d.shape, d.kv, short).value <= kv_bytes(d.shape, d.kv, long).value
    assert sessions(d, short).value >= sessions(d, long).value
    slow, fast = (decode(d, batch=7, context_tokens=n).step_ms.value for n in (long, short))
    assert slow >= fast
    few, many = (prefill(d, tokens=n).floor_ms.value for n in (short, long))
    assert many >= few


@pytest.mark.parametrize("seed", range(DRAWS))
def test_a_larger_batch_gives_more_in_total_and_no_more_to_each(seed: int) -> None:
    draw = draws(2000 + seed)
    d = a_deployment(draw)
    small, context = draw.randint(1, 200), draw.randint(0, 20_000)
    large = small + draw.randint(1, 300)
    a, b = (decode(d, batch=n, context_tokens=context) for n in (small, large))
    assert b.per_sequence.value <= a.per_sequence.value * (1 + 1e-9)
    assert b.total.value >= a.total.value * (1 - 1e-9)
    assert (a.bound, b.bound) != ("compute", "memory")
    read = [weights_read(d.shape, d.precision, n).value for n in (small, large)]
    assert read[0] <= read[1] <= weight_bytes(d.shape, d.precision).value


@pytest.mark.parametrize("seed", range(DRAWS))
def test_fewer_bits_never_take_more_memory_nor_hold_less(seed: int) -> None:
    d = a_deployment(draws(3000 + seed))
    sizes = [weight_bytes(d.shape, rung).value for rung in (INT4, FP8, BF16)]
    assert sizes == sorted(sizes)
    held = [cached_tokens(replace(d, precision=rung)).value for rung in (BF16, FP8, INT4)]
    assert held == sorted(held)
    by_kv = [cached_tokens(replace(d, kv=kv)).value for kv in (KV16, KV8, Q4_0)]
    assert by_kv == sorted(by_kv)


@pytest.mark.parametrize("seed", range(DRAWS))
def test_sharing_makes_no_memory(seed: int) -> None:
    """Beyond N times one: sharing keeps the weights once, copies N times. Without weights, N GPUs
    never cache more than N times what one does."""
    draw = draws(4000 + seed)
    d = replace(a_deployment(draw), gpus=1)
    ways = draw.choice([n for n in (2, 4, 8) if can_share(d.shape, n)] or [1])
    shared = replace(d, gpus=ways, tensor_parallel=ways)
    each = kv_bytes(d.shape, d.kv, 1).value
    assert cached_tokens(shared).value * each <= max(0, usable_memory(shared).value)
    copied = replace(d, gpus=ways, tensor_parallel=1)
    one = cached_tokens(d).value
    assert cached_tokens(copied).value == ways * one
    if one and shared.kv_ways == ways:
        weights = weight_bytes(d.shape, d.precision).value
        gained = (cached_tokens(shared).value - ways * one) * each
        assert 0 <= gained <= (ways - 1) * weights + ways * each


@pytest.mark.parametrize("seed", range(DRAWS))
def test_the_fewest_gpus_hold_it_and_fewer_do_not(seed: int) -> None:
    draw = draws(5000 + seed)
    d = a_deployment(draw)
    context, wanted = draw.randint(1, 32_000), draw.randint(1, 20)
    found = smallest_fit(d, context_tokens=context, at_once=wanted, most=16)
    for gpus in range(1, 17):
        if not can_share(d.shape, gpus):
            continue
        held = sessions(replace(d, gpus=gpus, tensor_parallel=gpus), context).value
        if found is None or gpus < found.value:
            assert held < wanted
        elif gpus == found.value:
            assert held >= wanted


@pytest.mark.parametrize("seed", range(DRAWS))
def test_the_batch_that_turns_compute_bound_is_where_it_turns(seed: int) -> None:
    draw = draws(6000 + seed)
    d, context = a_deployment(draw), draw.choice([0, 10, 1000])
    turn = decode(d, batch=1, context_tokens=context).compute_bound_batch
    if turn is None:
        assert decode(d, batch=10_000_000, context_tokens=context).bound == "memory"
        return
    at = int(turn.value)
    assert decode(d, batch=at, context_tokens=context).bound == "compute"
    if at > 1:
        assert decode(d, batch=at - 1, context_tokens=context).bound == "memory"


def test_the_largest_that_is_let_in_overflows_nothing() -> None:
    shape = Shape(
        name="largest",
        layers=10_000,
        hidden=10_000_000,
        heads=100_000,
        kv_heads=100_000,
        head_dim=1_000_000,
        parameters=10**15,
        active_parameters=10**15,
        context_tokens=2**31,
    )
    d = Deployment(shape, Chip("least", 1, 1e-6, 1e-6), gpus=1000)
    found = every_figure(fit(d, 2**31))
    found += every_figure(decode(d, batch=10_000_000, context_tokens=2**31))
    found += every_figure(prefill(d, tokens=2**31, utilisation=1e-6))
    assert all(math.isfinite(figure.value) and figure.text for figure in found)
    fast = Deployment(a_shape(draws(1)), Chip("most", 10**15, 1e9, 1e9))
    found = every_figure(decode(fast, batch=1, context_tokens=0))
    assert all(math.isfinite(figure.value) for figure in found)


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize("value", [0, -1, 2**40, 1.5, "3", None, True, NAN, INF])
def test_counts_that_are_none_are_refused(value: Any) -> None:
    d = a_deployment(draws(3))
    with pytest.raises(PlanInvalid, match="batch"):
        decode(d, batch=value, context_tokens=1)
    with pytest.raises(PlanInvalid, match="tokens"):
        prefill(d, tokens=value)
    with pytest.raises(PlanInvalid, match="context_tokens"):
        sessions(d, value)
    with pytest.raises(PlanInvalid, match="gpus"):
        replace(d, gpus=value)
    with pytest.raises(PlanInvalid, match="layers"):
        replace(d.shape, layers=value)
    with pytest.raises(PlanInvalid, match="sessions"):
        smallest_fit(d, context_tokens=1, at_once=value)


@pytest.mark.parametrize("value", [0, -0.1, 1.01, NAN, INF, "0.5", None, True])
def test_shares_that_are_none_are_refused(value: Any) -> None:
    d = a_deployment(draws(4))
    with pytest.raises(PlanInvalid, match="memory_share"):
        replace(d, memory_share=value)
    with pytest.raises(PlanInvalid, match="utilisation"):
        prefill(d, tokens=5, utilisation=value)
    with pytest.raises(PlanInvalid, match="efficiency"):
        decode(d, batch=1, context_tokens=1, efficiency=value)


@pytest.mark.parametrize("name", ["bandwidth_gb_s", "bf16_tflops", "fp8_tflops"])
@pytest.mark.parametrize("value", [0, -1, 1e300, NAN, INF, "9", True])
def test_chips_that_cannot_be_are_refused(name: str, value: Any) -> None:
    with pytest.raises(PlanInvalid, match=name):
        replace(a_chip(draws(5)), **{name: value})
