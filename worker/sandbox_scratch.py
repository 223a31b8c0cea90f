"""The folder that a sandboxed process may write in: kept small, and gone afterwards.

A lock is held on each folder in use, and the kernel lets go of it when the holder dies, however it
dies. So a folder without one belongs to nobody, and the next process to need a folder removes it.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

logger = logging.getLogger(__name__)

_PREFIX = "ragsite-sandbox-"
# Longer than it takes from making a folder to locking it.
_STALE_S = 600.0


@contextmanager
def scratch_folder() -> Iterator[str]:
    """A new folder; removed with all that is in it when the block is left."""
    _sweep_once(tempfile.gettempdir())
    path = tempfile.mkdtemp(prefix=_PREFIX)
    lock = _locked(path)
    try:
        yield path
    finally:
        _remove(path)
        if lock is not None:
            os.close(lock)


def is_over(path: str, *, size_bytes: int, files: int) -> bool:
    """Whether the folder holds more than that. Looks no further than it has to."""
    found_bytes, found = 0, 0
    folders = [path]
    while folders:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    found += 1
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    with suppress(FileNotFoundError):
                        found_bytes += entry.stat(follow_symlinks=False).st_blocks * 512
                    if found_bytes > size_bytes or found > files:
                        return True
        except OSError as exc:  # removed meanwhile, or not to be read: then it is empty
            if exc.errno == errno.ENAMETOOLONG:
                return True
    return False


def sweep(parent: str) -> None:
    """Remove the folders in `parent` whose process was killed."""
    for path in Path(parent).glob(_PREFIX + "*"):
        with suppress(OSError):
            if path.is_symlink() or path.stat().st_uid != os.geteuid():
                continue
            if time.time() - path.stat().st_mtime < _STALE_S:
                continue
            lock = _locked(str(path))
            if lock is not None:
                _remove(str(path))
                os.close(lock)


_sweep_once = cache(sweep)


def _locked(path: str) -> int | None:
    """A descriptor that holds the folder's lock; None where another has it."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _remove(path: str) -> None:
    try:
        shutil.rmtree(path)
    except (OSError, RecursionError):  # folders nested without end, or without any rights
        done = subprocess.run(["/bin/rm", "-rf", "--", path], check=False)  # noqa: S603
        if done.returncode:
            logger.error("%s could not be removed", path)
