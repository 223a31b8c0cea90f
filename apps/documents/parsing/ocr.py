"""Recognising the text of pictures with Tesseract, where its language data is installed.

Kreuzberg carries the engine and runs it inside this process; the data (`tesseract-ocr` and
`tesseract-ocr-<language>` on Debian) is the system's. Nothing is fetched.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from apps.documents.errors import Damaged, NoTextFound
from apps.documents.parsing.clean import clean_text
from apps.documents.parsing.kinds import PICTURES
from apps.documents.parsing.types import Part, Source

if TYPE_CHECKING:
    from PIL import Image

_FOLDERS = (
    "/usr/share/tesseract-ocr/5/tessdata",
    "/usr/share/tesseract-ocr/4.00/tessdata",
    "/usr/share/tessdata",
    "/usr/share/tesseract/tessdata",
    "/usr/local/share/tessdata",
    "/opt/homebrew/share/tessdata",
)
_NO_LANGUAGES = {"osd", "equ"}
# Each language makes every page slower.
_LANGUAGES_MAX = 4
_DPI = 300
# Letters are sharp enough at this many pixels a side, and a page takes some seconds.
_SIDE_MAX_PX = 4000
_PICTURE_MAX_PX = 100_000_000


@cache
def _folder() -> Path | None:
    named = os.environ.get("TESSDATA_PREFIX", "")
    for name in filter(None, (named, *_FOLDERS)):
        if any(Path(name).glob("*.traineddata")):
            return Path(name)
    return None


def languages() -> list[str]:
    """Tesseract's codes of the languages that can be recognised (`eng`); English comes first."""
    folder = _folder()
    found = {path.stem for path in folder.glob("*.traineddata")} if folder else set()
    return sorted(found - _NO_LANGUAGES, key=lambda code: (code != "eng", code))


def available() -> bool:
    """Whether text can be recognised on this machine."""
    return bool(languages())


def recognise_page(pdf: Any, number: int) -> str:
    """The text on the picture of a PDF page (from 0); "" where there is none or no OCR."""
    import pypdfium2 as pdfium

    if not available():
        return ""
    try:
        page = pdf[number]
        with closing(page):
            width, height = page.get_size()
            if width <= 0 or height <= 0:
                return ""
            scale = min(_DPI / 72, _SIDE_MAX_PX / max(width, height))
            return recognise(page.render(scale=scale, grayscale=True).to_pil())
    except pdfium.PdfiumError:
        return ""


def recognise(image: Image.Image) -> str:
    """The text on a picture, as lines; "" where nothing is made out."""
    import kreuzberg

    codes = "+".join(languages()[:_LANGUAGES_MAX])
    os.environ["TESSDATA_PREFIX"] = str(_folder())
    os.environ.setdefault("OMP_THREAD_LIMIT", "1")
    buffer = io.BytesIO()
    image.convert("L").save(buffer, "PNG", compress_level=1)
    config = kreuzberg.ExtractionConfig(
        use_cache=False,
        enable_quality_processing=False,
        output_format="plain",
        force_ocr=True,
        ocr=kreuzberg.OcrConfig(
            backend="tesseract",
            language=codes,
            tesseract_config=kreuzberg.TesseractConfig(language=codes, use_cache=False),
        ),
    )
    try:
        result = kreuzberg.extract_bytes_sync(buffer.getvalue(), "image/png", config=config)
    except (kreuzberg.KreuzbergError, RuntimeError):
        return ""
    text = clean_text(result.content).strip()
    return text + "\n" if text else ""


class PictureParser:
    """Pictures of text: a TIFF's frames are pages. Only where OCR was asked for."""

    def reads(self, kind: str) -> bool:
        return kind in PICTURES

    def parse(self, source: Source) -> Iterator[Part]:
        found = False
        if source.ocr and available():
            for part in _frames(source.path):
                found = found or bool(part.text.strip())
                yield part
        if not found:
            raise NoTextFound(
                "No text was found: the file is a picture. Text on it has to be recognised (OCR) "
                "first."
            )


def _frames(path: Path) -> Iterator[Part]:
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as image:
            count = int(getattr(image, "n_frames", 1))
            for number in range(count):
                image.seek(number)
                if image.width * image.height > _PICTURE_MAX_PX:
                    raise Damaged("The picture is too large to be read. Scale it down.")
                frame = image.convert("L")
                frame.thumbnail((_SIDE_MAX_PX, _SIDE_MAX_PX))
                yield Part((recognise(frame),), progress=(number + 1) / count)
    except (UnidentifiedImageError, Image.DecompressionBombError, OSError, ValueError) as exc:
        raise Damaged("The picture cannot be read: it is damaged or cut off.") from exc
