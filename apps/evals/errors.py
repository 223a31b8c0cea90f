"""What can go wrong in the quality room.

EvalError
├── UploadRefused        an upload of labelled questions cannot be read as a whole
│   ├── UploadTooLarge       more bytes, questions or labels than are taken at once
│   └── UploadUnreadable     not in one of the formats, or broken
├── SetNameTaken         another labelled set has that name
├── SetGone              the labelled set was deleted meanwhile
├── QuestionRefused      no text, or more of it than is searched
└── PlaceGone            a document or passage was deleted or cut anew meanwhile
"""

from __future__ import annotations


class EvalError(Exception):
    """`str()` says what failed and what to do, in words for the person."""

    code = "eval_error"
    retryable = False


class UploadRefused(EvalError):
    code = "upload_refused"


class UploadTooLarge(UploadRefused):
    code = "upload_too_large"


class UploadUnreadable(UploadRefused):
    code = "upload_unreadable"


class SetNameTaken(EvalError):
    code = "set_name_taken"


class SetGone(EvalError):
    code = "set_gone"


class QuestionRefused(EvalError):
    code = "question_refused"


class PlaceGone(EvalError):
    code = "place_gone"
