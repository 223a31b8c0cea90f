"""The branch that is shown as Markdown.

Headings of the first three levels are the file's own. Answers are written anew from their tree,
their headings below those, and text is escaped: what an answer says cannot pose as a question, as
another answer or as a list of sources, whichever reader of Markdown shows the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import groupby

from apps.chat.exporting.cleaning import clean_name
from apps.chat.exporting.sheet import Sheet, SheetPart, SheetSource
from apps.chat.exporting.tree import Block, Run

_SPECIAL = re.compile(r"[\\`*_\[\]<>&~$|]")
# At a line's start: headings, lists, rules, underlines of headings, definitions.
_LINE_START = re.compile(r"^([ \t]*)(?:([#+\-=:])|(\d{1,9})([.)]))", re.MULTILINE)
_INDENT = re.compile(r"^[ \t]+", re.MULTILINE)
_FENCE_RUN = re.compile(r"`+")
# In formulas: comments; dollars; what begins a tag, an image or a link.
_COMMENT = re.compile(r"(?<!\\)%.*")
_DOLLAR = re.compile(r"(?<!\\)\$")
_ACTIVE = re.compile(r"<(?=[A-Za-z/!?])|!\[|\][(\[:]")
_OWN_LEVELS = 3
_MOST_LEVELS = 6
_WRAPS = {"strong": "**", "em": "*", "strike": "~~"}


def write_markdown(sheet: Sheet) -> str:
    """The whole file."""
    parts = [f"# {_line(sheet.title)}", f"*{_line(sheet.detail)}*"]
    for part in sheet.parts:
        parts += _part(part)
    return "\n\n".join(parts) + "\n"


def _part(part: SheetPart) -> Iterator[str]:
    yield f"{'###' if part.is_answer else '##'} {_line(part.label)}"
    if part.detail:
        yield f"*{_line(part.detail)}*"
    yield from _blocks(part.blocks)
    for note in part.notes:
        yield f"*{_line(note)}*"
    for doubt in part.doubts:
        yield f"*\\[?\\] {_line(doubt)}*"
    if part.sources:
        yield f"### {_line(part.sources_label)}"
        yield "\n".join(_source(source) for source in part.sources)


def _source(source: SheetSource) -> str:
    place = f", {_line(source.place)}" if source.place else ""
    return f"- \\[{source.number}\\] {_line(source.document)}{place}"


def _blocks(blocks: Iterable[Block]) -> Iterator[str]:
    """Each block's text. Lists in a row have different marks, or they would be read as one."""
    before, odd = None, False
    for block in blocks:
        kind = block.kind if block.start is None else "ordered"
        odd = kind == before and not odd
        before = kind
        if text := "\n".join(_items(block, odd=odd)) if block.kind == "list" else _block(block):
            yield text


def _block(block: Block) -> str:
    match block.kind:
        case "paragraph":
            return _inline(block.runs)
        case "heading":
            level = _OWN_LEVELS + block.level
            words = _inline(block.runs).replace("\\\n", " ").replace("\n", " ")
            return f"{'#' * level} {words}" if level <= _MOST_LEVELS else f"**{words}**"
        case "quote":
            return _prefixed("\n\n".join(_blocks(block.blocks)), "> ", "> ")
        case "code":
            return _fenced(block.text, block.info)
        case "math":
            return _formula(block.text, "$$")
        case "table":
            return _table(block)
        case _:
            return "* * *"


def _items(block: Block, *, odd: bool) -> Iterator[str]:
    bullet, dot = ("*", ")") if odd else ("-", ".")
    for place, item in enumerate(block.blocks):
        lead = f"{bullet} " if block.start is None else f"{block.start + place}{dot} "
        text = "\n\n".join(_blocks(item.blocks))
        yield _prefixed(text, lead, " " * len(lead))


def _prefixed(text: str, first: str, others: str) -> str:
    lines = text.split("\n")
    return "\n".join(
        f"{others if place else first}{line}".rstrip() for place, line in enumerate(lines)
    )


def _fenced(text: str, info: str) -> str:
    longest = max((len(run) for run in _FENCE_RUN.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{re.sub('[^A-Za-z0-9+#_.-]', '', info)}\n{text}\n{fence}"


def _formula(text: str, wrap: str) -> str:
    """In dollars on one line: a reader that knows no formulas sees text, and no block in it.

    Space means nothing in TeX: it takes tags, images and links apart for such a reader.
    """
    lines = [_COMMENT.sub("", line).strip() for line in text.split("\n")]
    joined = " ".join(line for line in lines if line)
    if "`" in joined:
        return _code(joined)
    joined = _DOLLAR.sub(r"\\$", joined)
    return f"{wrap}{_ACTIVE.sub(lambda match: ' '.join(match[0]) + ' ', joined)}{wrap}"


def _table(block: Block) -> str:
    rows = [[_cell(cell) for cell in row.blocks] for row in block.blocks if row.blocks]
    if not rows:
        return ""
    leans = [cell.info for cell in block.blocks[0].blocks]
    sides = {"left": ":---", "right": "---:", "center": ":---:"}
    rule = [sides.get(lean, "---") for lean in leans]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [rows[0], rule, *rows[1:]])


def _cell(cell: Block) -> str:
    """On one line; a bar in code would end the cell."""
    text = _inline(cell.runs).replace("\\\n", " ").replace("\n", " ")
    return re.sub(r"(?<!\\)\|", r"\\|", text)


def _inline(runs: Iterable[Run]) -> str:
    pieces = []
    for href, linked in groupby(runs, key=lambda run: run.href):
        text = _styled(list(linked), set(_WRAPS))
        pieces.append(f"[{text}](<{_address(href)}>)" if href else text)
    return _safe_starts("".join(pieces).strip())


def _styled(runs: list[Run], styles: set[str]) -> str:
    """What most runs share goes outermost."""
    if not styles:
        return "".join(_run(run) for run in runs)
    outer = max(sorted(styles), key=lambda style: sum(style in run.styles for run in runs))
    pieces = []
    for has_style, same in groupby(runs, key=lambda run: outer in run.styles):
        text = _styled(list(same), styles - {outer})
        pieces.append(_wrapped(text, _WRAPS[outer]) if has_style else text)
    return "".join(pieces)


def _wrapped(text: str, wrap: str) -> str:
    """The spaces at its ends stay outside: it would not be read as emphasis otherwise."""
    inner = text.strip()
    if not inner:
        return text
    start = text.index(inner)
    return f"{text[:start]}{wrap}{inner}{wrap}{text[start + len(inner) :]}"


def _run(run: Run) -> str:
    match run.kind:
        case "code":
            return _code(run.text)
        case "math" | "display":
            return _formula(run.text, "$" if run.kind == "math" else "$$")
        case "cite":
            return f" \\[{run.text}\\]"
        case "doubt":
            return " \\[?\\]"
        case "break":
            return "\\\n"
        case _:
            return escape(run.text)


def _code(text: str) -> str:
    longest = max((len(run) for run in _FENCE_RUN.findall(text)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if text.startswith("`") or text.endswith("`") or not text.strip("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def escape(text: str) -> str:
    """Text that a reader of Markdown shows as it is."""
    return _SPECIAL.sub(r"\\\g<0>", text)


def _safe_starts(text: str) -> str:
    """No line begins with what starts a block; an indent, which would make code, goes."""
    text = _INDENT.sub("", text)
    return _LINE_START.sub(lambda m: f"{m[1]}\\{m[2]}" if m[2] else f"{m[1]}{m[3]}\\{m[4]}", text)


def _line(text: str) -> str:
    return _safe_starts(escape(clean_name(text)))


def _address(href: str) -> str:
    return re.sub(r"[<>\\\s]", lambda m: f"%{ord(m[0]):02X}" if ord(m[0]) < 128 else "", href)
