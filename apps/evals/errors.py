"""What can go wrong in the quality room.

EvalsError
├── UploadRefused        an upload of labelled questions cannot be read as a whole
│   ├── UploadTooLarge       more bytes, questions or labels than are taken at once
│   └── UploadUnreadable     not in one of the formats, or broken
├── SetNameTaken         another labelled set has that name
├── SetGone              the labelled set was deleted meanwhile
├── QuestionRefused      no text, or more of it than is searched
├── NothingToMeasure     the set has no question with a label or without an answer
├── FolderUnreadable     a folder is not in BEIR layout, or a line of it is broken
├── ProposalDone         somebody has reviewed the proposal already
├── GateImpossible       a route has nothing to be compared with, or the wish is not sound
└── PlaceGone            a document or passage was deleted or cut anew meanwhile
"""

from __future__ import annotations


class EvalsError(Exception):
    """`str()` says what failed and what to do, in words for the person."""

    code = "evals_error"
    retryable = False


class UploadRefused(EvalsError):
    code = "upload_refused"


class UploadTooLarge(UploadRefused):
    code = "upload_too_large"


class UploadUnreadable(UploadRefused):
    code = "upload_unreadable"


class SetNameTaken(EvalsError):
    code = "set_name_taken"


class SetGone(EvalsError):
    code = "set_gone"


class QuestionRefused(EvalsError):
    code = "question_refused"


class ProposalDone(EvalsError):
    code = "proposal_done"


class PlaceGone(EvalsError):
    code = "place_gone"


class NothingToMeasure(EvalsError):
    code = "nothing_to_measure"


class FolderUnreadable(EvalsError):
    code = "folder_unreadable"


class GateImpossible(EvalsError):
    code = "gate_impossible"
