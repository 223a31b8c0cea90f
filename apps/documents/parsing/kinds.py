"""What a file is, told from its content; its name only breaks ties between kinds of text."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path, PurePosixPath

from kreuzberg import detect_mime_type_from_bytes  # type: ignore[attr-defined]

from apps.documents.errors import (
    ArchiveRefused,
    Damaged,
    EmptyFile,
    PasswordProtected,
    UnreadableKind,
)
from apps.documents.parsing.decode import peek
from apps.documents.parsing.unlock import is_locked_odf, is_locked_office

PDF = "application/pdf"
HTML = "text/html"
MARKDOWN = "text/markdown"
CSV = "text/csv"
TEXT = "text/plain"
_OOXML = "application/vnd.openxmlformats-officedocument."
DOCX = _OOXML + "wordprocessingml.document"
PPTX = _OOXML + "presentationml.presentation"
XLSX = _OOXML + "spreadsheetml.sheet"
EPUB = "application/epub+zip"
XLS = "application/vnd.ms-excel"
XLSB = "application/vnd.ms-excel.sheet.binary.macroenabled.12"
ODS = "application/vnd.oasis.opendocument.spreadsheet"
SPREADSHEETS = {XLSX, XLSB, XLS, ODS}
# Pictures that may be of text.
PICTURES = {
    "image/png", "image/jpeg", "image/tiff", "image/webp", "image/bmp", "image/gif",
}  # fmt: skip
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ARCHIVES = {
    "application/zip", "application/gzip", "application/x-tar", "application/x-7z-compressed",
    "application/x-gzip", "application/x-gtar", "application/vnd.rar", "application/x-rar",
    "application/x-bzip2", "application/x-xz", "application/zstd",
}  # fmt: skip
_ARCHIVE_MAGIC = (b"Rar!", b"7z\xbc\xaf\x27\x1c", b"BZh", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd")
_TEXT_BY_NAME = {
    ".md": MARKDOWN, ".markdown": MARKDOWN, ".mkd": MARKDOWN, ".csv": CSV,
    ".tsv": "text/tab-separated-values", ".html": HTML, ".htm": HTML, ".xhtml": HTML,
}  # fmt: skip
# Kinds of text, and of old Office file, that only the name tells apart.
_STRUCTURED_BY_NAME = {
    ".eml": "message/rfc822", ".rst": "text/x-rst", ".org": "text/x-org",
    ".tex": "application/x-latex", ".xml": "application/xml", ".json": "application/json",
    ".yaml": "application/yaml", ".yml": "application/yaml",
    ".ipynb": "application/x-ipynb+json", ".svg": "image/svg+xml",
    ".fb2": "application/x-fictionbook+xml", ".opml": "application/xml",
}  # fmt: skip
_OLE_BY_NAME = {
    ".doc": "application/msword", ".xls": XLS,
    ".ppt": "application/vnd.ms-powerpoint", ".msg": "application/vnd.ms-outlook",
}  # fmt: skip
# Kinds of text that can be told without the name.
_TEXTUAL = {"application/json", "application/rtf", "image/svg+xml", "message/rfc822"}
_HEAD_BYTES = 1024 * 1024
_PLAIN_BYTES = 4096
_BINARY_BYTES = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")


def detect_kind(path: Path, name: str) -> str:
    """The MIME type of the file. Raises EmptyFile, ArchiveRefused or UnreadableKind.

    Told from the first megabyte, but for zips, whose directory is at the end.
    """
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    if not head.strip() and path.stat().st_size <= _HEAD_BYTES:
        raise EmptyFile("The file is empty.")
    return _kind(path, head, PurePosixPath(name.lower()).suffix)


def _kind(path: Path, data: bytes, suffix: str) -> str:
    if _is_pdf(data, suffix):
        return PDF
    sniffed = _sniff(data)
    # Words may begin as files of other kinds do: "BMP", "PKD1", "MZ". Those kinds have a control
    # byte among their first, and a text has none.
    if _is_plain(data[:_PLAIN_BYTES]):
        return sniffed if sniffed in _TEXTUAL else _text_kind(data, suffix)
    if data.startswith(_ARCHIVE_MAGIC):
        raise _archive()
    if data.startswith(b"PK"):
        return _zip_kind(path, suffix)
    if data.startswith(_OLE):
        if is_locked_office(path):
            raise PasswordProtected(
                "The file is protected by a password. Enter it, or upload a copy without one."
            )
        if suffix not in _OLE_BY_NAME:
            raise _unreadable()
        return _OLE_BY_NAME[suffix]
    if sniffed in _ARCHIVES:
        raise _archive()
    if sniffed and not sniffed.startswith("text/") and sniffed != "application/xml":
        return _refuse_pictures(sniffed)
    if not sniffed and _looks_binary(data):
        raise _unreadable()
    return _text_kind(data, suffix)


def _is_pdf(data: bytes, suffix: str) -> bool:
    """Readers accept junk before the header within the first kilobyte; a text may be about it."""
    if data.startswith(b"%PDF-"):
        return True
    return b"%PDF-" in data[:1024] and (suffix == ".pdf" or not _is_plain(data))


def _is_plain(data: bytes) -> bool:
    return _BINARY_BYTES.search(data) is None


def _zip_kind(path: Path, suffix: str) -> str:
    """Office files and e-books are zips: told by the entries inside."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = set(archive.namelist()[:2000])
            mimetype = archive.read("mimetype")[:100] if "mimetype" in names else b""
    except (zipfile.BadZipFile, RuntimeError, NotImplementedError, EOFError, ValueError, OSError):
        if suffix in {".docx", ".pptx", ".xlsx", ".odt", ".epub"}:
            raise Damaged(
                "The file is damaged or was cut off. Open it in its program, save it again, "
                "and upload the copy."
            ) from None
        raise _archive() from None
    if mimetype.startswith(b"application/vnd.oasis") and is_locked_odf(path):
        raise PasswordProtected(
            "The file is protected by a password. Save a copy without one and upload that."
        )
    if mimetype.startswith((b"application/epub+zip", b"application/vnd.oasis.opendocument")):
        return mimetype.decode("ascii", errors="replace").strip()
    if "xl/workbook.bin" in names:
        return XLSB
    for folder, kind in (("word/", DOCX), ("ppt/", PPTX), ("xl/", XLSX)):
        if any(entry.startswith(folder) for entry in names):
            return kind
    if "META-INF/container.xml" in names:
        return EPUB
    raise _archive()


def _text_kind(data: bytes, suffix: str) -> str:
    head = peek(data[:4096]).lstrip().lower()
    if head.startswith(("<!doctype html", "<html", "<head", "<body", "<h1")):
        return HTML
    if head.startswith("{\\rtf"):
        return "application/rtf"
    if suffix in _TEXT_BY_NAME:
        return _TEXT_BY_NAME[suffix]
    if suffix in _STRUCTURED_BY_NAME:
        return _STRUCTURED_BY_NAME[suffix]
    if head.startswith("<?xml"):
        return "application/xml"
    return TEXT


def _looks_binary(data: bytes) -> bool:
    """Whether control bytes are too many for text in any encoding (UTF-16 is let through)."""
    sample = data[:8192]
    if sample.startswith((b"\xff\xfe", b"\xfe\xff", b"\x7fELF", b"MZ")):
        return sample.startswith((b"\x7fELF", b"MZ"))
    text = peek(sample)
    controls = sum(1 for char in text if ord(char) < 32 and char not in "\t\n\r\f\x1b\x85")
    return controls > len(text) // 50


def _sniff(data: bytes) -> str:
    try:
        return str(detect_mime_type_from_bytes(data))
    except Exception:
        return ""


def _refuse_pictures(kind: str) -> str:
    if kind in PICTURES:
        return kind
    if kind.startswith(("image/", "audio/", "video/")) and kind != "image/svg+xml":
        raise UnreadableKind(
            "Pictures and recordings hold no text that can be read here. "
            "Upload a version with text in it."
        )
    return kind


def _archive() -> ArchiveRefused:
    return ArchiveRefused("Archives are not opened. Unpack it and upload the files inside.")


def _unreadable() -> UnreadableKind:
    return UnreadableKind(
        "The file is of no kind that can be read here. Upload it as PDF, an Office document, "
        "HTML, Markdown, CSV or plain text."
    )
