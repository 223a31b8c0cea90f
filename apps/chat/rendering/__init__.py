"""From an answer's Markdown to HTML that is safe to show, whole or block by block."""

from apps.chat.rendering.answers import render_answer
from apps.chat.rendering.blocks import Block, Blocks

__all__ = ["Block", "Blocks", "render_answer"]
