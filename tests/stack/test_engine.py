"""The engine's options: what a command line makes of them, and what llama.cpp is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragsite.stack.engine import SLOT_TOKENS, SLOTS, STEP_TOKENS, Options, parameters, parse


def test_a_port_alone_means_the_settings_of_the_site() -> None:
    assert parse(["--port", "1"]) == (1, Options())


def test_threads_of_the_environment_give_way_to_those_named() -> None:
    assert parse(["--port", "1"], threads=3)[1].threads == 3
    assert parse(["--port", "1", "--threads", "2"], threads=3)[1].threads == 2


@pytest.mark.parametrize(
    "wrong",
    [("--slots", "0"), ("--slots", "x"), ("--cache-type-k", "q3_0"), ("--step-tokens", "-1")],
)
def test_what_cannot_be_is_refused(wrong: tuple[str, str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--port", "1", *wrong])


def test_the_usual_context_is_shared_out_among_the_slots() -> None:
    told = parameters(Path("model.gguf"), port=1, key="", options=Options())
    assert (told.n_parallel, told.n_ctx) == (SLOTS, SLOTS * SLOT_TOKENS)
    assert (told.n_batch, told.n_ubatch) == (STEP_TOKENS, STEP_TOKENS)
    assert (told.cache_prompt, told.kv_unified) == (True, False)
    assert int(told.flash_attn_type) == -1  # the server's own choice


def test_values_below_16_bits_switch_flash_attention_on() -> None:
    options = Options(cache_type_v="q4_0", caches_prompts=False, shares_context=True)
    told = parameters(Path("model.gguf"), port=1, key="secret", options=options)
    assert int(told.flash_attn_type) == 1
    assert int(told.cache_type_v) != int(told.cache_type_k)
    assert (told.cache_prompt, told.kv_unified) == (False, True)
