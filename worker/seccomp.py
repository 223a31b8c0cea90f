"""System calls that a sandboxed process may not make, as a seccomp filter on itself.

Parsing needs memory, files and threads. Refused (EPERM) is what reaches further: processes, other
programs, sockets of any kind, signals to others, owners of files, kernel interfaces with a
record of holes, and memory that no limit counts. seccomp(2) and the kernel's
Documentation/userspace-api/seccomp_filter.rst give the layout of what is built here: classic BPF,
run by the kernel before each call, inherited by threads and children, never to be taken off.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Iterable

_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 22, 2
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_REFUSE = _ERRNO | errno.EPERM
_IGNORE = _ERRNO  # error number 0: the call returns 0
# So that libc falls back to clone, whose flags are in a register and can be judged.
_ABSENT = _ERRNO | errno.ENOSYS

# BPF: load a word of struct seccomp_data, jump if equal / at least / any bit, and with, return.
_LOAD, _JEQ, _JGE, _AND, _RET = 0x20, 0x15, 0x35, 0x54, 0x06
_AT_NUMBER, _AT_ARCH, _AT_ARGS = 0, 4, 16  # the low half of an argument comes first

_ARCHES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # column below, AUDIT_ARCH
_X32_BIT = 0x40000000

# name: (number on x86_64, number on aarch64); -1 where it does not exist.
_CHILDREN = {
    "fork": (57, -1), "vfork": (58, -1), "execve": (59, 221), "execveat": (322, 281),
}  # fmt: skip
_REFUSED = {
    # other processes: their memory, their files, their priority; a group of one's own
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "kcmp": (312, 272), "pidfd_open": (434, 434), "pidfd_getfd": (438, 438),
    "pidfd_send_signal": (424, 424), "process_madvise": (440, 440), "process_mrelease": (448, 448),
    "move_pages": (279, 239), "migrate_pages": (256, 238), "setpriority": (141, 140),
    "ioprio_set": (251, 30), "setsid": (112, 157), "setpgid": (109, 154),
    # the network, and sockets of this machine's own services
    "socket": (41, 198),
    # mounts and namespaces
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51),
    "unshare": (272, 97), "setns": (308, 268), "open_tree": (428, 428), "move_mount": (429, 429),
    "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433),
    "mount_setattr": (442, 442), "open_tree_attr": (467, 467), "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    # owners and attributes of files, which Landlock does not cover
    "chown": (92, -1), "lchown": (94, -1), "fchown": (93, 55), "fchownat": (260, 54),
    "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7), "setxattrat": (463, 463),
    "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16),
    "removexattrat": (466, 466),
    # the kernel itself
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106),
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "reboot": (169, 142),
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282),
    "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    # memory that is not counted as address space, or outlives the process
    "memfd_create": (319, 279), "memfd_secret": (447, 447), "shmget": (29, 194),
    "semget": (64, 190), "msgget": (68, 186), "mq_open": (240, 180),
}  # fmt: skip
# Made to do nothing, and say that it went well: Landlock does not cover the rights of files, and
# kreuzberg sets those of its PDFium, which it unpacks in the scratch folder.
_IGNORED = {
    "chmod": (90, -1), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452),
}  # fmt: skip
_CLONE, _CLONE3 = (56, 220), (435, 435)
_CLONE_THREAD = 0x00010000
# NEWTIME, NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
_CLONE_NAMESPACES = 0x7E020080

# Refused but to oneself: abort() and pthread_kill() are a tgkill of the own process.
_OWN_ONLY = {
    "kill": (62, 129), "tkill": (200, 130), "tgkill": (234, 131),
    "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240),
}  # fmt: skip
# The same; 0 is oneself here.
_OWN_OR_ZERO = {
    "prlimit64": (302, 261), "sched_setaffinity": (203, 122), "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119), "sched_setattr": (314, 274),
}  # fmt: skip
# Refused with these values of an argument: (numbers, which argument, values).
_BY_ARGUMENT = (
    ((157, 167), 0, (1, 4)),  # prctl: PR_SET_PDEATHSIG and PR_SET_DUMPABLE are the sandbox's own
    ((72, 25), 1, (8, 10, 15)),  # fcntl F_SETOWN, F_SETSIG, F_SETOWN_EX: a signal to anyone
    ((16, 29), 1, (0x8901, 0x8902, 0x5412, 0x541C)),  # ioctl: the same; typing into a terminal
)


def confine(*, children: bool) -> bool:
    """Put the filter on this process and all it will start. False where it cannot be had.

    Needs no_new_privs, or CAP_SYS_ADMIN. `children` leaves new processes and other programs
    allowed, under the same filter. Must be called while the process has one thread.
    """
    if platform.machine() not in _ARCHES:
        return False
    program = _program(platform.machine(), os.getpid(), children=children)
    code = ctypes.create_string_buffer(program, len(program))

    class Program(ctypes.Structure):  # struct sock_fprog
        _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))

    argument = Program(len(program) // 8, ctypes.addressof(code))
    prctl = ctypes.CDLL(None).prctl
    return bool(prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(argument), 0, 0) == 0)


def _program(machine: str, pid: int, *, children: bool) -> bytes:
    column, arch = _ARCHES[machine]
    code = [
        _op(_LOAD, _AT_ARCH), _op(_JEQ, arch, 1, 0), _op(_RET, _REFUSE),
        _op(_LOAD, _AT_NUMBER), _op(_JGE, _X32_BIT, 0, 1), _op(_RET, _REFUSE),
    ]  # fmt: skip
    for number in _numbers(_REFUSED, column):
        code += _case(number, [_op(_RET, _REFUSE)])
    for number in _numbers(_IGNORED, column):
        code += _case(number, [_op(_RET, _IGNORE)])
    code += _case(_CLONE3[column], [_op(_RET, _ABSENT)])
    if not children:
        for number in _numbers(_CHILDREN, column):
            code += _case(number, [_op(_RET, _REFUSE)])
    code += _case(_CLONE[column], _judge_clone(children=children))
    for number in _numbers(_OWN_ONLY, column):
        code += _case(number, _judge(0, (pid,), then=_ALLOW, otherwise=_REFUSE))
    for number in _numbers(_OWN_OR_ZERO, column):
        code += _case(number, _judge(0, (pid, 0), then=_ALLOW, otherwise=_REFUSE))
    for numbers, argument, values in _BY_ARGUMENT:
        body = _judge(argument, values, then=_REFUSE, otherwise=_ALLOW)
        code += _case(numbers[column], body)
    code.append(_op(_RET, _ALLOW))
    return b"".join(code)


def _op(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    """One instruction; the jumps say how many of the next are left out."""
    return struct.pack("<HBBI", code, if_true, if_false, value)


def _numbers(calls: dict[str, tuple[int, int]], column: int) -> Iterable[int]:
    return (numbers[column] for numbers in calls.values() if numbers[column] >= 0)


def _case(number: int, body: list[bytes]) -> list[bytes]:
    """`body`, which ends in a return, for this system call."""
    return [_op(_JEQ, number, 0, len(body)), *body]


def _judge(argument: int, values: tuple[int, ...], *, then: int, otherwise: int) -> list[bytes]:
    """By whether the argument (its low 32 bits, as the kernel takes it) is one of `values`."""
    count = len(values)
    return [
        _op(_LOAD, _AT_ARGS + 8 * argument),
        *(_op(_JEQ, value, count - i, 0) for i, value in enumerate(values)),
        _op(_RET, otherwise),
        _op(_RET, then),
    ]


def _judge_clone(*, children: bool) -> list[bytes]:
    """Threads only, or processes too; in no namespace of their own."""
    looked_at = _CLONE_NAMESPACES if children else _CLONE_NAMESPACES | _CLONE_THREAD
    return [
        _op(_LOAD, _AT_ARGS),
        _op(_AND, looked_at),
        _op(_JEQ, 0 if children else _CLONE_THREAD, 0, 1),
        _op(_RET, _ALLOW),
        _op(_RET, _REFUSE),
    ]
