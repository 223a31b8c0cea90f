"""What the chat refuses, and what it says to the person.

ChatError
├── QuestionEmpty
├── QuestionTooLong
├── UnknownConversation    not there, or not this person's
├── UnknownAnswer          likewise
├── UnknownMessage         likewise
├── UnknownFolder          likewise
├── NameTaken              a folder of that name is there already
├── NothingToContinue      the answer did not break off
├── UnknownCollection      likewise, or not open to this person
├── FeedbackRefused        a thumb that is neither up, down nor none, or on an unfinished answer
├── ExportRefused          this conversation cannot be made a file of that kind
├── NoCollection           nothing was picked to search
├── Busy                   this conversation is already being answered
├── NotAMember             the person may not chat in this tenant (any more)
├── SignedOut              the session has ended
└── BadFrame
    ├── FrameMalformed
    └── FrameTooLarge
"""

from __future__ import annotations


class ChatError(Exception):
    """A request that cannot be served; `str()` is shown to the person who made it."""

    code = "chat_error"
    retryable = False


class QuestionEmpty(ChatError):
    code = "question_empty"


class QuestionTooLong(ChatError):
    code = "question_too_long"


class UnknownConversation(ChatError):
    code = "unknown_conversation"


class UnknownAnswer(ChatError):
    code = "unknown_answer"


class UnknownMessage(ChatError):
    code = "unknown_message"


class UnknownFolder(ChatError):
    code = "unknown_folder"


class NameTaken(ChatError):
    code = "name_taken"


class NothingToContinue(ChatError):
    code = "nothing_to_continue"


class UnknownCollection(ChatError):
    code = "unknown_collection"


class FeedbackRefused(ChatError):
    code = "feedback_refused"


class ExportRefused(ChatError):
    code = "export_refused"
    retryable = True


class NoCollection(ChatError):
    code = "no_collection"


class Busy(ChatError):
    code = "busy"
    retryable = True


class NotAMember(ChatError):
    code = "not_a_member"


class SignedOut(ChatError):
    code = "signed_out"


class BadFrame(ChatError):
    code = "bad_frame"


class FrameMalformed(BadFrame):
    code = "frame_malformed"


class FrameTooLarge(BadFrame):
    code = "frame_too_large"
