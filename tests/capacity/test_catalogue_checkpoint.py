"""Shapes from `config.json`: totals that are known, and files that are not what they should be."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from apps.capacity.arithmetic import KV16, kv_bytes_per_token
from apps.capacity.catalogue.checkpoint import Checkpoint, read_checkpoint
from apps.capacity.catalogue.first import MODELS
from apps.capacity.errors import CatalogueError
from tests.capacity.configs import (
    DEEPSEEK_V2,
    DEEPSEEK_V3,
    DENSE,
    GEMMA_3,
    LLAMA_8B,
    PHI_2,
    QWEN3_MOE,
)


def read(config: object, name: str = "a model") -> Checkpoint:
    return read_checkpoint(json.dumps(config), name=name)


def refused(config: object) -> str:
    with pytest.raises(CatalogueError) as caught:
        read(config)
    return str(caught.value)


def without(config: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key != name}


class TestKnownTotals:
    @pytest.mark.parametrize("name", DENSE)
    def test_parameters_are_counted_to_the_last(self, name: str) -> None:
        config, parameters = DENSE[name]
        assert read(config).shape.parameters == parameters

    @pytest.mark.parametrize("name", DENSE)
    def test_the_first_catalogue_is_what_the_file_says(self, name: str) -> None:
        shape = read(DENSE[name][0], name).shape
        (row,) = [row for row in MODELS if row["name"] == name]
        told = {key: value for key, value in row.items() if hasattr(shape, key)}
        del told["source"]
        assert {key: getattr(shape, key) for key in told} == told

    def test_mixtral_uses_a_part_for_a_token(self) -> None:
        shape = read(DENSE["Mixtral-8x7B"][0]).shape
        assert shape.active_parameters == 12_879_925_248
        assert (shape.experts, shape.experts_active) == (8, 2)

    def test_phi_2(self) -> None:
        assert read(PHI_2).shape.parameters == 2_779_683_840

    @pytest.mark.parametrize(
        ("config", "total", "active", "kv"),
        [(DEEPSEEK_V3, 671, 37, 70_272), (DEEPSEEK_V2, 236, 21, 69_120)],
        ids=["V3", "V2"],
    )
    def test_deepseek(self, config: dict[str, Any], total: int, active: int, kv: int) -> None:
        found = read(config)
        shape = found.shape
        assert round(shape.parameters / 1e9) == total
        # V3's 37 billion leave out the input embedding: all together they are 37.6.
        assert int(shape.active_parameters / 1e9) == active
        assert kv_bytes_per_token(shape, KV16).value == kv
        assert any("latent" in note for note in found.notes)

    def test_qwen3_30b_a3b(self) -> None:
        shape = read(QWEN3_MOE).shape
        assert shape.parameters == pytest.approx(30.5e9, rel=0.005)
        assert shape.active_parameters == pytest.approx(3.3e9, rel=0.02)

    def test_gemma_3_nested_in_a_file_for_images(self) -> None:
        found = read(GEMMA_3)
        assert found.shape.parameters == pytest.approx(1.0e9, rel=0.001)
        assert found.shape.window_layers == 22  # 26 less each sixth
        assert found.shape.window_tokens == 512
        assert "Only the text part" in found.notes[0]


class TestWhatIsFixedByAKind:
    def test_old_llama_files_without_kv_heads_have_as_many_as_heads(self) -> None:
        assert read(without(LLAMA_8B, "num_key_value_heads")).shape.kv_heads == 32

    @pytest.mark.parametrize("kind", ["mistral", "qwen2"])
    def test_other_kinds_must_say_their_kv_heads(self, kind: str) -> None:
        config = without(LLAMA_8B, "num_key_value_heads") | {"model_type": kind}
        assert "num_key_value_heads: is missing" in refused(config)

    def test_head_size_follows_from_hidden_size_and_heads(self) -> None:
        assert read(LLAMA_8B).shape.head_dim == 128
        assert read(LLAMA_8B | {"head_dim": 64}).shape.head_dim == 64
        assert "head_dim" in refused(LLAMA_8B | {"num_attention_heads": 24, "hidden_size": 4100})

    @pytest.mark.parametrize("kind", ["qwen3", "gemma2"])
    def test_kinds_whose_head_size_is_their_own_must_say_it(self, kind: str) -> None:
        assert "head_dim: is missing" in refused(LLAMA_8B | {"model_type": kind})

    def test_layer_types_are_counted(self) -> None:
        types = ["sliding_attention", "full_attention"] * 16
        shape = read(LLAMA_8B | {"layer_types": types, "sliding_window": 1024}).shape
        assert (shape.window_layers, shape.window_tokens) == (16, 1024)

    def test_layers_of_unknown_memory_are_refused(self) -> None:
        told = refused(LLAMA_8B | {"layer_types": ["linear_attention"] * 32})
        assert "layer_types: 'linear_attention': its memory is not known" in told
        assert "each of 32 layers" in refused(LLAMA_8B | {"layer_types": ["full_attention"]})

    def test_qwen_windows_begin_after_the_layers_that_see_everything(self) -> None:
        config = DENSE["Qwen2.5-7B"][0]
        assert read(config).shape.window_layers == 0
        windowed = config | {"use_sliding_window": True, "max_window_layers": 21}
        assert read(windowed).shape.window_layers == 7

    def test_quantised_checkpoints_say_so(self) -> None:
        found = read(LLAMA_8B | {"quantization_config": {"quant_method": "awq"}})
        assert found.shape.parameters == 8_030_261_248
        assert "quantised" in found.notes[0]

    def test_dense_layers_among_experts_are_counted_as_such(self) -> None:
        fewer = read(QWEN3_MOE | {"mlp_only_layers": [0, 1]}).shape
        assert fewer.parameters < read(QWEN3_MOE).shape.parameters
        none = read(QWEN3_MOE | {"decoder_sparse_step": 49}).shape
        assert (none.experts, none.parameters) == (0, none.active_parameters)


class TestNothingIsPutInPlaceOfWhatIsMissing:
    @pytest.mark.parametrize("name", [key for key in DEEPSEEK_V3 if key not in ("model_type",)])
    def test_deepseek_fields(self, name: str) -> None:
        if name in ("num_nextn_predict_layers", "num_key_value_heads"):  # neither is counted
            assert read(without(DEEPSEEK_V3, name)).shape.parameters > 0
            return
        told = refused(without(DEEPSEEK_V3, name))
        assert told.startswith(f"config.json, {name}: is missing. Library defaults are of another")

    @pytest.mark.parametrize(
        "name",
        [
            "hidden_size",
            "num_hidden_layers",
            "num_attention_heads",
            "intermediate_size",
            "vocab_size",
            "max_position_embeddings",
            "tie_word_embeddings",
            "model_type",
        ],
    )
    def test_llama_fields(self, name: str) -> None:
        assert f"{name}: is missing" in refused(without(LLAMA_8B, name))

    def test_nested_fields_are_named_with_their_path(self) -> None:
        text = without(GEMMA_3["text_config"], "vocab_size")  # type: ignore[arg-type]
        assert "text_config.vocab_size: is missing" in refused(GEMMA_3 | {"text_config": text})

    def test_uncompressed_queries_must_be_said(self) -> None:
        shape = read(DEEPSEEK_V2 | {"q_lora_rank": None}).shape
        assert shape.parameters > 0


class TestHostileFiles:
    @pytest.mark.parametrize(
        "content",
        [
            "",
            "{",
            "nonsense",
            b"\xff\xfe\x00",
            '{"model_type": NaN}',
            '{"hidden_size": Infinity}',
            "[" * 100_000,
            '{"a":' * 50_000,
            '{"hidden_size": ' + "9" * 10_000 + "}",
        ],
        ids=range(9),
    )
    def test_what_is_no_json_is_refused(self, content: str | bytes) -> None:
        with pytest.raises(CatalogueError, match="cannot be read as JSON"):
            read_checkpoint(content, name="a model")

    @pytest.mark.parametrize("content", ["[]", "1", '"llama"', "null", "true"])
    def test_what_is_no_object_is_refused(self, content: str) -> None:
        with pytest.raises(CatalogueError, match="is no object in braces"):
            read_checkpoint(content, name="a model")

    def test_what_is_too_large_is_refused_unread(self) -> None:
        with pytest.raises(CatalogueError, match="more than 1 MiB"):
            read_checkpoint(b"x" * 10_000_000, name="a model")

    @pytest.mark.parametrize(
        "value",
        [0, -1, 10**30, 4096.0, 0.5, "4096", True, [], {}, "<script>" * 1000, "\u0000é漢"],
    )
    def test_a_size_that_is_none_is_named(self, value: object) -> None:
        told = refused(LLAMA_8B | {"hidden_size": value})
        assert told.startswith("config.json, hidden_size: is no whole number from 1 to 10,000,000")
        assert len(told) < 200

    @pytest.mark.parametrize("value", [0, 1, "false", [], {}])
    def test_a_flag_that_is_none_is_named(self, value: object) -> None:
        told = refused(LLAMA_8B | {"tie_word_embeddings": value})
        assert "tie_word_embeddings: is neither true nor false" in told

    def test_sizes_that_are_impossible_together_are_refused(self) -> None:
        largest = {
            "hidden_size": 10_000_000,
            "num_hidden_layers": 10_000,
            "num_attention_heads": 100_000,
            "num_key_value_heads": 100_000,
            "intermediate_size": 10_000_000,
        }
        assert "together its sizes cannot be" in refused(LLAMA_8B | largest)
        assert "does not divide" in refused(LLAMA_8B | {"num_key_value_heads": 5})
        assert "num_key_value_heads" in refused(LLAMA_8B | {"num_key_value_heads": 64})
        assert "num_experts_per_tok" in refused(QWEN3_MOE | {"num_experts_per_tok": 129})

    @pytest.mark.parametrize("kind", ["gpt2", "mamba", "", 5, None, [], "x" * 5000])
    def test_kinds_that_are_not_known_are_refused(self, kind: object) -> None:
        told = refused(LLAMA_8B | {"model_type": kind})
        assert "model_type" in told
        assert len(told) < 400

    @pytest.mark.parametrize("inner", [[], 5, "x", {"model_type": "gpt2"}, {"model_type": 7}])
    def test_nested_parts_that_are_none_are_refused(self, inner: object) -> None:
        assert "text_config" in refused(GEMMA_3 | {"text_config": inner})

    @pytest.mark.parametrize("name", ["", "   ", "a\nb", "x" * 201])
    def test_names_are_short_and_printable(self, name: str) -> None:
        with pytest.raises(CatalogueError, match="name"):
            read_checkpoint(json.dumps(LLAMA_8B), name=name)

    def test_whatever_a_field_holds_the_answer_is_a_shape_or_a_catalogue_error(self) -> None:
        draw = random.Random(7)  # noqa: S311 - a seed, not a secret
        odd = [None, 0, -5, 1, 3, 7, 10**12, 1.5, "8", True, [], [1], {}, {"a": 1}, ["x"]]
        configs = [c for c, _ in DENSE.values()] + [DEEPSEEK_V3, QWEN3_MOE, PHI_2, GEMMA_3]
        read_ones = 0
        for _ in range(1500):
            config = dict(draw.choice(configs))
            for name in draw.sample(sorted(config), draw.choice([1, 2])):
                config[name] = draw.choice(odd)
            try:
                shape = read(config).shape
            except CatalogueError:
                continue
            read_ones += 1
            assert 0 < shape.active_parameters <= shape.parameters
        assert read_ones > 50
