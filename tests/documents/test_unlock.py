"""Protected files open with their password exactly, and say nothing of it otherwise."""

from __future__ import annotations

import io
from pathlib import Path

import docx
import pikepdf
import pytest
from fpdf import FPDF
from msoffcrypto.format.ooxml import OOXMLFile

from apps.documents.errors import PasswordProtected, Unreadable, WrongPassword
from apps.documents.parsing.unlock import unlock_file
from tests.documents.parsed import parse


def pdf(user: str, *, owner: str = "owner", revision: int = 6) -> bytes:
    plain = FPDF()
    plain.add_page()
    plain.set_font("Helvetica", size=12)
    plain.cell(text="hidden words")
    buffer = io.BytesIO()
    with pikepdf.open(io.BytesIO(bytes(plain.output()))) as opened:
        modern = revision >= 4
        encryption = pikepdf.Encryption(
            user=user, owner=owner, R=revision, aes=modern, metadata=modern
        )  # fmt: skip
        opened.save(buffer, encryption=encryption)
    return buffer.getvalue()


def word(password: str) -> bytes:
    document = docx.Document()
    document.add_paragraph("hidden words")
    plain, protected = io.BytesIO(), io.BytesIO()
    document.save(plain)
    OOXMLFile(plain).encrypt(password, protected)
    return protected.getvalue()


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    return tmp_path / "file"


MAKERS = {
    "PDF 2.0": pdf,
    "PDF, AES-128": lambda password: pdf(password, revision=4),
    "PDF, RC4": lambda password: pdf(password, revision=3),
    "DOCX": word,
}


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("password", ["secret", "  with blanks  ", "Grüße"])
def test_the_password_opens_it_as_typed(maker: str, password: str, stored: Path) -> None:
    data = MAKERS[maker](password)
    stored.write_bytes(data)
    with pytest.raises(PasswordProtected):
        parse(data, "a.docx")
    assert "hidden words" in parse(unlock_file(str(stored), password), "a.docx").text


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize(
    "password", ["", "Secret", "secret ", " secret", "s" * 1_000_000, "secret\x00", "\ud800"]
)
def test_no_other_does_and_none_is_repeated(maker: str, password: str, stored: Path) -> None:
    stored.write_bytes(MAKERS[maker]("secret"))
    with pytest.raises(WrongPassword) as caught:
        unlock_file(str(stored), password)
    said = repr(caught.value) + repr(caught.value.__cause__) + str(caught.value)
    assert not password.strip() or password not in said
    assert caught.value.__cause__ is None


def test_a_password_that_pdf_prepares_opens_in_both_spellings(stored: Path) -> None:
    stored.write_bytes(pdf("IX"))
    assert unlock_file(str(stored), "\u2168")  # the Roman numeral nine
    assert unlock_file(str(stored), "I\u00adX")


def test_the_owners_password_opens_it_too(stored: Path) -> None:
    stored.write_bytes(pdf("user", owner="boss"))
    assert unlock_file(str(stored), "boss")


@pytest.mark.parametrize("data", [pdf(""), b"plain text"], ids=["no user password", "text"])
def test_a_file_that_opens_without_one_stays_as_it_is(data: bytes, stored: Path) -> None:
    stored.write_bytes(data)
    assert unlock_file(str(stored), "anything") == data


def test_a_broken_file_is_refused(stored: Path) -> None:
    for data in (pdf("secret")[:800], word("secret")[:3000], b"%PDF-1.7"):
        stored.write_bytes(data)
        with pytest.raises(Unreadable):
            parse(unlock_file(str(stored), "secret"), "a.docx")
