"""From blocks in reading order to parts of bounded size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from apps.documents.parsing.types import Block, Part, assemble

_PART_CHARS = 300_000
_PART_PAGES = 200
# A "page" of a document without page breaks: more could not be shown or cut into passages well.
PAGE_MAX_CHARS = 100_000


def paged(blocks: Iterable[Block], progress: Callable[[], float] = lambda: 1.0) -> Iterator[Part]:
    """Parts of whole pages. `Block.page` counts from 1 over all of the document; 0 is "the same".

    A page over PAGE_MAX_CHARS is continued on another, which moves the numbers of those after it.
    """
    batch: list[Block] = []
    first = page = 1  # of this part, of the block before
    moved = chars = on_page = 0
    for block in _bounded(blocks):
        wanted = max(page, block.page + moved if block.page else page)
        if wanted == page and on_page and on_page + len(block.text) > PAGE_MAX_CHARS:
            wanted, moved = page + 1, moved + 1
        if wanted > page:
            if chars >= _PART_CHARS or page - first + 1 >= _PART_PAGES:
                yield replace(assemble(batch), progress=progress())
                batch, chars, first = [], 0, page + 1
            page, on_page = wanted, 0
        batch.append(replace(block, page=page - first + 1))
        chars += len(block.text)
        on_page += len(block.text)
    yield replace(assemble(batch), progress=1.0)


def _bounded(blocks: Iterable[Block]) -> Iterator[Block]:
    """A block that would not fit on a page comes as several, cut at line ends or blanks."""
    for block in blocks:
        rest = block.text
        while len(rest) > PAGE_MAX_CHARS:
            cut = max(rest.rfind("\n", 0, PAGE_MAX_CHARS), PAGE_MAX_CHARS // 2)
            if rest[cut] != "\n":
                cut = max(rest.rfind(" ", 0, PAGE_MAX_CHARS), PAGE_MAX_CHARS // 2)
            yield replace(block, text=rest[:cut])
            rest = rest[cut:].lstrip("\n")
        yield replace(block, text=rest) if rest is not block.text else block
