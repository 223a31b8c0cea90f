"""A question about what stands under a heading, or in a row of a table, in the text's language.

A heading that is a question, or that begins like one ("How passages are found"), asks for itself;
one that tells what to do ("Add a parser") is asked how; of others the words are quoted, for what
is a name and what is not cannot be told from them. Languages without a pattern get their headings
alone, with a question mark.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

LEAST_CHARS, MOST_CHARS = 3, 70
_NUMBERING = re.compile(
    r"^(?:(?:chapter|section|kapitel|teil|chapitre|partie|capítulo)\s+)?"
    r"(?:\d+(?:\.\d+)*[.):]?|[IVX]+[.):]|§\s*\d+\w?|[a-z][.)])\s+",
    re.IGNORECASE,
)
_MARKUP = re.compile(r"(?<!\w)[*_`#]+(?=\S)|(?<=\S)[*_`#]+(?!\w)")
_QUESTION_MARKS = ("?", "？", "؟")
_UNREADABLE = re.compile(r"[<>{}|=\\]|https?://|\w\(\)|\ufffd")
_ASKED = {
    "en": "What do the documents say about “{}”?",
    "de": "Was steht in den Dokumenten über „{}“?",
    "fr": "Que disent les documents sur « {} » ?",
    "es": "¿Qué dicen los documentos sobre «{}»?",
    "ar": "ماذا تقول المستندات عن «{}»؟",
    "zh": "文档中关于“{}”有哪些内容？",
}
# What a heading becomes that begins with one of the words.
_OPENED = {
    "en": (
        ("how what where which who why whether", "Can you explain {}?"),
        ("when if", "What happens {}?"),
    ),
    "de": (
        ("wie was wann wo welche welcher welches wer warum ob", "Kannst du erklären, {}?"),
        ("wenn falls", "Was geschieht, {}?"),
    ),
    "fr": (("comment pourquoi quand où", "Peux-tu expliquer {} ?"),),
    "es": (("cómo qué cuándo dónde quién por", "¿Puedes explicar {}?"),),
}
_DONE_TEXT = """
accept activate add allow apply assign build choose compare configure connect convert create
define delete deploy disable download edit enable enter find get give improve insert install
invite join keep make manage merge migrate prepare protect publish read rebuild recover register
remove rename renew repair replace restore rotate secure select submit translate troubleshoot
unlock upload use validate verify write
"""
_DONE = frozenset(_DONE_TEXT.split())
# Something done, as "Changing the model" is and "Building 4" is not, where one of these follows.
_DONE_OR_NAMED_TEXT = """
archive ask attach back book buy call cancel change check clean close contact copy cut debug
export file fix handle import limit link load log mark measure monitor mount move name open order
pack pay pick plan print put record report request reset restart return review run save schedule
search send set share ship show sign start stop store switch test track turn update upgrade view
watch
"""
_DONE_OR_NAMED = frozenset(_DONE_OR_NAMED_TEXT.split())
_BEHIND_TEXT = """
a all an another any as at between by for from in it new on one out several the to up with without
your
"""
_BEHIND = frozenset(_BEHIND_TEXT.split())
# Headings that say where one is rather than what is told there.
_EMPTY_TEXT = """
about abstract appendix background changelog conclusion contents details examples faq figures
foreword general glossary history imprint index information intro introduction license misc
miscellaneous note notes other others overview page preface references settings sheet summary
table tables usage anhang allgemeines beispiele einleitung einführung fazit glossar hinweis
hinweise impressum inhalt inhaltsverzeichnis literatur sonstiges vorwort zusammenfassung übersicht
überblick annexe avant-propos bibliographie exemples glossaire remarques résumé sommaire
généralités anexo bibliografía ejemplos glosario índice introducción notas prólogo resumen 目录 前言
简介 概述 附录 总结 参考文献 مقدمة الفهرس ملخص خاتمة
"""
_EMPTY = frozenset(_EMPTY_TEXT.split())


@dataclass(frozen=True)
class Asked:
    """A question, and how well it reads: 0 and more."""

    text: str
    worth: int


def about_heading(heading: str, language: str) -> Asked | None:
    """A question that the text under `heading` answers; None where none reads well.

    `language` is that of the text, an ISO 639-1 code, "" where it is not known.
    """
    title = tidy(heading)
    if not _is_readable(title):
        return None
    if title.endswith(_QUESTION_MARKS):
        return Asked(title, 4)
    first, _, rest = title.partition(" ")
    for openers, pattern in _OPENED.get(language, ()):
        if rest and first.casefold() in openers.split():
            return Asked(pattern.format(_lowered(title)), 3)
    if language in ("en", "") and rest:
        follows = rest.split(" ", 1)[0] in _BEHIND
        if first.casefold() in _DONE or (follows and first.casefold() in _DONE_OR_NAMED):
            return Asked(f"How do I {_mine(_lowered(title))}?", 3)
        if first.endswith("ing") and follows:
            return Asked(f"How does {_mine(_lowered(title))} work?", 3)
    words = len(title.split())
    template = _ASKED.get(language or "en")
    return Asked(template.format(title) if template else f"{title}?", min(2, words - 1))


def about_row(line: str, language: str) -> Asked | None:
    """A question about a cell of a table's row, such as `Item: Pear; Price: 3`."""
    cells = [cell.partition(": ") for cell in line.split("; ")]
    pairs = [(label.strip(), value.strip()) for label, _, value in cells if value.strip()]
    if len(pairs) < 2:
        return None
    (_, name), (wanted, _) = pairs[0], pairs[1]
    readable = _is_readable(name) and _is_readable(wanted) and not name.isdigit()
    if not readable or len(name) + len(wanted) > MOST_CHARS:
        return None
    return Asked(_ROW.get(language, "{wanted}: {name}?").format(wanted=wanted, name=name), 1)


_ROW: Mapping[str, str] = {
    "en": "What is “{wanted}” of “{name}”?",
    "de": "Was ist „{wanted}“ bei „{name}“?",
    "fr": "Quelle est la valeur « {wanted} » pour « {name} » ?",
    "es": "¿Cuál es «{wanted}» de «{name}»?",
    "ar": "ما هي قيمة «{wanted}» لـ «{name}»؟",
    "zh": "“{name}”的“{wanted}”是什么？",
}


def tidy(heading: str) -> str:
    """A heading's words: without numbering, marks of Markdown and what stands at its end."""
    text = _MARKUP.sub("", " ".join(heading.split()))
    return _NUMBERING.sub("", text).strip(" .:;,–—-·|")


def _is_readable(title: str) -> bool:
    letters = sum(character.isalpha() for character in title)
    if not LEAST_CHARS <= len(title) <= MOST_CHARS and not (len(title) == 2 and title > "\u2e80"):
        return False
    return not (
        2 * letters < len(title.replace(" ", ""))
        or _UNREADABLE.search(title)
        or title.casefold() in _EMPTY
        or (" " not in title and re.search(r"\w[._/]\w", title))  # a file, a setting, an address
    )


def _lowered(title: str) -> str:
    """The first word as within a sentence, unless more than its first letter is a capital."""
    first = title.split(" ", 1)[0]
    return title[0].lower() + title[1:] if first[1:].islower() or len(first) == 1 else title


def _mine(title: str) -> str:
    return re.sub(r"\byour\b", "my", title)
