"""The last gate before the page: only listed tags, our own classes, and links to http(s) or here.

The text comes from a model that read hostile documents. HTML in it is escaped by the Markdown
renderer already; images, forms, styles and scripts are not on these lists.
"""

from __future__ import annotations

import nh3

from apps.chat.rendering.code import CODE_CLASSES

_TAGS = {
    *("p", "br", "hr", "strong", "em", "s", "code", "pre", "blockquote", "ul", "ol", "li"),
    *("h1", "h2", "h3", "h4", "h5", "h6", "table", "thead", "tbody", "tr", "th", "td"),
    *("a", "span", "div", "button"),
}
_MATH_TAGS = {
    *("math", "mi", "mn", "mo", "ms", "mtext", "mspace", "mrow", "mfrac", "msqrt", "mroot"),
    *("msub", "msup", "msubsup", "munder", "mover", "munderover", "mmultiscripts", "mprescripts"),
    *("mtable", "mtr", "mtd", "mstyle", "mpadded", "mphantom", "menclose"),
}
_MATH_ATTRIBUTES = {
    *("display", "displaystyle", "scriptlevel", "stretchy", "lspace", "rspace", "accent"),
    *("accentunder", "form", "fence", "separator", "largeop", "movablelimits", "symmetric"),
    *("minsize", "maxsize", "linethickness", "mathvariant", "width", "height", "depth"),
    *("voffset", "notation", "columnspan", "rowspan"),
}
_ATTRIBUTES = {
    "a": {"href", "data-citation"},
    "button": {"data-reason", "aria-label"},
    "ol": {"start"},
    "pre": {"tabindex", "dir"},
    "div": {"tabindex"},
    **dict.fromkeys(_MATH_TAGS, _MATH_ATTRIBUTES),
}
_CLASSES = {
    "a": {"cite"},
    "span": {"unsupported", "code-language", *CODE_CLASSES},
    "button": {"code-copy", "why"},
    "div": {"code", "code-head", "table-box"},
    "th": {"cell-left", "cell-center", "cell-right"},
    "td": {"cell-left", "cell-center", "cell-right"},
    "mtd": {"math-left", "math-right"},
}


def clean(html: str) -> str:
    """Sanitised HTML."""
    return nh3.clean(
        html,
        tags=_TAGS | _MATH_TAGS,
        attributes=_ATTRIBUTES,
        allowed_classes=_CLASSES,
        # A button that could send a form would need one around it; ours are none of that kind.
        set_tag_attribute_values={"button": {"type": "button"}},
        url_schemes={"http", "https"},
        link_rel="noopener noreferrer nofollow",
    )
