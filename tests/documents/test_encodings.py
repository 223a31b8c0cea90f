"""Bytes become the characters that were meant, or the person is asked.

Measured over 36 languages, 1,326 to 1,392 texts a size, by `decode`; DOS and Macintosh encodings
apart, which are asked about more often (share of texts):

| bytes | right | asked | wrong | with DOS and Macintosh: right | asked | wrong |
|---|---|---|---|---|---|---|
| 30 | .849 | .135 | .016 | .811 | .168 | .021 |
| 100 | .973 | .023 | .004 | .945 | .047 | .008 |
| 300 | .998 | .002 | 0 | .971 | .029 | .001 |
| 1,000 | .997 | .002 | .001 | .975 | .024 | .001 |
| 4,000 | .999 | .001 | 0 | .981 | .019 | 0 |
"""

from __future__ import annotations

import codecs
import random
from collections.abc import Iterable
from pathlib import Path

import pytest

from apps.documents.errors import DocumentError, EncodingUnclear
from apps.documents.parsing.decode import decode, find_encoding, peek
from apps.documents.parsing.encodings import ENCODINGS
from apps.documents.parsing.parse import parse
from tests.documents.translations import XQUAD, Sample, samples, xquad_samples

RUSSIAN = "Однажды, в студеную зимнюю пору, я из лесу вышел; был сильный мороз.\n" * 4
JAPANESE = "吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。\n" * 4
CHINESE = "黑豹队的防守只丢了308分，在联赛中排名第六。\n" * 4
ARABIC = "لم يتخلى فريق بانثرز سوى عن 308 نقطة، ليحتل المركز السادس.\n" * 4
ENGLISH = "Plain words in wide letters.\n" * 4
WIDE = ("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be", "utf-16", "utf-32")


def outcomes(tried: Iterable[Sample]) -> dict[str, float]:
    """The shares that came out right, wrong and as a question."""
    counts = {"right": 0, "asked": 0, "wrong": 0}
    for sample in tried:
        try:
            same = letters(decode(sample.data)) == letters(sample.text)
            counts["right" if same else "wrong"] += 1
        except EncodingUnclear:
            counts["asked"] += 1
    return {name: count / sum(counts.values()) for name, count in counts.items()}


def letters(text: str) -> str:
    return "".join(filter(str.isalnum, text))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "right", "wrong"), [(100, 0.95, 0.012), (300, 0.98, 0.005), (1000, 0.98, 0.005)]
)
def test_legacy_texts_are_decoded_and_hardly_ever_wrongly(
    size: int, right: float, wrong: float
) -> None:
    found = outcomes(samples(size=size, count=2))
    assert found["right"] >= right
    assert found["wrong"] <= wrong


@pytest.mark.skipif(
    not (XQUAD / "xquad-ru").is_dir(), reason="../shared/data/retrieval is not there"
)
def test_legacy_passages_are_decoded() -> None:
    assert outcomes(xquad_samples(size=600, count=20))["right"] >= 0.98


@pytest.mark.parametrize("encoding", WIDE)
@pytest.mark.parametrize("text", [RUSSIAN, JAPANESE, CHINESE, ARABIC, ENGLISH])
def test_wide_unicode_is_decoded_with_and_without_its_mark(text: str, encoding: str) -> None:
    assert decode(text.encode(encoding)).lstrip("\ufeff") == text


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        (JAPANESE, "iso2022_jp"),
        (CHINESE, "hz"),
        ("Café crème brûlée, naïve façade, £100\n", "latin-1"),
        ("“Don’t,” she said — it isn’t done.\n" * 3, "cp1252"),
        ("名前,年齢,住所\n佐藤太郎,30,東京\n三木英子,25,大阪\n髙橋淳,35,名古屋\n", "cp932"),
        ("你好，世界。这是一个测试文件！\n", "gbk"),
    ],
)
def test_short_texts_of_their_kind_are_decoded(text: str, encoding: str) -> None:
    assert decode(text.encode(encoding)) == text


@pytest.mark.parametrize("data", [b"\xe9", b"\xc0\xc1 \xe0\xe1", "Öl;Ärger".encode("cp1252")])
def test_what_reads_in_several_ways_is_asked_about(data: bytes) -> None:
    with pytest.raises(EncodingUnclear) as caught:
        decode(data)
    assert caught.value.code == "encoding"
    assert "Choose the encoding" in str(caught.value)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("Grüße aus Köln".encode()[:-1] + "ü".encode()[:1], "Grüße aus Köl\ufffd"),
        (b"x" * 30_000 + b"\xff" + b"y" * 30_000, "x" * 30_000 + "\ufffd" + "y" * 30_000),
        ("ü".encode() * 50 + b"\xff", "ü" * 50 + "\ufffd"),
        ("ü".encode() * 10 + "\ufffd".encode() * 5, "ü" * 10 + "\ufffd" * 5),
    ],
)
def test_utf8_with_a_few_broken_bytes_stays_utf8(data: bytes, text: str) -> None:
    assert decode(data) == text


def test_plain_ascii_with_signs_of_other_encodings_stays_as_it_is() -> None:
    for text in ("a ~{ tilde }~ b\n", "\x1b$ escape \x1b(B\n", "~{abc~}\n"):
        assert decode(text.encode()) == text


def test_legacy_text_far_behind_plain_ascii_is_found(tmp_path: Path) -> None:
    path = tmp_path / "late.txt"
    path.write_bytes(b"plain ascii words\n" * 200_000 + (RUSSIAN * 20).encode("cp1251"))
    assert find_encoding(path) == "cp1251"


def test_text_that_changes_its_encoding_midway_is_asked_about(tmp_path: Path) -> None:
    path = tmp_path / "mixed.txt"
    path.write_bytes((JAPANESE * 2000).encode("euc-jp") + (RUSSIAN * 10_000).encode("cp1251"))
    with pytest.raises(EncodingUnclear):
        find_encoding(path)


def test_a_chosen_encoding_is_used_as_said() -> None:
    data = "Привет".encode("cp1251")
    assert decode(data, encoding="cp1251") == "Привет"
    assert decode(data, encoding="Windows-1251") == "Привет"
    assert decode("Привет".encode(), encoding="cp1251") == "РџСЂРёРІРµС‚"
    assert "\ufffd" in decode(data, encoding="utf-8")


@pytest.mark.parametrize("name", ["nonsense", "hex", "rot13", "utf-7", "idna", "\x00", "x" * 999])
def test_an_encoding_that_is_not_offered_is_refused(name: str) -> None:
    with pytest.raises(EncodingUnclear, match="not known"):
        decode(b"abc", encoding=name)


def test_offered_encodings_are_distinct_and_work() -> None:
    names = [codecs.lookup(code).name for code, _ in ENCODINGS]
    assert len(set(names)) == len(names) >= 25
    for code, label in ENCODINGS:
        assert label
        assert decode("abc".encode(code), encoding=code).lstrip("\ufeff") == "abc"


@pytest.mark.parametrize(
    ("declared", "encoding"),
    [("windows-1251", "cp1251"), ("iso-8859-1", "cp1252"), ("gb2312", "gbk"), ("hex", "cp1251")],
)
def test_a_declared_charset_is_believed_where_it_fits(declared: str, encoding: str) -> None:
    words = {"cp1252": "naïve “café”", "gbk": "镕基", "cp1251": RUSSIAN}[encoding]
    data = f'<meta charset="{declared}">{words}'.encode(encoding)
    assert words in decode(data, declared=True)


def test_a_declared_charset_is_not_believed_against_the_bytes() -> None:
    for declared in ("utf-16", "windows-1251", "utf-7", "zip", "unicode_escape"):
        text = f'<meta charset="{declared}">Grüße 日本 +ADw-script+AD4-'
        assert decode(text.encode(), declared=True) == text


@pytest.mark.parametrize("seed", range(60))
def test_any_bytes_give_clean_text_or_a_reason(seed: int, tmp_path: Path) -> None:
    picker = random.Random(seed)  # noqa: S311 - not a secret
    path = tmp_path / "any"
    path.write_bytes(hostile_bytes(picker))
    encoding = picker.choice(["", "", "utf-16", "cp1252", "gb18030"])
    for name in ("a.txt", "a.csv", "a.md", "a.tsv"):
        try:
            text = "".join(part.text for part in parse(path, name, encoding=encoding))
        except DocumentError:
            continue
        text.encode()  # no lone surrogate
        assert "\x00" not in text


def hostile_bytes(picker: random.Random) -> bytes:
    """Runs of bytes that encodings, quotes, line ends and form feeds are made of."""
    alphabets = (
        bytes(range(256)), b'"\n', b",;\t|\"\r\n", b"\x00\xff\xfe\xd8", b"#`~- \n", b"\x0c\n ab",
        "é日🎉\u202e\ufeff".encode(), b"\xed\xa0\x80\xf4\x90", b"\x1b$B~{(", b"word, and more ",
    )  # fmt: skip
    runs = (
        bytes(picker.choices(picker.choice(alphabets), k=picker.randrange(1, 400)))
        for _ in range(picker.randrange(1, 6))
    )
    return b"".join(runs) * picker.choice([1, 1, 30])


def test_a_files_beginning_is_read_even_where_it_is_unclear() -> None:
    assert len(peek(b"\xe9")) == 1
    assert peek(b"") == ""
