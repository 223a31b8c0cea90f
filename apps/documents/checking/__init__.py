"""What must be true of documents whatever was killed: files, jobs, texts and versions.

`apps.retrieval.checking` adds the search tables and runs all of it, as `manage.py fsck`.
"""

from __future__ import annotations

from apps.documents.checking.queue import jobs_of_finished_documents, unfinished_without_a_job
from apps.documents.checking.stored import (
    documents_without_a_file,
    files_of_gone_tenants,
    files_without_a_document,
    previews_without_a_document,
)
from apps.documents.checking.texts import (
    broken_chunks,
    broken_pages,
    chunks_that_say_something_else,
)
from apps.documents.checking.types import Check, Finding, Options
from apps.documents.checking.uses import wrong_counts
from apps.documents.checking.versions import older_versions_that_answer

# In this order: what one repairs, a later one may have to look at again.
CHECKS: tuple[Check, ...] = (
    jobs_of_finished_documents,
    unfinished_without_a_job,
    older_versions_that_answer,
    documents_without_a_file,
    files_without_a_document,
    previews_without_a_document,
    broken_pages,
    broken_chunks,
    chunks_that_say_something_else,
    wrong_counts,
)

__all__ = ["CHECKS", "Check", "Finding", "Options", "files_of_gone_tenants"]
