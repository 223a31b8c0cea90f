"""From the ids of an address to what they name; 404 where that is not open to this person."""

from __future__ import annotations

import uuid

from django.http import Http404

from apps.evals.models import LabelledQuestion, LabelledSet
from apps.evals.selectors.runs import get_set_for
from apps.evals.selectors.sets import get_question
from apps.tenants.access import Access


def find_set(access: Access, set_id: uuid.UUID) -> LabelledSet:
    found = get_set_for(access, set_id)
    if found is None:
        raise Http404
    return found


def find_question(
    access: Access, set_id: uuid.UUID, question_id: uuid.UUID
) -> tuple[LabelledSet, LabelledQuestion]:
    labelled_set = find_set(access, set_id)
    question = get_question(labelled_set, question_id)
    if question is None:
        raise Http404
    return labelled_set, question
