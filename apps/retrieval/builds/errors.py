"""What can go wrong with changing an index.

BuildError
├── BuildUnderWay        the tenant is changing its index already
├── NothingToChange      the index asked for is the one in force
├── NoIndexYet           there is no document, so no index to build another beside
├── ModelUnreachable     the model does not answer, or cannot be loaded        (retryable)
├── LengthsInvalid       passages cannot be cut like that
├── NotNow               the build is not in a state for what was asked
└── GateRefused          a gate has not been passed, and no reason was given to go through
"""

from __future__ import annotations

from collections.abc import Mapping

from apps.retrieval.errors import RetrievalError


class BuildError(RetrievalError):
    code = "build_error"


class BuildUnderWay(BuildError):
    code = "build_under_way"

    def __init__(self) -> None:
        super().__init__("An index is being built or kept already. End that one first.")


class NothingToChange(BuildError):
    code = "nothing_to_change"

    def __init__(self) -> None:
        super().__init__(
            "This is the index in force: the same model, and passages cut the same way. Choose "
            "another model, or another length of passages."
        )


class NoIndexYet(BuildError):
    code = "no_index_yet"

    def __init__(self) -> None:
        super().__init__(
            "There are no documents yet. The first one is indexed by the "
            "site's model; then another can be built beside it."
        )


class ModelUnreachable(BuildError):
    code = "model_unreachable"
    retryable = True


class LengthsInvalid(BuildError):
    code = "lengths_invalid"

    def __init__(self) -> None:
        super().__init__(
            "Passages are 32 to 8,000 tokens long and share fewer tokens than half their length."
        )


class NotNow(BuildError):
    code = "not_now"

    def __init__(self) -> None:
        super().__init__("That is not possible at the moment. Look at the page again.")


class GateRefused(BuildError):
    code = "gate_refused"

    def __init__(self, gates: Mapping[str, str]) -> None:
        """`gates`: by name, what they are called on pages."""
        super().__init__(
            f"Not put in force. Not passed: {'; '.join(gates.values())}. Wait until that is "
            "right, or give a reason for going on all the same."
        )
        self.gates = tuple(gates)
