"""Bytes: the KV cache of a token and of a context, and the weights, in memory and as read."""

from __future__ import annotations

import math
from fractions import Fraction

from apps.capacity.arithmetic.derived import Derived, Input, figure, given
from apps.capacity.arithmetic.shapes import KvPrecision, Precision, Shape, whole

MOST_TOKENS = 2**31
MOST_BATCH = 10_000_000


def kv_bytes_per_token(shape: Shape, kv: KvPrecision) -> Derived:
    """Of one more token of one sequence, in all layers together.

    Heads: 2 × layers × KV heads × head size × bytes (the same formula is in TGI's launcher).
    Latent: layers × (latent + rope) × bytes; key and value are one.
    """
    value = math.ceil(_kv_layer(shape, kv) * shape.layers)
    words, numbers = _kv_words(shape)
    layers = figure(shape.layers)
    return Derived(
        value=value,
        unit="bytes",
        formula=f"{words.format(layers='layers')} × bytes a value"
        f" = {numbers.format(layers=layers)} × {figure(kv.bits / 8)}",
        inputs=(*_kv_inputs(shape, kv),),
        note=_kv_note(shape),
    )


def kv_bytes(shape: Shape, kv: KvPrecision, tokens: int) -> Derived:
    """Of one sequence of `tokens`: layers with a window keep no more than the window."""
    value = kv_size(shape, kv, tokens)
    words, numbers = _kv_words(shape)
    kept, counted = "layers × tokens", f"{figure(shape.layers)} × {figure(tokens)}"
    if shape.window_layers:
        kept = "(full layers × tokens + layers with a window × least of tokens and window)"
        counted = (
            f"({figure(shape.layers - shape.window_layers)} × {figure(tokens)} + "
            f"{figure(shape.window_layers)} × {figure(min(tokens, shape.window_tokens))})"
        )
    return Derived(
        value=value,
        unit="bytes",
        formula=f"{words.format(layers=kept)} × bytes a value"
        f" = {numbers.format(layers=counted)} × {figure(kv.bits / 8)}",
        inputs=(*_kv_inputs(shape, kv), given("tokens", tokens)),
        note=_kv_note(shape),
    )


def kv_size(shape: Shape, kv: KvPrecision, tokens: int) -> int:
    """`kv_bytes` without how it came about."""
    whole("tokens", tokens, 0, MOST_TOKENS)
    return math.ceil(_kv_layer(shape, kv) * token_layers(shape, tokens))


def token_layers(shape: Shape, tokens: int) -> int:
    """Tokens that a sequence's layers keep, summed over the layers."""
    full = shape.layers - shape.window_layers
    return full * tokens + shape.window_layers * min(tokens, shape.window_tokens)


def weight_bytes(shape: Shape, precision: Precision) -> Derived:
    """Of all weights, in memory: a mixture of experts keeps every expert there."""
    words, numbers = _weight_words(shape, precision, Fraction(shape.parameters))
    return Derived(
        value=weight_size(shape, precision, Fraction(shape.parameters)),
        unit="bytes",
        formula=f"{words} = {numbers}",
        inputs=(given("parameters", shape.parameters, note=shape.source), *_bits(shape, precision)),
        note=precision.note,
    )


def weight_size(shape: Shape, precision: Precision, parameters: Fraction) -> int:
    """Bytes of so many of a model's weights, its tables among them."""
    tables = min(Fraction(_tables(shape, precision)), parameters)
    return math.ceil(tables * 2 + (parameters - tables) * precision.bits / 8)


def distinct_experts(shape: Shape, batch: int) -> Derived:
    """Of a layer, how many experts a batch is expected to need: E × (1 - (1 - k / E)^B).

    Takes every expert to be as likely as any other and tokens to choose independently; real
    routing is uneven, and then fewer are needed.
    """
    experts, active = shape.experts, shape.experts_active
    return Derived(
        value=_distinct(shape, batch),
        unit="experts",
        formula="E × (1 − (1 − k / E)^B) = "
        f"{experts} × (1 − (1 − {active} / {experts})^{figure(batch)})"
        if experts
        else "none: a dense model",
        inputs=(
            given("E, experts of a layer", experts),
            given("k, used by a token", active),
            given("B, tokens in the batch", batch),
        ),
        note="Expected, where every expert is as likely as any other.",
    )


def weights_read(shape: Shape, precision: Precision, batch: int) -> Derived:
    """Bytes of weights that one step of `batch` tokens reads: of a mixture, the experts it needs.

    At a batch of 1 those of the active parameters; with the batch it grows to all weights.
    """
    read = read_parameters(shape, batch)
    words, numbers = _weight_words(shape, precision, read, "parameters read")
    inputs = [given("parameters read", math.ceil(read))]
    if shape.experts:
        inputs += [
            given("parameters that every token uses", math.ceil(shape.shared_parameters)),
            given("parameters of one expert, all layers", math.ceil(shape.expert_parameters)),
            given("experts needed", _distinct(shape, batch), note="E × (1 − (1 − k / E)^B)"),
        ]
    return Derived(
        value=weight_size(shape, precision, read),
        unit="bytes",
        formula=f"{words} = {numbers}",
        inputs=(*inputs, given("tokens in the batch", batch), *_bits(shape, precision)),
        note="A share of the weights, the larger the batch: "
        f"{float(read) / shape.parameters:.0%} of all at this one."
        if shape.experts
        else "",
    )


def read_parameters(shape: Shape, batch: int) -> Fraction:
    """Parameters that a step of `batch` tokens needs: shared + one expert's × distinct experts."""
    if shape.expert_parameters == 0:
        whole("batch", batch, 1, MOST_BATCH)
        return Fraction(shape.parameters)
    if batch == 1:  # exactly, without the rounding of what is expected
        return Fraction(shape.active_parameters)
    read = shape.shared_parameters + shape.expert_parameters * Fraction(_distinct(shape, batch))
    return min(read, Fraction(shape.parameters))


def _distinct(shape: Shape, batch: int) -> float:
    whole("batch", batch, 1, MOST_BATCH)
    if not shape.experts:
        return 0.0
    idle = 1 - shape.experts_active / shape.experts
    return float(shape.experts * (1 - idle**batch))


def _kv_layer(shape: Shape, kv: KvPrecision) -> Fraction:
    """Bytes of a token in one layer."""
    if shape.attention == "latent":
        return (shape.latent_dim + shape.rope_dim) * kv.bits / 8
    return 2 * shape.kv_heads * shape.head_dim * kv.bits / 8


def _kv_words(shape: Shape) -> tuple[str, str]:
    if shape.attention == "latent":
        return (
            "{layers} × (latent size + rope size)",
            f"{{layers}} × ({shape.latent_dim} + {shape.rope_dim})",
        )
    return (
        "2 × {layers} × KV heads × head size",
        f"2 × {{layers}} × {figure(shape.kv_heads)} × {figure(shape.head_dim)}",
    )


def _kv_inputs(shape: Shape, kv: KvPrecision) -> list[Input]:
    found = [given("layers", shape.layers, note=shape.source)]
    if shape.attention == "latent":
        found += [given("latent size", shape.latent_dim), given("rope size", shape.rope_dim)]
    else:
        found += [given("KV heads", shape.kv_heads), given("head size", shape.head_dim)]
    if shape.window_layers:
        found += [
            given("layers with a window", shape.window_layers),
            given("window", shape.window_tokens, "tokens"),
        ]
    return [*found, given(f"bytes a value, {kv.label}", kv.bits / 8, note=kv.note)]


def _kv_note(shape: Shape) -> str:
    if shape.attention == "latent":
        return "Only where the engine keeps the latent; one that unpacks it needs far more."
    if shape.window_layers:
        return (
            f"{shape.window_layers} of {shape.layers} layers keep at most "
            f"{figure(shape.window_tokens)} tokens, where the engine makes use of that."
        )
    return ""


def _tables(shape: Shape, precision: Precision) -> int:
    return shape.table_parameters if precision.keeps_tables else 0


def _weight_words(
    shape: Shape, precision: Precision, parameters: Fraction, name: str = "parameters"
) -> tuple[str, str]:
    size = figure(precision.bits / 8)
    tables = _tables(shape, precision)
    if not tables:
        return f"{name} × bytes a weight", f"{figure(math.ceil(parameters))} × {size}"
    return (
        f"({name} − tables) × bytes a weight + tables × 2",
        f"({figure(math.ceil(parameters))} − {figure(tables)}) × {size} + {figure(tables)} × 2",
    )


def _bits(shape: Shape, precision: Precision) -> list[Input]:
    found = [given(f"bytes a weight, {precision.label}", precision.bits / 8, note=precision.note)]
    tables = _tables(shape, precision)
    if tables:
        of = "one table for both" if shape.tied_embeddings else "two tables"
        found.append(given("embedding and output head, 16-bit", tables, note=of))
    elif precision.keeps_tables:
        found.append(
            given("embedding and output head", "not known", "", "counted as if they shrank too")
        )
    return found
