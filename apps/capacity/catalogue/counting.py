"""How many parameters a decoder has, from its sizes. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Heads:
    """Attention with heads: MHA, MQA or GQA."""

    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    qkv_bias: bool = False
    output_bias: bool = False
    head_norms: bool = False  # of queries and keys, one each for all heads

    @property
    def parameters(self) -> int:
        """Of one layer: Q and O with `heads`, K and V with `kv_heads`."""
        width, kv_width = self.heads * self.head_dim, self.kv_heads * self.head_dim
        return (
            2 * self.hidden * (width + kv_width)
            + self.qkv_bias * (width + 2 * kv_width)
            + self.output_bias * self.hidden
            + self.head_norms * 2 * self.head_dim
        )


@dataclass(frozen=True, slots=True)
class Latent:
    """Latent attention (MLA), after DeepSeek-V2's report."""

    hidden: int
    heads: int
    latent_dim: int
    rope_dim: int
    head_dim: int  # of a key, without rope
    value_dim: int
    query_rank: int  # 0: queries are not compressed

    @property
    def parameters(self) -> int:
        """Of one layer: queries, the latent and its norm, keys and values from it, output."""
        query_width = self.heads * (self.head_dim + self.rope_dim)
        queries = self.hidden * query_width
        if self.query_rank:
            queries = self.query_rank * (self.hidden + 1 + query_width)
        return (
            queries
            + self.hidden * (self.latent_dim + self.rope_dim)
            + self.latent_dim
            + self.latent_dim * self.heads * (self.head_dim + self.value_dim)
            + self.heads * self.value_dim * self.hidden
        )


@dataclass(frozen=True, slots=True)
class Experts:
    """The layers whose feed-forward part is a mixture."""

    layers: int
    experts: int
    active: int
    width: int  # of one expert
    shared_width: int = 0  # of what every token uses besides
    shared_gate: bool = False
    router_bias: bool = False

    def parameters(self, hidden: int) -> int:
        """Of all these layers."""
        each = (
            self.experts * gated(hidden, self.width)
            + gated(hidden, self.shared_width)
            + self.shared_gate * hidden
            + self.experts * (hidden + self.router_bias)
        )
        return self.layers * each

    def idle(self, hidden: int) -> int:
        """Those that one token does not use."""
        return self.layers * (self.experts - self.active) * gated(hidden, self.width)


@dataclass(frozen=True, slots=True)
class Decoder:
    """The sizes that all parameters follow from."""

    layers: int
    attention: Heads | Latent
    vocabulary: int
    tied: bool
    width: int  # of the feed-forward part of layers without experts
    experts: Experts | None = None
    norms: int = 2  # of a layer
    mlp_bias: bool = False
    plain: bool = False  # phi: no gate, biases everywhere, norms with a bias, a biased head

    @property
    def parameters(self) -> int:
        hidden = self.attention.hidden
        norm = hidden * (2 if self.plain else 1)
        mixed = self.experts.layers if self.experts else 0
        return (
            self.vocabulary * hidden * (1 if self.tied else 2)
            + self.plain * self.vocabulary
            + self.layers * (self.attention.parameters + self.norms * norm)
            + (self.layers - mixed) * self._dense(hidden)
            + (self.experts.parameters(hidden) if self.experts else 0)
            + norm
        )

    @property
    def active_parameters(self) -> int:
        """Those that one token uses."""
        idle = self.experts.idle(self.attention.hidden) if self.experts else 0
        return self.parameters - idle

    def _dense(self, hidden: int) -> int:
        if self.plain:
            return 2 * hidden * self.width + self.width + hidden
        return gated(hidden, self.width) + self.mlp_bias * (2 * self.width + hidden)


def gated(hidden: int, width: int) -> int:
    """A gated feed-forward part: three matrices."""
    return 3 * hidden * width
