"""From an answer's Markdown to HTML that is safe to show, whole or block by block."""

from apps.chat.rendering.answers import render_answer
from apps.chat.rendering.blocks import Block, Blocks
from apps.chat.rendering.copies import Copy, Source, copy_answer
from apps.chat.rendering.live import LiveBlocks

__all__ = ["Block", "Blocks", "Copy", "LiveBlocks", "Source", "copy_answer", "render_answer"]
