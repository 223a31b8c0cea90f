"""What is said of a failure follows from its figures, whether it showed or not."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

from apps.capacity.failures import kv_precision, long_prompt, overflowing, shared_prefix, slots
from apps.capacity.failures.drawing import Drawing, Scale
from apps.capacity.failures.overflowing import Answered
from apps.capacity.failures.recalling import Question, is_right, questions
from apps.capacity.failures.shown import Shown, write
from apps.capacity.load.measures import Record


def record(at: float, first: float | None, end: float, **more: Any) -> Record:
    outcome = "timed_out" if first is None else "complete"
    code = "timeout" if first is None else ""
    told = {"number": 0, "intended_s": at, "first_s": first, "end_s": end, "outcome": outcome}
    return Record(**{**told, "error_code": code, **more})


def held(*, during_first: float | None) -> dict[str, Any]:
    shorts = [record(0.0, 0.2, 0.3), record(5.0, during_first, 13.0), record(20.0, 20.2, 20.3)]
    longs = [record(4.0, 4.5, 15.0), record(4.0, 4.6, 16.0)]
    return slots.figures_of(shorts, longs)


def test_short_requests_are_sorted_by_when_the_slots_were_held() -> None:
    phases = held(during_first=None)["phases"]
    assert [phases[name]["requests"] for name in ("before", "during", "after")] == [1, 1, 1]
    assert phases["during"]["errors"] == {"timeout": 1}


def test_clients_that_gave_up_are_told_of() -> None:
    words = " ".join(slots.sentences_of(held(during_first=None)))
    assert "1 failed: 1 with 'timeout'" in words
    assert "The server refused none" in words


def test_requests_that_did_not_wait_are_no_failure() -> None:
    assert "did not show" in " ".join(slots.sentences_of(held(during_first=5.2)))


def test_a_machine_that_was_busy_before_is_not_laid_to_the_sessions() -> None:
    shorts = [record(0.0, None, 8.0), record(5.0, None, 13.0)]
    figures = slots.figures_of(shorts, [record(4.0, 4.5, 15.0)])
    assert "1 of 1 failed before, too" in " ".join(slots.sentences_of(figures))


def arms(worst: float, ttft_s: float) -> dict[str, Any]:
    summed = {"gaps": 9, "p50_s": 0.05, "p95_s": 0.06, "max_s": 0.1}
    during = {**summed, "max_s": worst}
    return {"before": summed, "during": during, "long_ttft_s": ttft_s}


def test_the_cure_by_smaller_slices_is_told_with_its_cost() -> None:
    slices = {512: arms(2.0, 6.0), 16: arms(0.2, 9.0)}
    words = " ".join(long_prompt.sentences_of({"streams": 3, "slices": slices}))
    assert "10 times shorter" in words
    assert "cost the long prompt 3.0 s" in words


def test_answers_that_did_not_stand_still_are_no_failure() -> None:
    slices = {512: arms(0.15, 6.0), 16: arms(0.1, 5.0)}
    words = " ".join(long_prompt.sentences_of({"streams": 3, "slices": slices}))
    assert "did not show" in words
    assert "cost the long prompt nothing" in words


def test_gaps_count_while_the_long_prompt_is_read() -> None:
    stream = record(0.0, 0.1, 9.0, pieces_s=(0.1, 0.2, 0.3, 2.3, 2.4, 5.0))
    long = record(1.0, 2.35, 3.0, wanted_prompt_tokens=1000)
    arm = long_prompt.arm_of([stream, long])
    assert (arm["before"]["gaps"], arm["during"]["gaps"]) == (2, 2)
    assert arm["during"]["max_s"] == pytest.approx(2.0)
    assert arm["long_ttft_s"] == pytest.approx(1.35)


def cached(on: float, off: float) -> dict[str, Any]:
    usual = {"requests": 3, "failed": 0, "output_per_s": 1.0, "prompt_tokens": 300}
    usual |= {"cached_tokens": 0, "cached_share": 0.0}
    seconds = (on, off, off)
    return {
        "arms": {
            arm.name: {**usual, "ttft_p50_s": each, "input_per_s": 100 / each}
            for arm, each in zip(shared_prefix.ARMS, seconds, strict=True)
        }
    }


def test_how_much_a_shared_prefix_flatters_is_computed() -> None:
    assert "4.0 times as fast" in " ".join(shared_prefix.sentences_of(cached(0.5, 2.0)))
    assert "did not show" in " ".join(shared_prefix.sentences_of(cached(2.0, 2.1)))


def precisions(*, wrong: int) -> list[str]:
    slices = ["words"] * 300 + ["numbers"] * 30
    worse = [True] * 300 + [False] * wrong + [True] * (30 - wrong)
    figures = kv_precision.figures_of(slices, {"f16": [True] * 330, "q4_0": worse})
    return kv_precision.sentences_of(figures)


def test_a_slice_that_falls_under_an_average_that_does_not_is_named() -> None:
    assert "passes a gate on the average and fails one on slices" in precisions(wrong=10)[-1]


def test_precision_that_costs_nothing_is_said_to_cost_nothing() -> None:
    assert "did not show" in precisions(wrong=0)[-1]


def test_an_average_that_falls_too_hides_nothing() -> None:
    assert "hides nothing" in precisions(wrong=30)[-1]


def test_an_overflow_is_told_in_the_words_of_the_server() -> None:
    seen = [Answered("long prompt", 400, code="400 too_long", words="too long")]
    assert "HTTP 400 (400 too_long): “too long”" in overflowing.overflow_sentences(seen)[0]


def test_questions_are_the_same_each_time_and_have_one_right_answer() -> None:
    assert questions(lists=2) == questions(lists=2)
    asked = Question("numbers", "1234\n", "234", "\n")
    assert is_right(asked, " 234\n99")
    assert not is_right(asked, "2345")


def test_a_chart_is_read_alone_and_quotes_what_it_is_told() -> None:
    drawing = Drawing("<b>&", 'a "summary" <i>')
    across, down = drawing.panel(100, (0.0, 0.0), (0.0, 7.5))
    drawing.mark(across(0.0), down(99.0), 5)
    drawing.below(across, "seconds")
    root = ElementTree.fromstring(drawing.svg())  # noqa: S314 - our own
    assert root.findtext("{http://www.w3.org/2000/svg}title") == "<b>&"


@pytest.mark.parametrize("high", [0.0, 0.02, 0.9, 1.0, 9.9, 10.0, 47.0, 1000.0])
def test_an_axis_has_few_marks_between_its_ends(high: float) -> None:
    ticks = Scale(0.0, high, 0.0, 100.0).ticks()
    assert 1 <= len(ticks) <= 10
    assert all(0 <= tick <= high + 1e-9 for tick in ticks)


def test_a_folder_holds_trace_chart_figures_and_words(tmp_path: Path) -> None:
    shown = Shown("x", "X", ["Seen."], {"a": 1}, [("h",), ("a|b",)], "<svg/>", [{"arm": "x"}])
    paths = write(shown, tmp_path / "x")
    assert set(paths) == {"trace", "figures", "chart", "seen"}
    assert "a\\|b" in paths["seen"].read_text()
