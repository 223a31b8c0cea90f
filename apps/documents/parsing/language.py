"""The language a text is written in."""

from __future__ import annotations

import kreuzberg

_SAMPLE_CHARS = 6000
_MIN_CHARS = 40
# ISO 639-3, as the detector says, to ISO 639-1.
_SHORT = {
    "ara": "ar", "ben": "bn", "bul": "bg", "cat": "ca", "ces": "cs", "cmn": "zh", "zho": "zh",
    "dan": "da", "deu": "de", "ell": "el", "eng": "en", "est": "et", "fas": "fa", "pes": "fa",
    "fin": "fi", "fra": "fr", "guj": "gu", "heb": "he", "hin": "hi", "hrv": "hr", "hun": "hu",
    "ind": "id", "ita": "it", "jpn": "ja", "kan": "kn", "kat": "ka", "kor": "ko", "lat": "la",
    "lav": "lv", "lit": "lt", "mal": "ml", "mar": "mr", "nep": "ne", "nld": "nl", "nob": "nb",
    "nor": "no", "pol": "pl", "por": "pt", "ron": "ro", "rus": "ru", "slk": "sk", "slv": "sl",
    "spa": "es", "srp": "sr", "swe": "sv", "tam": "ta", "tel": "te", "tha": "th", "tur": "tr",
    "ukr": "uk", "urd": "ur", "vie": "vi",
}  # fmt: skip


def has_enough(text: str) -> bool:
    """Whether there is text to tell a language by."""
    return len(text) >= _MIN_CHARS and not text.isspace()


def guess_language(text: str) -> str:
    """ISO 639-1 code of the text's middle, or "" where the detector is not sure."""
    start = max(0, (len(text) - _SAMPLE_CHARS) // 2)
    sample = text[start : start + _SAMPLE_CHARS]
    if len(sample.strip()) < _MIN_CHARS:
        return ""
    config = kreuzberg.ExtractionConfig(
        use_cache=False, language_detection=kreuzberg.LanguageDetectionConfig(min_confidence=0.7)
    )
    try:
        result = kreuzberg.extract_bytes_sync(sample.encode(), "text/plain", config=config)
    except kreuzberg.KreuzbergError:
        return ""
    found = result.detected_languages or []
    return _SHORT.get(found[0], found[0] if len(found[0]) == 2 else "") if found else ""
