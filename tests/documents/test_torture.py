"""Documents that break ingestion elsewhere: each is read, or refused for a fitting reason.

Run as the worker runs them: sandboxed, parsed and cut into passages a part at a time.
"""

from __future__ import annotations

import csv
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from apps.documents.tokenizer import tokenizer_file
from worker.sandbox import Limits, SandboxRefused, run_sandboxed, run_sandboxed_stream

FOLDER = Path(settings.BASE_DIR).parent / "shared" / "data" / "torture"
LIMITS = Limits(wall_s=30, memory_bytes=1536 * 2**20)

# What is not ready, by the reason; all others are.
REFUSED = {
    "r6-user-password.pdf": "password",
    "saslprep-r6.pdf": "password",
    "testPDF_no_extract_no_accessibility_owner_user.pdf": "password",
    "testPassword4Spaces.pdf": "password",
    "testWORD_protected_passtika.docx": "password",
    "testEXCEL_protected_passtika.xlsx": "password",
    "empty_protected.pdf": "no_text",
    "empty.pdf": "no_text",
    "testOCR.pdf": "no_text",
    "testPDF_malformedXFA.pdf": "no_text",  # a form without a page
    "GHOSTSCRIPT-698804-1-fuzzed.pdf": "no_text",  # its one page can be loaded, and is blank
    "syn_only_whitespace.txt": "no_text",
    "REDHAT-1531897-0.pdf": "damaged",
    "testWORD_truncated.docx": "damaged",
    "syn_bomb_600mb.docx": "damaged",
    "random.bin": "unreadable_kind",
    "syn_elf_named.txt": "unreadable_kind",
    "quine.gz": "archive",
    "testZipEncrypted.zip": "archive",
    "gbk.zip": "archive",
    "testZIP_corrupted_oom.zip": "archive",
    "syn_zip_named.docx": "archive",
    "syn_bomb_nested.zip": "archive",
    "syn_empty.txt": "empty",
    "english.cp500.txt": "encoding",  # EBCDIC: the person is asked
}
# Snippets that are not found, and why.
KNOWN_MISSING = {
    "ContentStreamCycleType3insideType3.pdf": (
        "The letters are drawn by glyphs that draw one another; the snippet is what is drawn, "
        "PDFium gives the codes of the outer font, `ab`."
    ),
    "XiaoBiaoSong.pdf": (
        "The text is right but for the leaders of its table of contents: the snippet has them as "
        "U+22EF behind the page number, PDFium as U+2026 before it, as they stand on the page."
    ),
    "equations.docx": "The snippet is the text without its equations; here they are in it.",
}
PASSWORDS = {"(four blanks)": "    "}
UNLOCKED = {
    "r6-user-password.pdf": "pdf encryption test",
    "saslprep-r6.pdf": "Hello pdf.js world",
    "testPDF_no_extract_no_accessibility_owner_user.pdf": "Hello World",
    "testPassword4Spaces.pdf": "Just some text.",
    "testWORD_protected_passtika.docx": "This is an encrypted Word 2007 File.",
    "testEXCEL_protected_passtika.xlsx": "This is an Encrypted Excel spreadsheet.",
}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not FOLDER.is_dir(), reason="../shared/data/torture is not there"),
]


def listed() -> list[dict[str, str]]:
    with (FOLDER / "index.tsv").open(encoding="utf-8", newline="") as index:
        rows = list(csv.DictReader(index, delimiter="\t"))
    return [row for row in rows if (FOLDER / "files" / row["file"]).is_file()]


def squeezed(text: str) -> str:
    return "".join(unicodedata.normalize("NFKC", text).split())


def read(path: Path, name: str, *, ocr: bool = False) -> str:
    """The text, with its passages checked on the way. Raises a SandboxError."""
    return "".join(checked(section) for section in sections(path, name, ocr=ocr))


def sections(path: Path, name: str, *, ocr: bool) -> Iterator[dict[str, Any]]:
    tokenizer = tokenizer_file()
    payload = {
        "path": str(path),
        "name": name,
        "encoding": "",
        "ocr": ocr,
        "tokenizer_file": tokenizer,
        "max_tokens": 200,
        "overlap_tokens": 30,
    }
    function = "apps.documents.reading:read_file"
    preload = ("apps.documents.tokens:load_counter", tokenizer) if tokenizer else None
    yield from run_sandboxed_stream(function, payload, limits=LIMITS, preload=preload)


def checked(section: dict[str, Any]) -> str:
    text = "".join(section["pages"])
    for passage, start, end, *_ in section["passages"]:
        assert passage == text[start:end]
        assert passage.strip()
    assert bool(section["passages"]) == bool(text.strip())
    assert "\x00" not in text
    text.encode()  # no lone surrogate
    return text


def test_every_file_is_read_or_refused_for_a_fitting_reason() -> None:
    refused: dict[str, str] = {}
    missing: set[str] = set()
    for row in listed():
        name = row["file"]
        text = ""
        try:
            text = squeezed(read(FOLDER / "files" / name, name))
        except SandboxRefused as exc:
            refused[name] = exc.code
        if (snippet := squeezed(row["expected_snippet"] or "")) and snippet not in text:
            missing.add(name)
    assert refused == REFUSED
    assert missing == set(KNOWN_MISSING)


def unlock(path: Path, password: str) -> bytes:
    payload = {"path": str(path), "password": password}
    function = "apps.documents.parsing.unlock:unlock_file"
    return bytes(run_sandboxed(function, payload, limits=LIMITS))


def test_protected_files_open_with_their_password(tmp_path: Path) -> None:
    for row in listed():
        if row["file"] in UNLOCKED:
            password = PASSWORDS.get(row["password"], row["password"])
            copy = tmp_path / row["file"]
            copy.write_bytes(unlock(FOLDER / "files" / row["file"], password))
            assert UNLOCKED[row["file"]] in read(copy, row["file"])


@pytest.mark.parametrize("password", ["", "wrong", " ", "x" * 1_000_000, "tika\x00", "user "])
def test_another_password_does_not_open_them(password: str) -> None:
    for name in UNLOCKED:
        with pytest.raises(SandboxRefused) as caught:
            unlock(FOLDER / "files" / name, password)
        assert caught.value.code == "wrong_password"
        assert not password.strip() or password not in str(caught.value)


def test_a_file_with_only_an_owners_password_needs_none() -> None:
    path = FOLDER / "files" / "r6-owner-password.pdf"
    assert unlock(path, "") == path.read_bytes()


def test_a_scan_is_recognised_where_that_was_asked_for() -> None:
    from apps.documents.parsing import ocr

    if not ocr.available():
        pytest.skip("Tesseract's language data is not installed")
    path = FOLDER / "files" / "testOCR.pdf"
    assert "Happy New Year 2003!" in read(path, "scan.pdf", ocr=True)
