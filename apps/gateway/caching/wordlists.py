"""Words that tell questions apart, in the languages that people ask in most."""

from __future__ import annotations

from collections.abc import Mapping


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


NEGATIONS = _set(
    "no not non never none nobody nothing neither nor without cannot except unless "
    "nicht kein keine keinen keinem keiner keines nie niemals niemand nichts ohne außer weder "
    "ne pas jamais aucun aucune sans rien ni sauf sin nunca ningún ninguna nada nadie tampoco "
    "mai nessun nessuno nessuna senza né niet geen nooit zonder niets"
)
# Without "one", which is often an article or a pronoun.
NUMBERS: Mapping[str, str] = {
    word: number
    for number, words in {
        "0": "zero null",
        "2": "two both zwei deux dos due",
        "3": "three drei trois tres tre",
        "4": "four vier quatre cuatro quattro",
        "5": "five fünf cinq cinco cinque",
        "6": "six sechs seis sei",
        "7": "seven sieben sept siete sette",
        "8": "eight acht huit ocho otto",
        "9": "nine neun neuf nueve nove",
        "10": "ten zehn dix diez dieci",
        "11": "eleven elf onze undici",
        "12": "twelve dozen zwölf douze doce dodici",
    }.items()
    for word in words.split()
}
ORDERED = _set(
    "first second third fourth fifth last next previous half quarter double twice triple hundred "
    "thousand million billion hundert tausend"
)
ASKED_FOR = _set("who whom whose when where why wer wen wem wann wo warum qui quand où")
# A word and its opposite.
OPPOSITES = [
    tuple(pair.split("/"))
    for pair in sorted(
        _set(
            "allow/forbid allow/prohibit allow/ban permit/forbid permit/prohibit before/after "
            "minimum/maximum min/max least/most more/less more/fewer increase/decrease "
            "increase/reduce raise/lower enable/disable start/end start/stop begin/end open/close "
            "buy/sell in/out on/off above/below over/under with/without internal/external "
            "employee/employer lender/borrower tenant/landlord import/export upload/download "
            "income/expense left/right up/down win/lose gain/lose day/night summer/winter "
            "male/female public/private input/output arrive/depart accept/reject accept/refuse "
            "approve/deny approve/reject pass/fail hire/fire old/new high/low long/short hot/cold "
            "early/late always/sometimes all/some encrypt/decrypt attach/detach receive/send "
            "to/from credit/debit gross/net add/remove create/delete include/exclude "
            "inclusive/exclusive"
        )
    )
]
NEGATING_PREFIXES = ("un", "in", "im", "ir", "il", "dis", "non", "mis", "de")
# What a language is known by.
LANGUAGES: Mapping[str, frozenset[str]] = {
    "de": _set("der die das ist sind wie wird werden ich wir und für mit von den dem im zu auf"),
    "en": _set("the is are how what do does can my our we of for to and which when with about"),
    "es": _set("el los las es son cómo qué puedo mi nuestro para con por del cuándo cuál"),
    "fr": _set("le les est sont comment que puis mon notre nous pour avec par du des quel quelle"),
    "it": _set("il gli è sono come che posso mio nostro per con della dei quando quale"),
    "nl": _set("het zijn hoe wat kan mijn onze wij voor met van een en welke wanneer"),
}
# Words that open a sentence with a capital letter and are no names.
OPENERS = _set(
    "a an the is are was were do does did can could may might must shall should will would has "
    "have had how what when where which who whom whose why if in on at for from with to of by "
    "please tell explain describe list name give show i we my our your you it there this that and "
    "or so also wie was wann wo wer warum welche welcher welches ist sind kann darf muss der die "
    "das ein eine bitte que quand où qui comment pourquoi quel quelle est le la les un une"
)
