"""Files that a sandboxed process may reach, as a Landlock domain on itself.

landlock(7): what no rule names is out of reach, for this process and all it will start, for good.
Kernels have it in steps (ABI 1 is Linux 5.13); each gives what it has. From ABI 6 no signal and
no abstract socket leaves the domain either. Another process's memory and environment are out of
reach with any.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

# The same numbers on all architectures.
_CREATE, _ADD, _RESTRICT = 444, 445, 446
_RULE_PATH_BENEATH = 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_TRUNCATE, _IOCTL_DEV = 1 << 14, 1 << 15
_MAKE_SPECIAL = 1 << 6 | 1 << 11  # device files
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_RIGHTS_BY_ABI = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1}
_RIGHTS_ALL = (1 << 16) - 1
_NO_TCP, _NO_ABSTRACT_SOCKET_AND_SIGNAL = 3, 3

_ROOT = Path(__file__).resolve().parent.parent
# What libraries read of the machine.
_MACHINE = (
    "/etc/ld.so.cache", "/etc/fonts", "/etc/localtime",
    "/etc/mime.types", "/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/filesystems",
    "/proc/sys/vm", "/sys/devices/system/cpu", "/sys/fs/cgroup", "/dev/zero", "/dev/random",
    "/dev/urandom",
)  # fmt: skip


def _libraries() -> tuple[str, ...]:
    """Programs, libraries and fonts, and the site's packages; no folder that may hold uploads."""
    prefixes = {"/", "/usr", "/usr/local", sys.base_prefix, sys.prefix}
    parts = ("bin", "lib", "lib64", "libexec", "share")
    folders = [Path(prefix, part) for prefix in prefixes for part in parts]
    folders += [init.parent for init in _ROOT.glob("*/__init__.py")]
    return tuple({str(folder.resolve()) for folder in folders if folder.is_dir()})


_LIBRARIES = _libraries()


def confine(*, scratch: str, reads: Sequence[str]) -> bool:
    """Leave `scratch` to write in, `reads`, Python and the system's libraries to read.

    False where the kernel has no Landlock. Needs no_new_privs. What does not exist is left out.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    abi = libc.syscall(_CREATE, None, ctypes.c_size_t(0), 1)
    if abi < 1:
        return False
    handled = _RIGHTS_BY_ABI.get(abi, _RIGHTS_ALL if abi >= 5 else _RIGHTS_BY_ABI[3])
    # struct landlock_ruleset_attr: an older kernel takes it only as long as it knew it.
    attributes = struct.pack("=QQQ", handled, _NO_TCP, _NO_ABSTRACT_SOCKET_AND_SIGNAL)
    size = 24 if abi >= 6 else 16 if abi >= 4 else 8
    ruleset = libc.syscall(_CREATE, attributes, ctypes.c_size_t(size), 0)
    if ruleset < 0:
        return False
    try:
        for path in (*_MACHINE, *_LIBRARIES, *reads):
            _allow(libc, ruleset, path, _READ & handled)
        _allow(libc, ruleset, "/dev/null", (_READ | _WRITE_FILE) & handled)
        _allow(libc, ruleset, scratch, handled & ~_MAKE_SPECIAL)
        return bool(libc.syscall(_RESTRICT, ruleset, 0) == 0)
    finally:
        os.close(ruleset)


def _allow(libc: ctypes.CDLL, ruleset: int, path: str, rights: int) -> None:
    with suppress(OSError):
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            if not os.path.isdir(path):
                rights &= _OF_FILES
            rule = struct.pack("=Qi", rights, descriptor)
            if libc.syscall(_ADD, ruleset, _RULE_PATH_BENEATH, rule, 0) != 0:
                raise OSError(ctypes.get_errno(), "landlock_add_rule", path)
        finally:
            os.close(descriptor)
