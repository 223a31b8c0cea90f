"""Words, stems, bigrams and term ids."""

from __future__ import annotations

import random
import time

import pytest

from apps.retrieval.analysis import TERM_SPACE, detect_language, terms_of, words_of
from apps.retrieval.normalization import normalize


def test_inflections_share_a_term() -> None:
    assert len(set(terms_of("connect connected connecting Connection CONNECTIONS"))) == 1


def test_term_ids_do_not_change_between_releases() -> None:
    assert terms_of("Running invoices 2024") == [268758335, 172583036, 339536993]


def test_term_ids_are_dimensions_of_a_sparse_vector() -> None:
    assert all(1 <= term < TERM_SPACE for term in terms_of(" ".join(map(str, range(5000)))))


@pytest.mark.parametrize(
    ("written", "same"),
    [
        ("ﬁnance", "finance"),
        ("ＡＢＣ１２３", "abc123"),
        ("re\u0301sume\u0301", "résumé"),
        ("co\u00adoperation", "cooperation"),
        ("STRASSE", "straße"),
        ("カタカナ", "ｶﾀｶﾅ"),
    ],
)
def test_other_encodings_of_a_word_share_its_terms(written: str, same: str) -> None:
    assert terms_of(written) == terms_of(same)


@pytest.mark.parametrize(
    ("written", "asked"),
    [
        ("the ﬁnance oﬃce", "finance office"),
        ("ＡＢＣ　１２３", "ABC 123"),
        ("a co\u00adop\u00ader\u00adation", "cooperation"),
        ("pass\u202eword\u202c", "password"),
        ("the \u202edrowssap\u202c", "password"),
        ("\u2067pass\u2069\u200eword", "password"),
        ("pass\u200b\u2060\ufeffword", "password"),
        ("pass\U000e0061\ufe0fword", "password"),
        ("cafe\u0301 nai\u0308ve", "café naïve"),
        ("Ångström", "A\u030angstro\u0308m"),
        ("ﻣﺪﺭﺳﺔ", "مدرسة"),
        ("مــدرســة", "مدرسة"),
        ("豈更", "\u8c48\u66f4"),
        ("葛\U000e0100城", "葛城"),
        ("the in\u00adforma\u00ad\n  tion", "information"),
        ("the informa-\ntion and regu‐\nlation", "information regulation"),
        ("well-\nknown, well-known", "well known"),
        ("in New-\nYork", "new york"),
        ("the author’s “word”", "author's word"),
        ("Ⅳ ½", "IV 1⁄2"),
    ],
)
def test_what_is_asked_plainly_is_found_however_it_is_written(written: str, asked: str) -> None:
    question = {word.term for word in words_of(normalize(asked))}
    assert question <= set(terms_of(written))
    assert normalize(written) == normalize(normalize(written))


def test_plain_text_is_normal_already() -> None:
    for text in ('Plain, old - text.\n\tIt\'s "so"; a-b, 1-\n2 and x_y!', "naïve 東京", ""):
        assert normalize(text) == text


def test_the_normal_form_holds_nothing_that_encoders_refuse() -> None:
    assert normalize("a\x00b\ud800c\x9f") == "a b c "


def test_normalising_any_characters_twice_changes_nothing() -> None:
    picker = random.Random(3)  # noqa: S311 - not a secret
    odd = "\u00ad\n-\u202e\u202d\u202c\u3164\ufdfa\u2010\u0301\u0323\ufb01\uff0d\u0640a b"
    for _ in range(3000):
        text = "".join(
            picker.choice(odd) if picker.random() < 0.5 else chr(picker.randrange(0x110000))
            for _ in range(picker.randrange(12))
        )
        assert normalize(normalize(text)) == normalize(text)


def test_numbers_and_parts_of_identifiers_are_kept() -> None:
    assert len(terms_of("error_code 0x80070005, version 2.1")) == 6


@pytest.mark.parametrize(
    ("text", "part"), [("黑豹队的防守", "防守"), ("東京タワーの高さ", "タワー"), ("ค่าใช้จ่าย", "จ่าย")]
)
def test_scripts_without_spaces_match_by_pairs_of_characters(text: str, part: str) -> None:
    assert set(terms_of(part)) <= set(terms_of(text))


def test_latin_words_and_numbers_inside_chinese_text_stay_whole() -> None:
    assert set(terms_of("NFL 24")) <= set(terms_of("领先国家橄榄球联盟NFL以24次拦截"))


def test_combining_vowel_signs_do_not_cut_a_hindi_word() -> None:
    assert len(words_of("नमस्ते दुनिया")) == 2


def test_offsets_point_at_the_words() -> None:
    text = "The «Čeští» runners' ½ 東京都 re\u0301sume\u0301!"
    found = [text[word.start : word.end] for word in words_of(text)]
    assert found == ["The", "Čeští", "runners", "½", "½", "東京", "京都", "re\u0301sume\u0301"]


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("How many points did the Panthers defense surrender?", "en"),
        ("Wie viele Punkte hat die Verteidigung der Panthers abgegeben?", "de"),
        ("¿Cuántos puntos dejó pasar la defensa de los Panthers?", "es"),
        ("黑豹队的防守丢了多少分？", "zh"),
        ("パンサーズの守備は何点を失いましたか", "ja"),
        ("Сколько очков потеряла защита Пантерз?", "ru"),
        ("كم عدد النقاط التي تخلت عنها؟", "ar"),
        ("แนวรับของแพนเธอร์สเสียไปกี่แต้ม", "th"),
        ("What did de la Cruz say in Los Angeles?", "en"),
        ("What can a tenant manager do?", "en"),
        ("Can I do it as a member?", "en"),
        ("Como faço para enviar um documento?", "pt"),
        ("Panthers", ""),
        ("🎉🎉🎉 ??? 123", ""),
        ("", ""),
    ],
)
def test_the_language_of_a_question_is_told(text: str, language: str) -> None:
    assert detect_language(text) == language


@pytest.mark.parametrize(
    "text",
    [
        "a" * 1_000_000,
        "é" * 1_000_000,
        "a\u0301" * 500_000,
        "\x00\x01\x1f" * 300_000,
        "水" * 200_000,
        "\ud800" * 1000,
        "\u0301" * 500_000,
        "\u0301\u0323" * 300_000,
        "\u202eab" * 200_000,
        "aé-\n" * 200_000,
        "ﷺ" * 20_000,
    ],
)
def test_hostile_text_takes_no_time(text: str) -> None:
    start = time.process_time()
    terms_of(text)
    assert time.process_time() - start < 2.0
