"""Make a follow-up stand alone by rule: put what it leaves out back in from the question before.

Where it only names another year or another name, that takes the old one's place; otherwise both
questions are searched together. No number, name or "not" of the follow-up is ever dropped.
"""

from __future__ import annotations

import re

from apps.chat.pipeline.citations import content_terms, split_sentences
from apps.chat.pipeline.followups import words as w
from apps.retrieval.analysis import detect_language

# Of a longer question only its salient words are searched along: more of it than of the follow-up
# would find the old question's passages again.
BASE_CHARS = 240
SALIENT_WORDS = 16
NAMES = 2  # of the last answer, for what a pronoun may stand for
ANSWER_CHARS = 400
_CAPITAL = "[A-ZÀ-ÖØ-Þ]"
_NAME = rf"(?!I\b){_CAPITAL}\w*(?:[ -](?!I\b){_CAPITAL}\w*)*"
_NAMES = re.compile(rf"(?<![\w-])(?<!\d ){_NAME}")  # no unit: "64 KiB"
_SLOT_WORDS = r"(?:(?:in|for|of|at|on|during|the|year)\s+)*"
_ONLY_NAME = re.compile(rf"(?i:{_SLOT_WORDS})({_NAME})")
_YEAR_SLOT = re.compile(r"(?i)\b(?:in|for|of|at|on|during|the|year)\b|^(?:那么|那|還有|还有)|年|呢")
_LAST_MARK = re.compile(r"[\s?!.؟？。]+$")


def combine(question: str, base: str, *, answer: str = "") -> str:
    """`question` with what it needs of `base`, a question that stands alone, and of its answer."""
    question, base = w.flat(question), w.flat(base)
    slot = _slot_of(question)
    if replaced := _with_year(slot, base) or _with_name(slot, base):
        return replaced
    kept = base if len(base) <= BASE_CHARS else " ".join(_salient(base))
    if not slot or kept.casefold().endswith(question.casefold()):
        return kept
    return " ".join([kept, *_meant(question, kept, answer), question])


def _slot_of(question: str) -> str:
    """The question without what leads it in ("and", "what about") and its mark."""
    led = w.ABOUT.match(question) or w.LEADING.match(question)
    return _LAST_MARK.sub("", question[led.end() :] if led else question).lstrip("¿ ")


def _with_year(slot: str, base: str) -> str:
    named, years = w.YEAR.findall(slot), set(w.YEAR.findall(base))
    rest = _YEAR_SLOT.sub("", w.YEAR.sub("", slot)).split()
    foreign = bool(rest) and rest[0].casefold() in w.FOREIGN_CONNECTIVES and len(rest) <= 2
    if len(named) != 1 or len(years) != 1 or (rest and not foreign) or w.NEGATION.search(slot):
        return ""
    return w.YEAR.sub(named[0], base)


def _with_name(slot: str, base: str) -> str:
    """English only: elsewhere capitals do not tell names."""
    found = _ONLY_NAME.fullmatch(slot)
    if found is None or detect_language(base) != "en":
        return ""
    names = [each for each in _NAMES.finditer(base) if each.start()]
    if len({each[0] for each in names}) != 1 or found[1] == names[0][0]:
        return ""
    return base.replace(names[0][0], found[1])


def _salient(base: str) -> list[str]:
    words = re.findall(r"[^\W_]+(?:[.,'-][^\W_]+)*", base)
    kept = dict.fromkeys(word for word in words if content_terms(word) or w.NUMBER.search(word))
    return list(kept)[:SALIENT_WORDS]


def _meant(question: str, base: str, answer: str) -> list[str]:
    """Names that the last answer brought up, where the follow-up points at something."""
    words = {word.casefold() for word in re.findall(r"[^\W_]+", question)}
    if not words & w.PRONOUNS or detect_language(base) != "en":
        return []
    answer = answer[:ANSWER_CHARS]
    known = base.casefold()
    names = dict.fromkeys(
        name[0]
        for start, end in split_sentences(answer)
        for name in _NAMES.finditer(answer, start, end)
        # A single capitalised word at a sentence's start is any word.
        if (name.start() > start or " " in name[0]) and name[0].casefold() not in known
    )
    return [f"{', '.join(list(names)[:NAMES])}."] if names else []
