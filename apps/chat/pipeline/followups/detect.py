"""Does a question depend on the conversation before it?

English is told by its connectives, pronouns without an antecedent in the question itself, and
questions without a word of their own; other languages by connectives and shortness alone. Where
it is not certain a question is left as it is: a wrong rewrite spoils a good question, and a
missing one costs a second try.
"""

from __future__ import annotations

import re
from typing import Literal

from apps.chat.pipeline.followups import words as w
from apps.retrieval.analysis import detect_language

# "possible": only a model can tell. Rules act on "certain" alone.
Dependence = Literal["none", "possible", "certain"]

# A follow-up is short; nothing longer is looked at.
LONGEST_CHARS = 400
FRAGMENT_WORDS = 4  # own words of what may be a fragment: "in the Berlin office of the bank?"
ABOUT_WORDS = 6
SHORT_WORDS = 3  # own words up to which a whole question may still lean on the one before
FOREIGN_WORDS = 4
UNSPACED_CHARS = 12  # after a connective; without one a third of that


def dependence_of(question: str) -> Dependence:
    """Whether `question` can be understood without what was said before."""
    text = w.flat(question)
    if len(text) > LONGEST_CHARS:
        return "none"
    words = [token.casefold() for token in re.findall(r"[^\W_]+", text)]
    if not words:
        return "certain"  # "?": nothing is said at all
    if set(words) <= w.PLEASANTRIES:
        return "none"
    if w.UNSPACED.search(text):
        return _unspaced(text)
    language = detect_language(text)
    if _foreign(text, words, language):
        return "certain"
    return _english(text, words) if language in ("en", "") else "none"


def _unspaced(text: str) -> Dependence:
    length = len(w.UNSPACED.findall(text))
    led = w.UNSPACED_LEAD.search(text) or w.UNSPACED_TAIL.search(text)
    if led and length <= UNSPACED_CHARS:
        return "certain"
    # "为什么?" is nothing but a question word; "什么是BM25?" has a word of its own.
    bare = not re.search(r"[A-Za-z0-9]", text)
    return "certain" if bare and length <= UNSPACED_CHARS // 3 else "none"


def _foreign(text: str, words: list[str], language: str) -> bool:
    if w.FOREIGN_ABOUT.match(text) and len(words) <= ABOUT_WORDS + 2:
        return True
    if words[0] in w.FOREIGN_CONNECTIVES and len(words) <= FOREIGN_WORDS:
        return True
    if language == "ar" and words[0].startswith("و") and len(words) < FOREIGN_WORDS:
        return True  # Arabic writes its "and" onto the next word
    return language not in ("en", "") and len(words) <= 2 and text.endswith(("?", "؟", ";"))


def _english(text: str, words: list[str]) -> Dependence:
    own = w.own_words(words)
    if _says_nothing_itself(own, words) or _is_fragment(text, words, own):
        return "certain"
    if w.ORDINAL.search(text) and len(own) <= SHORT_WORDS:
        return "certain"
    pointing, resolved = _pronouns(text, own)
    if pointing:
        return "certain"
    leans = len(own) <= SHORT_WORDS and (resolved or not _has_name(text))
    return "possible" if leans else "none"


def _says_nothing_itself(own: list[str], words: list[str]) -> bool:
    """As in "Why?" and "Tell me more"; but "Who are you?" is asked of the site."""
    return not own and ("you" not in words or any(word in w.GENERIC for word in words))


def _is_fragment(text: str, words: list[str], own: list[str]) -> bool:
    """A part that stands in for one of the question before, or a clause that goes on from it."""
    if w.ABOUT.match(text):
        return len(own) <= ABOUT_WORDS
    whole = any(word in w.ASKING for word in words)
    if words[0] in w.CONNECTIVES:
        if not whole:
            return len(own) <= FRAGMENT_WORDS
        return len(own) == 1 and not _has_name(text) and not w.COPULAS & set(words)
    if words[0] in w.PREPOSITIONS:
        return not whole and len(own) <= FRAGMENT_WORDS
    return not whole and len(own) == 1 and text.endswith("?")


def _has_name(text: str) -> bool:
    """A capital behind the first word, or a figure."""
    behind_the_first = re.findall(r"(?<=\s)[^\W_]+", text)
    return any(word[0].isupper() and word != "I" for word in behind_the_first) or bool(
        re.search(r"\d", text)
    )


def _pronouns(text: str, own: list[str]) -> tuple[bool, bool]:
    """Whether a pronoun points out of the question, and whether one points into it."""
    tokens = [token.casefold() for token in w.TOKEN.findall(text)]
    pointing = resolved = False
    for at, token in enumerate(tokens):
        if token in w.PRONOUNS and _stands_for_something(tokens, at, own):
            if _has_antecedent(tokens, at):
                resolved = True
            else:
                pointing = True
    return pointing, resolved


def _stands_for_something(tokens: list[str], at: int, own: list[str]) -> bool:
    word, after = tokens[at], tokens[at + 1 : at + 2]
    if word == "it":
        return not _is_expletive(tokens, at)
    if word == "there":
        return not w.EXISTENTIAL & set(tokens[max(0, at - 1) : at + 3])
    if word in w.DEMONSTRATIVES and after and w.is_own(after[0]):
        # Before a noun: "that request" points back, "this site" and "that" in front of a clause
        # do not.
        return after[0] not in w.HERE_AND_NOW and len(own) <= SHORT_WORDS
    if word == "that" and after:  # "who showed that if …": a clause
        return after[0] in w.MAY_FOLLOW_THAT
    return True


def _is_expletive(tokens: list[str], at: int) -> bool:
    """The "it" of "how long does it take to get a refund?", which stands for nothing."""
    for place in range(at + 1, min(at + 5, len(tokens))):
        if tokens[place] in ("to", "that", "if", "whether", "for", "when"):
            return len(w.own_words(tokens[place + 1 :])) >= 2
    return False


def _has_antecedent(tokens: list[str], at: int) -> bool:
    """Whether a word before the pronoun may be what it stands for."""
    word = tokens[at]
    if word in w.POSSESSIVES and "who" in tokens[:at]:
        return True  # "Who gave their name to …?"
    nouns = [place for place in range(at) if _may_be_meant(tokens, place, word, at)]
    if not nouns:
        return False
    # "What contracts did she sign?": a subject is not the object before it.
    new_clause = w.CLAUSE_STARTS & set(tokens[nouns[-1] : at])
    return bool(new_clause) or not (word in w.SUBJECTS and tokens[at - 1] in w.AUXILIARIES)


def _may_be_meant(tokens: list[str], place: int, pronoun: str, at: int) -> bool:
    word = tokens[place]
    if not w.is_own(word) or (place and tokens[place - 1] in w.BEFORE_VERBS):
        return False
    if place == at - 1:
        # Right before an object stands its verb; before "that", what it is the relative of.
        return pronoun == "that" or pronoun in w.ALWAYS_SUBJECTS
    return not (pronoun in w.SINGULAR and word.endswith("s") and not word.endswith("ss"))
