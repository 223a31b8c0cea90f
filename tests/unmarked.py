"""Finds words for people that no one has marked for translation, as far as that can be seen.

A scanner of text, not of meaning: it knows what people read in a template, what a script puts
where people read it, and what an error of the chat says.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path

from django.template.base import Lexer, TokenType

from tests.catalogues import ROOT, called

# --- Templates -----------------------------------------------------------------------------------

_READ = ("aria-label", "aria-description", "alt", "placeholder", "title")
_NOT_WORDS = {"code", "kbd", "script", "style", "svg"}
# Names and signs that are the same in every language.
_NAMES = {"ragsite", "PDF", "JSON", "Markdown", "ms"}
_HOLE = "\ue000"  # where the template puts something in
_WORD = re.compile(r"[A-Za-z]{2,}")


def in_template(path: Path) -> list[str]:
    """Text and attributes that people read, outside of `translate` and `blocktranslate`."""
    scanner = _Scanner()
    scanner.feed(_without_tags(path.read_text(encoding="utf-8")))
    scanner.close()
    return scanner.found


def _without_tags(source: str) -> str:
    kept, depth = "", ""
    for token in Lexer(source).tokenize():
        name = token.contents.split()[0] if token.token_type == TokenType.BLOCK else ""
        # Blocks like `main_class` stand in an attribute of the page that is extended.
        is_class = name == "block" and token.contents.endswith("_class")
        if depth:
            depth = "" if name == f"end{depth}" else depth
        elif name in {"blocktranslate", "comment"} or is_class:
            depth = name
            kept += _HOLE
        elif token.token_type == TokenType.TEXT:
            kept += token.contents
        else:
            kept += _HOLE
    return kept


class _Scanner(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._silent = 0

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        self._silent += tag in _NOT_WORDS
        for name, value in attrs:
            if name in _READ:
                self._judge(value or "")

    def handle_endtag(self, tag: str) -> None:
        self._silent -= tag in _NOT_WORDS

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self._judge(data)

    def _judge(self, text: str) -> None:
        if set(_WORD.findall(text)) - _NAMES:
            self.found.append(" ".join(text.split()))


# --- Scripts -------------------------------------------------------------------------------------

_COMMENT = re.compile(r"(?m)(?<![:\"'`])//.*$|/\*.*?\*/", re.DOTALL)
_LITERAL = re.compile(r"\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`")
_MARKED = re.compile(r"\b(?:gettext|ngettext)\(\s*(?:(?:\"(?:[^\"\\]|\\.)*\"),\s*)?$")
_SHOWN = re.compile(
    r"(?:\b(?:textContent|innerText|title|ariaLabel|placeholder|alt)\s*=|"
    r"\"(?:aria-label|title|placeholder|alt)\",|\b(?:refuse|say|announce|note|setState)\([^()]*)"
    r"\s*$"
)
_SENTENCE = re.compile(r"[A-Z“][a-z’]+[,:]? \S|[A-Z][a-z]+(?:…|\.$)")


def in_script(path: Path) -> list[str]:
    """Literals that read as sentences, or are put where people read, and are not gettext's."""
    text = _COMMENT.sub("", path.read_text(encoding="utf-8"))
    found = []
    for literal in _LITERAL.finditer(text):
        before, words = text[: literal.start()], literal[0][1:-1]
        is_shown = _SHOWN.search(before[-160:]) is not None and _WORD.search(words) is not None
        is_word = is_shown and words[:1].isupper()
        if (is_word or _SENTENCE.match(words)) and not _MARKED.search(before[-400:]):
            found.append(words)
    return found


# --- Python --------------------------------------------------------------------------------------


def in_module(path: Path, errors: set[str]) -> Iterator[str]:
    """What `errors` and notices say that is not gettext's."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        said = node.args[0] if called(node) in errors else None
        if called(node) == "Notice" and len(node.args) > 1:
            said = node.args[1]
        if isinstance(said, ast.JoinedStr) or (
            isinstance(said, ast.Constant) and isinstance(said.value, str)
        ):
            yield f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(said)}"
