"""Finding what was lost on the way, and sending it again."""

from __future__ import annotations

import logging

from apps.documents import files, jobs
from apps.documents.models import Stage

logger = logging.getLogger(__name__)

_ABANDONED_UPLOAD_S = 24 * 60 * 60


def sweep() -> int:
    """Wake workers for jobs that wait and that no message is queued for; returns how many.

    Messages are lost with the broker, leases run out with their worker, and what a job waited for
    answers again: to the table these look the same. When the broker cannot be asked, the next
    sweep will do it.
    """
    files.remove_abandoned(older_than_s=_ABANDONED_UPLOAD_S)
    sent = sum(jobs.wake_workers(stage) for stage in Stage)
    if sent:
        logger.info("sweep: %d messages sent for jobs that wait", sent)
    return sent
