"""The words by which follow-up questions are told, and how a question is cut into words."""

from __future__ import annotations

import re

from apps.chat.pipeline.citations import content_terms
from apps.retrieval.normalization import normalize


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


TOKEN = re.compile(r"[^\W_]+|[,;.?!:]")
YEAR = re.compile(r"(?<!\d)(?:19|20)\d\d(?!\d)")
NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
# Scripts that put no spaces between words.
UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]"
)

# Words that a question may consist of without saying what it is about.
GENERIC = _words("""
    more explain elaborate detail details example examples mean means meaning exactly else specific
    specifically please tell give show continue long much many often happen happens happened really
    sure kind sort thing things way okay ok yes yeah another same instead reason reasons like first
    second third fourth fifth last next previous others one ones two both point points item part
    summary summarize summarise briefly say said know think come try go isn don doesn didn wasn
    since aren won couldn wouldn shouldn hasn haven ll ve
    """)
PLEASANTRIES = _words(
    "thanks thank you ok okay hi hello hey bye great yes no good nice cool perfect"
)
ASKING = _words("""
    who whom whose what which when where why how is are was were am do does did can could may might
    must shall should will would has have had isn aren wasn don doesn didn can't
    """)
AUXILIARIES = ASKING - _words("who whom whose what which when where why how")
COPULAS = frozenset(["is", "are", "was", "were"])
EXISTENTIAL = COPULAS | {"be", "been", "exist", "exists"}  # around a "there" that is no place
PREPOSITIONS = _words("""
    in for at on with without by during before after until under over from to of since within
    between about outside inside
    """)
CONNECTIVES = _words("and but or also so then plus")
# "What about …": whatever comes after stands in for a part of the question before.
ABOUT = re.compile(
    r"(?:(?:and|but|so|ok|okay)[\s,]+)?"
    r"(?:(?:what|how) about|what if|same (?:for|with|question for)|what of)\b[\s,]*",
    re.IGNORECASE,
)
LEADING = re.compile(r"(?:(?:and|but|or|also|so|then|plus)\b[\s,]*)+", re.IGNORECASE)
# Connectives that open a follow-up in other languages, where the whole is at most a few words.
FOREIGN_CONNECTIVES = _words("""
    und aber oder sowie et mais ou y pero o e mas ma ed en maar of och men eller a i ale но а и или
    și och ve ama και αλλά और लेकिन و أو لكن ו או
    """)
FOREIGN_ABOUT = re.compile(
    r"(?:(?:und )?(?:was ist mit|wie (?:steht|sieht) es)|(?:et )?qu'en est-il|(?:et )?pour"
    r"|(?:y )?qué (?:hay|pasa) (?:de|con)|(?:e )?quanto a|(?:en )?hoe zit het met|а как насчет"
    r"|а что насчет|ماذا عن|وماذا عن)\b",
    re.IGNORECASE,
)
UNSPACED_LEAD = re.compile("^(?:那么|那|还有|還有|而|以及|では|じゃあ|それで|それ|แล้ว)")
UNSPACED_TAIL = re.compile("(?:呢|は|ล่ะ|ละ)[?？。 ]*$")

SINGULAR = _words("it its he him his she her hers")
ALWAYS_SUBJECTS = frozenset(["he", "she", "they"])
POSSESSIVES = frozenset(["his", "their", "theirs"])
SUBJECTS = _words("it he she they this that these those there")
DEMONSTRATIVES = _words("this that these those")
PRONOUNS = SINGULAR | DEMONSTRATIVES | _words("they them their theirs there")
# What "this" points at without a conversation.
HERE_AND_NOW = _words("site page app chat tool system company year month week time day morning")
MAY_FOLLOW_THAT = AUXILIARIES | PREPOSITIONS | GENERIC | frozenset(",;:.?!")
# Where a new clause begins: its subject may be what the one before spoke of.
CLAUSE_STARTS = _words(
    ", ; : . ? ! and but or when if because while where so then who which that after"
)
# A word after one of these is a verb, and nothing that a pronoun could stand for.
BEFORE_VERBS = _words("i you we they he she it one to who what")
# "The second one", "the latter": at the end, or before a word that says nothing itself.
ORDINAL = re.compile(
    r"\b(?:which ones?|(?:the|that|this|any|an?)\s(?:other|first|second|third|fourth|last|next"
    r"|previous)\s(?:ones?|points?|items?|options?|steps?|parts?|cases?|examples?)"
    r"|the (?:former|latter|others|other two|rest)|both of (?:them|those|these))\b",
    re.IGNORECASE,
)


NEGATION = re.compile(
    r"\b(?:not|no|never|none|nothing|nobody|neither|nor|without|cannot|except|nicht|kein\w*|nie"
    r"|niemals|ohne|ne|pas|jamais|sans|sin|nunca|ningun\w*|não|sem|non|mai|senza|niet|geen"
    r"|nooit|zonder|inte|ingen|aldrig|utan|не|нет|никогда|без|لا|ليس|لم|لن|بدون|नहीं|बिना)\b"
    r"|n['’]t\b|[不没沒無无]|ない|ไม่",
    re.IGNORECASE,
)


def flat(text: str) -> str:
    """`text` in the form that is searched, on one line."""
    return " ".join(normalize(text).split())


def own_words(words: list[str]) -> list[str]:
    """Those of the words that say what a question is about, repeats included."""
    return [word for word in words if is_own(word)]


def is_own(word: str) -> bool:
    """Whether a case-folded word says what a question is about."""
    return word not in GENERIC and bool(content_terms(word))
