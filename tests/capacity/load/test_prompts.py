"""Made-up prompts: as long as wanted, and unknown to every prefix cache."""

from __future__ import annotations

import pytest

from apps.capacity.load.prompts import OWN_WORDS, WORDS, Calibration, Prompts
from apps.capacity.load.types import Lengths, Workload


def _workload(shared: int = 0) -> Workload:
    return Workload(
        kind="synthetic",
        prompt=Lengths(mean=100),
        output=Lengths(mean=10),
        shared_prefix_tokens=shared,
    )


def _words(prompts: Prompts, tokens: int) -> int:
    return len(prompts.of_tokens(tokens).text.partition("\n")[0].split())


def test_words_are_each_their_own() -> None:
    assert len(set(WORDS)) == len(WORDS) >= 128


@pytest.mark.parametrize("tokens", [25, 32, 33, 100, 2000, 150_000])
def test_a_prompt_is_as_long_as_wanted(tokens: int) -> None:
    prompts = Prompts(_workload(), Calibration(per_word=1.0, fixed=20.0))
    assert _words(prompts, tokens) == tokens - 20


@pytest.mark.parametrize("tokens", [1, 5, 20])
def test_a_prompt_shorter_than_the_template_has_a_word(tokens: int) -> None:
    assert _words(Prompts(_workload(), Calibration()), tokens) == 1


def test_calibration_is_solved_from_two_prompts() -> None:
    calibration = Calibration.of((32, 84), (160, 276))  # 36 + 1.5 a word
    assert (calibration.per_word, calibration.fixed) == (1.5, 36.0)
    assert calibration.words(186) == 100


@pytest.mark.parametrize("counted", [(40, 40), (0, 0), (500, 10), (1, 10**9)])
def test_a_server_that_does_not_count_prompts_is_not_believed(counted: tuple[int, int]) -> None:
    assert Calibration.of((32, counted[0]), (160, counted[1])) == Calibration()


def test_no_two_prompts_begin_alike() -> None:
    made = [Prompts(_workload(), Calibration()) for _ in range(2)]
    openings = [prompts.of_tokens(100).opening for prompts in made for _ in range(1000)]
    assert len(set(openings)) == 2000
    assert {len(each.split()) for each in openings} == {OWN_WORDS}


def test_a_shared_prefix_is_shared_and_what_follows_is_not() -> None:
    prompts = [Prompts(_workload(64), Calibration()).of_tokens(200) for _ in range(2)]
    assert prompts[0].opening == prompts[1].opening
    assert len(prompts[0].opening.split()) == 64
    assert prompts[0].rest.split()[:OWN_WORDS] != prompts[1].rest.split()[:OWN_WORDS]
    assert len(prompts[0].text.partition("\n")[0].split()) == 180
