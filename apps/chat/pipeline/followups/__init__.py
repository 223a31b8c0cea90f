"""Follow-up questions: whether one depends on the conversation, and how it is made to stand alone.

Pure functions; the hop `apps.chat.pipeline.rewrite` puts them together and asks the model.
"""

from __future__ import annotations

from apps.chat.pipeline.followups.accept import fault_of
from apps.chat.pipeline.followups.combine import combine
from apps.chat.pipeline.followups.detect import Dependence, dependence_of

__all__ = ["Dependence", "combine", "dependence_of", "fault_of"]
