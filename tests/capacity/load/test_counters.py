"""A server's own counters, whatever it calls them."""

from __future__ import annotations

import pytest

from apps.capacity.load.counters import grown, parse

VLLM = b"""# HELP vllm:prefix_cache_hits_total x
# TYPE vllm:prefix_cache_hits_total counter
vllm:prefix_cache_hits_total{engine="0",model_name="m"} 10.0
vllm:prefix_cache_hits_total{engine="1",model_name="m"} 20.0
vllm:prefix_cache_queries_total{engine="0",model_name="m"} 100.0
vllm:request_queue_time_seconds_sum{engine="0"} 1.5
vllm:request_queue_time_seconds_count{engine="0"} 3
"""


def test_labels_are_summed() -> None:
    assert parse(VLLM)["vllm:prefix_cache_hits_total"] == 30


def test_what_grew_is_told_under_one_name() -> None:
    after = parse(VLLM.replace(b"20.0", b"60.0").replace(b" 100.0", b" 300.0"))
    told = grown(parse(VLLM), after)
    assert (told["prefix_hits"], told["prefix_queries"]) == (40, 200)
    assert told["prefix_hit_share"] == pytest.approx(0.2)
    assert "queue_mean_ms" not in told  # nobody queued


def test_waiting_is_a_mean() -> None:
    after = parse(VLLM.replace(b"} 1.5", b"} 2.5").replace(b"} 3", b"} 5"))
    assert grown(parse(VLLM), after)["queue_mean_ms"] == pytest.approx(500)


def test_other_servers_names() -> None:
    text = b"llamacpp:prompt_tokens_total 5\ntgi_request_queue_duration_sum 2\n"
    assert grown({}, parse(text)) == {"prompt_tokens": 5, "queue_s": 2}


def test_what_is_not_exported_is_not_called_zero() -> None:
    assert grown({}, {}) == {}
    assert grown(parse(VLLM), {}) == {}


def test_a_server_that_began_anew_tells_nothing() -> None:
    assert "prefix_hits" not in grown({"vllm:prefix_cache_hits_total": 99.0}, parse(VLLM))


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"<html>",
        b"\xff\xfe",
        b"a{b=\"c\"} x\nd NaN\ne +Inf\n{} 1\n 1\nf",
        b"x" * 1_000_000,
        b"a{" * 100_000,
    ],
)  # fmt: skip
def test_what_is_no_metric_is_left_aside(text: bytes) -> None:
    assert parse(text) == {}
