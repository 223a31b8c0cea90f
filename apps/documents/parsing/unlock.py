"""Opening a file that is protected by a password.

Runs inside the sandbox. The password is tried as it was typed, blanks and all, and then as the
format may have prepared it; it is in no message, no log and no exception.
"""

from __future__ import annotations

import io
import stringprep
import unicodedata
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from apps.documents.errors import Damaged, PasswordProtected, WrongPassword

_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
# No format takes more; deriving a key from a megabyte would only burn time.
_PASSWORD_MAX_CHARS = 1024
_MANIFEST_MAX_BYTES = 1024 * 1024
_WRONG = "The password does not open this file. Type it as its author gave it, blanks too."
_DAMAGED = (
    "The file cannot be opened: it is damaged, or protected in a way that is not known here. "
    "Save a copy without a password and upload that."
)


def unlock_file(path: str, password: str) -> bytes:
    """The file without its protection; as it is, where it opens without a password.

    Raises WrongPassword; PasswordProtected for a kind that cannot be unlocked here; Damaged.
    """
    with Path(path).open("rb") as file:
        head = file.read(1024)
    if b"%PDF-" in head:
        return _unlock_pdf(path, password)
    if head.startswith(_OLE):
        return _unlock_office(path, password)
    if is_locked_odf(path):
        raise PasswordProtected(
            "An OpenDocument file cannot be opened with its password here. "
            "Save a copy without one and upload that."
        )
    return Path(path).read_bytes()


def is_locked_odf(path: str | Path) -> bool:
    """Whether an OpenDocument file needs a password."""
    try:
        with zipfile.ZipFile(path) as archive, archive.open("META-INF/manifest.xml") as manifest:
            return b":encryption-data" in manifest.read(_MANIFEST_MAX_BYTES)
    except (zipfile.BadZipFile, zlib.error, KeyError, OSError, RuntimeError, ValueError, EOFError):
        return False


def is_locked_office(path: Path) -> bool:
    """Whether an OLE file (DOC, XLS, PPT, or a protected DOCX and so on) needs a password."""
    import msoffcrypto  # with it comes all of cryptography: only for the few files it is about

    try:
        with path.open("rb") as file:
            return bool(msoffcrypto.OfficeFile(file).is_encrypted())
    except MemoryError:
        raise
    except Exception:  # foreign code over hostile bytes: what it cannot read is read elsewhere
        return False


def _spellings(password: str) -> Iterator[str]:
    """As typed; prepared by SASLprep (RFC 4013), as PDF 2.0 demands; in Unicode's two forms."""
    if not password or len(password) > _PASSWORD_MAX_CHARS or "\x00" in password:
        return
    try:
        password.encode()
    except UnicodeEncodeError:
        return
    kept = (char for char in password if not stringprep.in_table_b1(char))
    prepared = "".join(" " if stringprep.in_table_c12(char) else char for char in kept)
    forms = (
        password,
        unicodedata.normalize("NFKC", prepared),
        unicodedata.normalize("NFC", password),
        unicodedata.normalize("NFD", password),
    )
    yield from dict.fromkeys(form for form in forms if form)


def _as_bytes(password: str) -> Iterator[bytes]:
    """UTF-8 for newer files; one byte a character, as files before PDF 2.0 have it."""
    found: dict[bytes, None] = {}
    for spelling in _spellings(password):
        for encoding in ("utf-8", "pdfdoc", "cp1252", "latin-1"):
            with suppress(UnicodeEncodeError, LookupError):
                found[spelling.encode(encoding)] = None
    yield from found


def _unlock_pdf(path: str, password: str) -> bytes:
    import pikepdf

    if _opens_as_it_is(path):
        return Path(path).read_bytes()
    copy = io.BytesIO()
    try:
        for attempt in _as_bytes(password):
            with (
                _quietly(),
                suppress(pikepdf.PasswordError),
                pikepdf.open(path, password=attempt) as pdf,
            ):
                pdf.save(copy, encryption=False)
                return copy.getvalue()
    except (pikepdf.PdfError, ValueError, RuntimeError):
        raise Damaged(_DAMAGED) from None
    raise WrongPassword(_WRONG)


@contextmanager
def _quietly() -> Iterator[None]:
    """QPDF warns of a password that a broken file did not need."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _opens_as_it_is(path: str) -> bool:
    """Asked of PDFium, which reads it: QPDF also opens files whose owner's password is empty."""
    import pypdfium2 as pdfium

    try:
        pdfium.PdfDocument(path).close()
    except pdfium.PdfiumError:
        return False
    return True


def _unlock_office(path: str, password: str) -> bytes:
    import msoffcrypto
    from msoffcrypto.exceptions import DecryptionError, InvalidKeyError

    if not is_locked_office(Path(path)):
        return Path(path).read_bytes()
    with Path(path).open("rb") as file:
        for attempt in _spellings(password):
            try:
                return _decrypted(msoffcrypto.OfficeFile(file), attempt)
            except (InvalidKeyError, DecryptionError):
                continue
            except MemoryError:
                raise
            except Exception:  # foreign code over hostile bytes
                raise Damaged(_DAMAGED) from None
    raise WrongPassword(_WRONG)


def _decrypted(office: Any, password: str) -> bytes:
    from msoffcrypto.format.ooxml import OOXMLFile

    # The old binary formats always verify, and do not take the option.
    options = {"verify_password": True} if isinstance(office, OOXMLFile) else {}
    office.load_key(password=password, **options)
    copy = io.BytesIO()
    office.decrypt(copy)
    return copy.getvalue()
