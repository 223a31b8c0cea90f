"""Translation catalogues as tests read them, and the words that the sources mark for them."""

from __future__ import annotations

import ast
import functools
import gettext
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings
from django.utils import translation
from django.utils.translation.template import templatize

ROOT = Path(settings.BASE_DIR)
LANGUAGES = [code for code, _ in settings.LANGUAGES if code != settings.LANGUAGE_CODE]
DOMAINS = ("django", "djangojs")
CONTEXT = "\x04"  # between context and sentence, as in a .mo
_PLACE = re.compile(r"%\((\w+)\)")
_NUMBERS = range(200)  # enough for every rule of plurals there is here


@dataclass(frozen=True)
class Entry:
    """One sentence of a .po file, with its translation in each form."""

    key: str
    plural: str
    forms: tuple[str, ...]
    is_fuzzy: bool

    @property
    def places(self) -> set[str]:
        return set(_PLACE.findall(self.key + self.plural))


class Catalogue:
    """A .po file and what it was compiled into."""

    def __init__(self, language: str, domain: str) -> None:
        folder = Path(settings.LOCALE_PATHS[0]) / translation.to_locale(language) / "LC_MESSAGES"
        text = (folder / f"{domain}.po").read_text(encoding="utf-8")
        self.header, *self.entries = [_entry(b) for b in text.split("\n\n") if "msgid" in b]
        rule = re.search(r"nplurals=(\d+); plural=(.*);", self.header.forms[0])
        assert rule
        self.plurals = int(rule[1])
        form_of = gettext.c2py(rule[2])  # type: ignore[attr-defined]
        self._form_of = [form_of(number) for number in _NUMBERS]
        with (folder / f"{domain}.mo").open("rb") as compiled:
            self.compiled: dict[object, str] = gettext.GNUTranslations(compiled)._catalog  # type: ignore[attr-defined]

    def says_one_number(self, form: int) -> bool:
        """Whether a plural form is used with one number alone: it may leave that out."""
        return self._form_of.count(form) == 1

    def to_compile(self) -> dict[object, str]:
        """What the .mo should hold."""
        found: dict[object, str] = {}
        for entry in self.entries:
            if entry.plural:
                found |= {(entry.key, n): form for n, form in enumerate(entry.forms)}
            else:
                found[entry.key] = entry.forms[0]
        return found


def places_of(text: str) -> set[str]:
    """The names of the `%(name)s` places."""
    return set(_PLACE.findall(text))


def _entry(block: str) -> Entry:
    fields: dict[str, str] = {}
    name = ""
    for line in block.splitlines():
        if found := re.match(r'(msg\w+(?:\[\d\])?) (".*")$', line):
            name = found[1]
            fields[name] = json.loads(found[2])
        elif line.startswith('"'):
            fields[name] += json.loads(line)
    context = f"{fields['msgctxt']}{CONTEXT}" if "msgctxt" in fields else ""
    forms = tuple(text for field, text in fields.items() if field.startswith("msgstr"))
    is_fuzzy = any("fuzzy" in line for line in block.splitlines() if line.startswith("#,"))
    return Entry(context + fields["msgid"], fields.get("msgid_plural", ""), forms, is_fuzzy)


# --- What the sources mark -----------------------------------------------------------------------

_FUNCTION = re.compile(r"n?p?gettext(?:_lazy|_noop)?|_")
_STRING = r"""u?(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')"""
_TEMPLATE_CALL = re.compile(
    rf"\b(?P<name>n?p?gettext)\((?P<first>{_STRING})(?:, (?P<second>{_STRING}))?"
)
_SCRIPT_CALL = re.compile(rf"\bn?gettext\(\s*(?P<words>{_STRING})", re.DOTALL)


@functools.cache
def marked(domain: str) -> dict[str, str]:
    """The sentences that the sources mark, as keys of a catalogue, each with a file it is in."""
    found = _in_scripts() if domain == "djangojs" else (*_in_python(), *_in_templates())
    return dict(found)


def _in_python() -> Iterator[tuple[str, str]]:
    for path in sorted((ROOT / "apps").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not _FUNCTION.fullmatch(called(node)):
                continue
            words = [each.value for each in node.args if isinstance(each, ast.Constant)]
            if words:
                taken = words[:2] if "pgettext" in called(node) else words[:1]
                yield CONTEXT.join(map(str, taken)), str(path.relative_to(ROOT))


def called(node: ast.Call) -> str:
    """The name of the function or class that is called."""
    return str(getattr(node.func, "id", getattr(node.func, "attr", "")))


def _in_templates() -> Iterator[tuple[str, str]]:
    for path in sorted((ROOT / "templates").rglob("*.html")):
        # Django's own reading of its tags, as calls of gettext.
        for found in _TEMPLATE_CALL.finditer(templatize(path.read_text(encoding="utf-8"))):
            taken = [found["first"]]
            if "pgettext" in found["name"]:
                taken.append(found["second"])
            yield CONTEXT.join(map(ast.literal_eval, taken)), str(path.relative_to(ROOT))


def _in_scripts() -> Iterator[tuple[str, str]]:
    for path in sorted((ROOT / "static" / "js").rglob("*.js")):
        for found in _SCRIPT_CALL.finditer(path.read_text(encoding="utf-8")):
            # Literals without `${}` read alike in JavaScript and Python.
            yield ast.literal_eval(found["words"]), str(path.relative_to(ROOT))
