"""A conversation as a file: Markdown, JSON, PDF.

    snapshot.py     what is stored, read once: this is the JSON file
    presenting.py   that, in a reader's words: a sheet of questions and answers
    tree.py         an answer's Markdown as blocks of runs, for the kinds that lay it out
    markdown.py     one kind …
    pdf.py          … and another, whose pages `typesetting.py` makes in the sandbox
    kinds.py        which kinds there are

What an answer says is hostile text. It is read into a tree and written anew, so that it can look
like nothing but an answer. Nothing of Django is imported here: the sandbox passes through.
"""
