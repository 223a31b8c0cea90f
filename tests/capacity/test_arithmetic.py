"""The worked examples, and each kind of model. K is 1,000, GB 10^9 bytes, unless a test says so."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from apps.capacity.arithmetic import (
    BF16,
    FP8,
    INT4,
    INT8,
    KV8,
    KV16,
    Q4_0,
    Q8_0,
    Chip,
    Deployment,
    Shape,
    cached_tokens,
    decode,
    distinct_experts,
    fit,
    four_bit,
    kv_bytes,
    kv_bytes_per_token,
    prefill,
    quantity,
    ridge,
    sessions,
    smallest_fit,
    throughput,
    weight_bytes,
    weights_read,
)
from apps.capacity.errors import PlanInvalid

LLAMA_70B = Shape(
    name="Llama-3-70B",
    layers=80,
    hidden=8192,
    heads=64,
    kv_heads=8,
    head_dim=128,
    parameters=70_553_706_496,
    active_parameters=70_553_706_496,
    context_tokens=131_072,
    vocabulary=128_256,
)
LLAMA_8B = Shape(
    name="Llama-3.1-8B",
    layers=32,
    hidden=4096,
    heads=32,
    kv_heads=8,
    head_dim=128,
    parameters=8_030_261_248,
    active_parameters=8_030_261_248,
    context_tokens=131_072,
    vocabulary=128_256,
)
MIXTRAL = Shape(
    name="Mixtral-8x7B",
    layers=32,
    hidden=4096,
    heads=32,
    kv_heads=8,
    head_dim=128,
    parameters=46_702_792_704,
    active_parameters=12_879_925_248,
    context_tokens=32_768,
    experts=8,
    experts_active=2,
    vocabulary=32_000,
)
DEEPSEEK_V3 = Shape(
    name="DeepSeek-V3",
    attention="latent",
    layers=61,
    hidden=7168,
    heads=128,
    kv_heads=128,
    head_dim=128,
    latent_dim=512,
    rope_dim=64,
    parameters=671 * 10**9,
    active_parameters=37 * 10**9,
    context_tokens=163_840,
    experts=256,
    experts_active=8,
)
GEMMA_9B = Shape(
    name="gemma-2-9b",
    layers=42,
    hidden=3584,
    heads=16,
    kv_heads=8,
    head_dim=256,
    parameters=9_241_705_984,
    active_parameters=9_241_705_984,
    context_tokens=8192,
    window_tokens=4096,
    window_layers=21,
    vocabulary=256_000,
    tied_embeddings=True,
)
H100 = Chip("H100 SXM", 80 * 10**9, 3350, 989, fp8_tflops=1979)
L4 = Chip("L4", 24 * 10**9, 300, 121, fp8_tflops=242.5)
A100 = Chip("A100", 80 * 10**9, 2039, 312, int8_tops=624)
EIGHT_H100 = Deployment(LLAMA_70B, H100, gpus=8)
ONE_H100 = Deployment(LLAMA_8B, H100)


class TestWorkedExamples:
    def test_llama_70b_takes_327_680_bytes_a_token(self) -> None:
        each = kv_bytes_per_token(LLAMA_70B, KV16)
        assert each.value == 327_680
        assert each.unit == "bytes"
        assert "2 × 80 × 8 × 128 × 2" in each.formula

    @pytest.mark.parametrize(("tokens", "gigabytes"), [(8, 2.6), (32, 10.5), (128, 42)])
    def test_contexts_of_llama_70b(self, tokens: int, gigabytes: float) -> None:
        # With K = 1,000. With K = 1,024 it is 2.7, 10.7 and 43 GB; or 2.5, 10 and 40 GiB.
        size = kv_bytes(LLAMA_70B, KV16, tokens * 1000).value / 1e9
        assert round(size, 0 if gigabytes == 42 else 1) == gigabytes

    def test_eight_h100_cache_about_1_2_million_tokens(self) -> None:
        # With 90 % of 80 GB and 4 GB of each GPU in reserve: the defaults. Without the reserve it
        # would be 1.33 million.
        held = fit(EIGHT_H100, 4000)
        assert held.weights.value == pytest.approx(141.1e9, rel=0.001)
        assert held.usable.value == 544 * 10**9
        assert held.cached_tokens.value == pytest.approx(1.2e6, rel=0.03)
        without = cached_tokens(replace(EIGHT_H100, reserve_bytes=0))
        assert without.value == pytest.approx(1.33e6, rel=0.01)

    def test_eight_h100_hold_some_300_sessions_of_4k_or_nine_of_128k(self) -> None:
        # Both ways to read K give some 300 and nine.
        assert sessions(EIGHT_H100, 4096).value == 300
        assert sessions(EIGHT_H100, 4000).value == 307
        assert sessions(EIGHT_H100, 128_000).value == 9
        assert sessions(EIGHT_H100, 131_072).value == 9

    def test_8b_on_one_h100_decodes_at_most_about_200_tokens_a_second(self) -> None:
        ceiling = decode(ONE_H100, batch=1, context_tokens=0).per_sequence
        assert ceiling.value == pytest.approx(3350e9 / (8_030_261_248 * 2))
        assert 200 <= ceiling.value < 210
        assert ceiling.bound == "at most"
        assert ceiling.text == "at most 208.6 tokens/s"
        # A full 8K context is read as well: fewer.
        assert decode(ONE_H100, batch=1, context_tokens=8192).per_sequence.value < 200

    def test_prompt_of_2_000_tokens_has_a_floor_near_65_ms(self) -> None:
        # The weights' part alone, at 50 % utilisation; attention adds 2 ms, and is named apart.
        reading = prefill(ONE_H100, tokens=2000, utilisation=0.5)
        assert reading.linear_ms.value == pytest.approx(65, abs=0.1)
        assert reading.attention_ms.value == pytest.approx(2.1, abs=0.05)
        assert reading.floor_ms.value == pytest.approx(65, rel=0.04)
        assert reading.floor_ms.bound == "at least"


class TestKv:
    @pytest.mark.parametrize(
        ("kv_heads", "expected"),
        [(32, 524_288), (8, 131_072), (1, 16_384)],
        ids=["MHA", "GQA", "MQA"],
    )
    def test_heads(self, kv_heads: int, expected: int) -> None:
        assert kv_bytes_per_token(replace(LLAMA_8B, kv_heads=kv_heads), KV16).value == expected

    def test_latent_has_no_factor_of_two(self) -> None:
        assert kv_bytes_per_token(DEEPSEEK_V3, KV16).value == 61 * (512 + 64) * 2 == 70_272

    def test_precisions(self) -> None:
        sizes = [kv_bytes_per_token(LLAMA_8B, kv).value for kv in (KV16, Q8_0, KV8, Q4_0)]
        assert sizes == [131_072, 69_632, 65_536, 36_864]

    def test_a_window_bounds_what_its_layers_keep(self) -> None:
        each = 2 * 8 * 256 * 2
        assert kv_bytes_per_token(GEMMA_9B, KV16).value == 42 * each == 344_064
        assert kv_bytes(GEMMA_9B, KV16, 4096).value == 42 * each * 4096
        assert kv_bytes(GEMMA_9B, KV16, 8192).value == 21 * each * (8192 + 4096)
        assert "21" in kv_bytes(GEMMA_9B, KV16, 8192).note


class TestWeights:
    def test_tables_stay_16_bit_where_weights_are_quantised(self) -> None:
        tables = 2 * 128_256 * 4096
        rest = 8_030_261_248 - tables
        assert weight_bytes(LLAMA_8B, BF16).value == 8_030_261_248 * 2
        assert weight_bytes(LLAMA_8B, FP8).value == rest + tables * 2
        assert weight_bytes(LLAMA_8B, INT8).value == rest + tables * 2
        assert weight_bytes(LLAMA_8B, INT4).value == rest * 33 / 64 + tables * 2

    def test_tied_tables_are_one(self) -> None:
        assert GEMMA_9B.table_parameters == 256_000 * 3584

    def test_scales_of_four_bits_are_counted_and_told(self) -> None:
        assert four_bit(128).bits == Fraction(33, 8)
        assert four_bit(32).bits == Fraction(9, 2)
        assert four_bit(128, zero_points=True).bits == 4 + Fraction(20, 128)
        assert "4 + 16 / 128 = 4.125 bits" in INT4.note

    def test_unknown_vocabulary_is_told(self) -> None:
        of = weight_bytes(replace(LLAMA_8B, vocabulary=0), INT4)
        assert any("not known" in i.value for i in of.inputs)


class TestExperts:
    def test_memory_is_of_all_experts(self) -> None:
        assert weight_bytes(MIXTRAL, BF16).value == 46_702_792_704 * 2

    def test_one_token_reads_the_active_ones(self) -> None:
        assert weights_read(MIXTRAL, BF16, 1).value == 12_879_925_248 * 2

    def test_a_batch_reads_the_experts_it_is_expected_to_need(self) -> None:
        assert distinct_experts(MIXTRAL, 2).value == pytest.approx(8 * (1 - 0.75**2))
        one = (46_702_792_704 - 12_879_925_248) / 6
        expected = (12_879_925_248 + 1.5 * one) * 2
        assert weights_read(MIXTRAL, BF16, 2).value == pytest.approx(expected)

    def test_the_advantage_fades(self) -> None:
        shares = [
            weights_read(DEEPSEEK_V3, BF16, b).value / (671e9 * 2) for b in (1, 8, 64, 512, 4096)
        ]
        assert shares == sorted(shares)
        assert shares[0] < 0.06
        assert 0.85 < shares[2] < 0.9
        assert shares[-1] == pytest.approx(1)

    def test_multiplying_is_of_the_active_ones(self) -> None:
        d = Deployment(MIXTRAL, H100, gpus=2)
        alone = prefill(d, tokens=1000).linear_ms.value
        assert alone == pytest.approx(2 * 12_879_925_248 * 1000 / (989e12 * 0.5 * 2) * 1000)


class TestSharing:
    def test_kv_is_repeated_beyond_its_heads(self) -> None:
        d = Deployment(replace(LLAMA_8B, kv_heads=2), H100, gpus=8)
        assert (d.ways, d.kv_ways) == (8, 2)
        assert "repetitions" in cached_tokens(d).note
        free = (68e9 - 8_030_261_248 * 2 / 8) * 2
        assert cached_tokens(d).value == int(free / (2 * 32 * 2 * 128 * 2))

    def test_latent_is_repeated_on_each(self) -> None:
        d = Deployment(DEEPSEEK_V3, Chip("H200", 141 * 10**9, 4800, 989, 1979), 8, precision=FP8)
        assert (d.ways, d.kv_ways) == (8, 1)
        assert "whole latent" in cached_tokens(d).note

    def test_heads_must_divide(self) -> None:
        shape = replace(LLAMA_8B, heads=14, kv_heads=2, name="14 heads")
        d = Deployment(shape, H100, gpus=8)
        assert (d.ways, d.copies) == (2, 4)
        with pytest.raises(PlanInvalid, match="14 heads and 2 KV heads"):
            Deployment(shape, H100, gpus=8, tensor_parallel=4)

    def test_copies_each_keep_the_weights(self) -> None:
        shared = Deployment(LLAMA_8B, H100, gpus=2)
        copied = Deployment(LLAMA_8B, H100, gpus=2, tensor_parallel=1)
        more = cached_tokens(shared).value - cached_tokens(copied).value
        assert more == pytest.approx(8_030_261_248 * 2 / 131_072, abs=2)

    def test_fewest_gpus(self) -> None:
        fewest = smallest_fit(EIGHT_H100, context_tokens=4096)
        assert fewest is not None
        assert fewest.value == 4  # two hold 136 GB; three cannot share 64 heads
        more = smallest_fit(EIGHT_H100, context_tokens=4096, at_once=300)
        assert more is not None
        assert more.value == 8
        assert smallest_fit(EIGHT_H100, context_tokens=4096, at_once=10**6) is None

    def test_what_does_not_fit_holds_nothing(self) -> None:
        held = fit(Deployment(LLAMA_70B, H100), 4096)
        assert not held.fits
        assert held.free.value < 0
        assert held.cached_tokens.value == held.sessions.value == 0


class TestPhases:
    def test_ridge_of_an_h100(self) -> None:
        assert ridge(ONE_H100).value == pytest.approx(989e12 / 3350e9)

    def test_decode_is_bound_by_memory_and_prefill_by_compute(self) -> None:
        writing = decode(ONE_H100, batch=1, context_tokens=2000)
        reading = prefill(ONE_H100, tokens=2000)
        assert writing.bound == "memory"
        assert writing.intensity.value < writing.ridge.value
        assert reading.bound == "compute"
        assert reading.intensity.value > reading.ridge.value

    def test_a_short_prompt_is_bound_by_memory(self) -> None:
        reading = prefill(ONE_H100, tokens=50)
        assert reading.bound == "memory"
        assert reading.floor_ms.value == reading.read_ms.value

    def test_turns_compute_bound_near_the_ridge_without_context(self) -> None:
        # intensity = batch × 2 P / 2 P bytes, so that the batch is the ridge: 295.2.
        turn = decode(ONE_H100, batch=1, context_tokens=0).compute_bound_batch
        assert turn is not None
        assert turn.value == 296
        assert decode(ONE_H100, batch=295, context_tokens=0).bound == "memory"
        assert decode(ONE_H100, batch=296, context_tokens=0).bound == "compute"

    def test_a_long_context_never_turns_compute_bound(self) -> None:
        assert decode(ONE_H100, batch=1, context_tokens=32_000).compute_bound_batch is None

    def test_precision_without_units_multiplies_in_16_bits(self) -> None:
        fp8 = throughput(replace(ONE_H100, chip=A100, precision=FP8))
        assert fp8.value == 312e12
        assert "no FP8 units" in fp8.note
        assert throughput(replace(ONE_H100, chip=A100, precision=INT8)).value == 624e12
        assert throughput(replace(ONE_H100, precision=FP8)).value == 1979e12
        assert throughput(replace(ONE_H100, precision=INT4)).value == 989e12

    def test_sharing_leaves_communication_out_and_says_so(self) -> None:
        d = replace(ONE_H100, gpus=2)
        alone = decode(ONE_H100, batch=1, context_tokens=0).per_sequence.value
        both = decode(d, batch=1, context_tokens=0).per_sequence
        assert both.value == pytest.approx(2 * alone)
        assert "Communication" in both.note
        assert "Communication" in prefill(d, tokens=10).floor_ms.note

    def test_expected_experts_are_told_to_be_no_strict_bound(self) -> None:
        d = Deployment(MIXTRAL, H100, gpus=2)
        assert "uneven routing" in decode(d, batch=4, context_tokens=0).total.note
        assert "uneven routing" in prefill(d, tokens=4).read_ms.note
        assert "uneven routing" not in decode(d, batch=1, context_tokens=0).total.note
        assert "uneven routing" not in decode(ONE_H100, batch=4, context_tokens=0).total.note

    def test_a_measured_efficiency_makes_an_expectation(self) -> None:
        half = decode(ONE_H100, batch=4, context_tokens=100, efficiency=0.5)
        full = decode(ONE_H100, batch=4, context_tokens=100)
        assert half.total.value == pytest.approx(full.total.value / 2)
        assert half.total.bound == ""


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (327_680, "bytes", "327,680 bytes"),
        (10_485_760_000, "bytes", "10.49 GB"),
        (1342.0e9, "bytes", "1.342 TB"),
        (208.588, "tokens/s", "208.6 tokens/s"),
        (0.0125, "ms", "0.0125 ms"),
        (0.00001, "", "1e-05"),
        (12_345.6, "", "12,346"),
        (0, "GPUs", "0 GPUs"),
        (-1_766_823_936, "bytes", "−1.767 GB"),
        (35.2, "ms", "35.2 ms"),
        (1200.4, "", "1,200"),
    ],
)
def test_quantities_are_written_with_their_unit(value: float, unit: str, text: str) -> None:
    assert quantity(value, unit) == text
