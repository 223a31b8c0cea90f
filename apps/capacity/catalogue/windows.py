"""Which layers of a checkpoint keep no more than a window of the context."""

from __future__ import annotations

from dataclasses import dataclass

from apps.capacity.catalogue.fields import Fields

MOST_TOKENS = 2**31 - 1
MOST_LAYERS = 10_000
_KNOWN = {"full_attention", "sliding_attention"}
_ALL_LAYERS = {"mistral", "mixtral", "phi3"}
_QWEN = {"qwen2", "qwen2_moe", "qwen3", "qwen3_moe"}


@dataclass(frozen=True, slots=True)
class Windows:
    """`layers` keep at most `tokens`."""

    tokens: int = 0
    layers: int = 0


def windows_of(fields: Fields, kind: str, layers: int) -> Windows:
    """By `layer_types` where the file has it, else by what its kind of model fixes."""
    if fields.has("layer_types"):
        count = _listed(fields, layers)
    elif kind in _QWEN:
        count = _qwen(fields, layers)
    elif kind == "gemma2":
        count = (layers + 1) // 2  # every other layer, from the first on
    elif kind == "gemma3_text":
        every = fields.whole("sliding_window_pattern", MOST_LAYERS)
        count = layers - layers // every  # each n-th sees everything
    else:
        count = layers if kind in _ALL_LAYERS and fields.has("sliding_window") else 0
    return Windows(fields.whole("sliding_window", MOST_TOKENS), count) if count else Windows()


def _listed(fields: Fields, layers: int) -> int:
    types = fields.texts("layer_types", MOST_LAYERS)
    if len(types) != layers:
        fields.refuse("layer_types", f"does not have an entry for each of {layers} layers")
    if unknown := sorted(set(types) - _KNOWN):
        fields.refuse("layer_types", f"{unknown[0][:40]!r}: its memory is not known")
    return types.count("sliding_attention")


def _qwen(fields: Fields, layers: int) -> int:
    """The first max_window_layers see everything, those after it a window."""
    if not fields.has("sliding_window") or not fields.flag("use_sliding_window"):
        return 0
    return max(0, layers - fields.whole("max_window_layers", MOST_LAYERS, least=0))
