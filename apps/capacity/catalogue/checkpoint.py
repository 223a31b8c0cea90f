"""A model's shape from its checkpoint's `config.json`.

What a file leaves out is never taken from a library's defaults: those of DeepSeek-V2 in
`transformers` (32 layers, 4,096 wide) are not the model of 236 billion parameters. Only what a
kind of model fixes by its definition is known here; a missing size is refused by name. A part
that is optional in its kind (a bias, a list of exceptions) and not named is not there.
"""

from __future__ import annotations

from dataclasses import dataclass

from apps.capacity.arithmetic import Shape
from apps.capacity.catalogue.counting import Decoder, Experts, Heads, Latent
from apps.capacity.catalogue.fields import Fields, parse_config
from apps.capacity.catalogue.windows import Windows, windows_of
from apps.capacity.errors import CatalogueError, PlanInvalid

MOST = 10_000_000  # of any width
MOST_LAYERS = 10_000
MOST_HEADS = 100_000
MOST_EXPERTS = 1_000_000
MOST_TOKENS = 2**31 - 1
LONGEST_NAME = 200


@dataclass(frozen=True, slots=True)
class _Kind:
    """What a kind of model fixes by its definition."""

    norms: int = 2
    qkv_bias: bool | None = None  # None: the field attention_bias says it, of the output too
    head_norms: bool = False
    tied: bool | None = None  # None: the file must say it
    # Whether files without num_key_value_heads mean as many as heads, and those without head_dim
    # hidden_size / num_attention_heads. Elsewhere a missing one is refused.
    kv_as_heads: bool = False
    splits_hidden: bool = True
    mixture: str = ""  # "mixtral", "qwen" or "deepseek"


_KINDS = {
    "llama": _Kind(kv_as_heads=True),
    "mistral": _Kind(),
    "mixtral": _Kind(mixture="mixtral"),
    "qwen2": _Kind(qkv_bias=True),
    "qwen2_moe": _Kind(qkv_bias=True, mixture="qwen"),
    "qwen3": _Kind(head_norms=True, splits_hidden=False),
    "qwen3_moe": _Kind(head_norms=True, splits_hidden=False, mixture="qwen"),
    "gemma": _Kind(tied=True, splits_hidden=False),
    "gemma2": _Kind(tied=True, splits_hidden=False, norms=4),
    "gemma3_text": _Kind(tied=True, splits_hidden=False, norms=4, head_norms=True),
    "phi": _Kind(norms=1, qkv_bias=True, kv_as_heads=True),
    "phi3": _Kind(qkv_bias=False, kv_as_heads=True),
    "deepseek_v2": _Kind(mixture="deepseek"),
    "deepseek_v3": _Kind(mixture="deepseek"),
}
_NESTED = {"gemma3": "gemma3_text"}  # a file for several senses, and what its text part is


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What was read. `notes` say what a reader should know before saving it."""

    shape: Shape
    kind: str
    notes: tuple[str, ...]


def read_checkpoint(content: bytes | str, *, name: str) -> Checkpoint:
    """The shape that a `config.json` describes; CatalogueError says which field is wrong."""
    name = _checked_name(name)
    whole_file = parse_config(content)
    kind_name, fields, notes = _text_part(whole_file)
    kind = _KINDS[kind_name]
    decoder = _decoder(fields, kind, kind_name)
    windows = windows_of(fields, kind_name, decoder.layers)
    if whole_file.has("quantization_config"):
        notes.append("The checkpoint is quantised; its parameters are counted, not their bits.")
    if kind_name.startswith("deepseek"):
        notes.append("KV counts only the latent: an engine that unpacks it needs far more.")
    if whole_file.has("num_nextn_predict_layers"):
        notes.append("Layers that predict further tokens are not counted.")
    if windows.layers:
        notes.append("The window counts only where the engine makes use of it.")
    context = fields.whole("max_position_embeddings", MOST_TOKENS)
    return Checkpoint(_shape(name, decoder, windows, context), kind_name, tuple(notes))


def _checked_name(name: str) -> str:
    name = name.strip()
    if not name or len(name) > LONGEST_NAME or not name.isprintable():
        raise CatalogueError(f"Give the model a name of 1 to {LONGEST_NAME} printable characters.")
    return name


def _text_part(whole: Fields) -> tuple[str, Fields, list[str]]:
    """The kind, the object with its sizes, and what is left out."""
    kind = whole.text("model_type")
    if kind in _KINDS:
        return kind, whole, []
    if whole.has("text_config"):
        inner = whole.inner("text_config")
        kind = inner.text("model_type") if inner.has("model_type") else _NESTED.get(kind, kind)
        if kind in _KINDS:
            return kind, inner, ["Only the text part is counted, not those for images or sound."]
        inner.refuse("model_type", f"is of no kind that is known: {', '.join(_KINDS)}")
    return whole.refuse("model_type", f"is of no kind that is known: {', '.join(_KINDS)}")


def _decoder(fields: Fields, kind: _Kind, kind_name: str) -> Decoder:
    hidden, layers = fields.whole("hidden_size", MOST), fields.whole("num_hidden_layers", 10_000)
    latent = kind.mixture == "deepseek"
    experts = _experts(fields, kind, layers)
    needs_width = experts is None or experts.layers < layers
    return Decoder(
        layers=layers,
        attention=_latent(fields, hidden) if latent else _heads(fields, kind, hidden),
        vocabulary=fields.whole("vocab_size", 100_000_000),
        tied=fields.flag("tie_word_embeddings", absent=kind.tied),
        width=fields.whole("intermediate_size", MOST) if needs_width else 0,
        experts=experts,
        norms=kind.norms,
        mlp_bias=fields.flag("mlp_bias", absent=False),
        plain=kind_name == "phi",
    )


def _heads(fields: Fields, kind: _Kind, hidden: int) -> Heads:
    heads = fields.whole("num_attention_heads", MOST_HEADS)
    kv_heads = heads
    if fields.has("num_key_value_heads") or not kind.kv_as_heads:
        kv_heads = fields.whole("num_key_value_heads", heads)
    if heads % kv_heads:
        fields.refuse("num_key_value_heads", f"does not divide the {heads} heads")
    said = fields.flag("attention_bias", absent=False)
    return Heads(
        hidden=hidden,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=_head_dim(fields, kind, hidden, heads),
        qkv_bias=said if kind.qkv_bias is None else kind.qkv_bias,
        # qwen2's attention has no bias at its output, phi's does.
        output_bias=said if kind.qkv_bias is None else kind.norms == 1,
        head_norms=kind.head_norms,
    )


def _head_dim(fields: Fields, kind: _Kind, hidden: int, heads: int) -> int:
    if fields.has("head_dim") or not kind.splits_hidden:
        return fields.whole("head_dim", 1_000_000)
    if hidden % heads:
        fields.refuse("head_dim", f"is missing, and {heads} heads do not divide {hidden}")
    return hidden // heads


def _latent(fields: Fields, hidden: int) -> Latent:
    return Latent(
        hidden=hidden,
        heads=fields.whole("num_attention_heads", MOST_HEADS),
        latent_dim=fields.whole("kv_lora_rank", 1_000_000),
        rope_dim=fields.whole("qk_rope_head_dim", 1_000_000),
        head_dim=fields.whole("qk_nope_head_dim", 1_000_000),
        value_dim=fields.whole("v_head_dim", 1_000_000),
        # null in those that do not compress queries (V2-Lite); that is said, not left out.
        query_rank=_or_null(fields, "q_lora_rank"),
    )


def _or_null(fields: Fields, name: str) -> int:
    return 0 if fields.is_null(name) else fields.whole(name, MOST)


def _experts(fields: Fields, kind: _Kind, layers: int) -> Experts | None:
    if kind.mixture == "mixtral":
        experts = fields.whole("num_local_experts", MOST_EXPERTS)
        active = fields.whole("num_experts_per_tok", experts)
        return Experts(layers, experts, active, fields.whole("intermediate_size", MOST))
    if kind.mixture == "qwen":
        return _qwen_experts(fields, layers, shared=kind.qkv_bias is True)
    return _deepseek_experts(fields, layers) if kind.mixture == "deepseek" else None


def _qwen_experts(fields: Fields, layers: int, *, shared: bool) -> Experts:
    experts = fields.whole("num_experts", MOST_EXPERTS)
    step = fields.whole("decoder_sparse_step", MOST_LAYERS)
    dense = set(fields.wholes("mlp_only_layers", MOST_LAYERS, MOST_LAYERS))
    mixed = sum(1 for n in range(layers) if n not in dense and (n + 1) % step == 0)
    return Experts(
        layers=mixed,
        experts=experts,
        active=fields.whole("num_experts_per_tok", experts),
        width=fields.whole("moe_intermediate_size", MOST),
        shared_width=fields.whole("shared_expert_intermediate_size", MOST) if shared else 0,
        shared_gate=shared,
    )


def _deepseek_experts(fields: Fields, layers: int) -> Experts:
    experts = fields.whole("n_routed_experts", MOST_EXPERTS)
    width = fields.whole("moe_intermediate_size", MOST)
    dense = fields.whole("first_k_dense_replace", layers, least=0)
    frequency = fields.whole("moe_layer_freq", MOST_LAYERS)
    shared = fields.whole("n_shared_experts", MOST_EXPERTS, least=0)
    return Experts(
        layers=sum(1 for n in range(dense, layers) if n % frequency == 0),
        experts=experts,
        active=fields.whole("num_experts_per_tok", experts),
        width=width,
        shared_width=shared * width,
        # V3 chooses with a bias for each expert.
        router_bias=fields.text("model_type") == "deepseek_v3",
    )


def _shape(name: str, decoder: Decoder, windows: Windows, context: int) -> Shape:
    attention, mixture = decoder.attention, decoder.experts
    is_latent = isinstance(attention, Latent)
    try:
        return Shape(
            name=name,
            attention="latent" if is_latent else "heads",
            layers=decoder.layers,
            hidden=attention.hidden,
            heads=attention.heads,
            kv_heads=attention.heads if isinstance(attention, Latent) else attention.kv_heads,
            head_dim=attention.head_dim,
            latent_dim=attention.latent_dim if isinstance(attention, Latent) else 0,
            rope_dim=attention.rope_dim if isinstance(attention, Latent) else 0,
            parameters=decoder.parameters,
            active_parameters=decoder.active_parameters,
            experts=mixture.experts if mixture and mixture.layers else 0,
            experts_active=mixture.active if mixture and mixture.layers else 0,
            context_tokens=context,
            window_tokens=windows.tokens if windows.layers else 0,
            window_layers=windows.layers,
            vocabulary=decoder.vocabulary,
            tied_embeddings=decoder.tied,
        )
    except PlanInvalid as exc:
        raise CatalogueError(f"config.json: together its sizes cannot be. {exc}") from exc
