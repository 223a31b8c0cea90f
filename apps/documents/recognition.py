"""Recognising the text of pictures: whether pages offer it."""

from __future__ import annotations

from django.conf import settings

from apps.documents.parsing import ocr


def offers_recognition() -> bool:
    """Whether a person may ask for it: as OCR says, else where this machine has Tesseract's data.

    The workers do it; where they run on other machines than the site, OCR says what they have.
    """
    return bool(settings.OCR == "on" or (settings.OCR == "auto" and ocr.available()))
