"""What changes labelled sets, their questions and proposals. Each function owns its transaction."""

from __future__ import annotations

from apps.evals.services.labels import (
    Marked,
    add_question,
    delete_label,
    delete_question,
    mark_passage,
    mark_unanswerable,
    update_question,
)
from apps.evals.services.proposals import (
    collect_proposals,
    dismiss_proposal,
    reopen_proposal,
    take_proposal,
)
from apps.evals.services.sets import (
    create_set,
    delete_set,
    import_plan,
    update_set,
)

__all__ = [
    "Marked",
    "add_question",
    "collect_proposals",
    "create_set",
    "delete_label",
    "delete_question",
    "delete_set",
    "dismiss_proposal",
    "import_plan",
    "mark_passage",
    "mark_unanswerable",
    "reopen_proposal",
    "take_proposal",
    "update_question",
    "update_set",
]
