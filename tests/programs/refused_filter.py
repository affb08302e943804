"""refused_filter.py all|old PROGRAM [WORD]...: executes a program that may have no filter.

`all`: the system refuses every filter of system calls (EPERM). `old`: it refuses the flags of a
filter with a relay, as Linux before 5.19 does (EINVAL).
"""

import ctypes
import errno
import os
import platform
import struct
import sys

SECCOMP = {"x86_64": 317, "aarch64": 277}[platform.machine()]
LOAD, EQUAL, ANY_BIT, RETURN = 0x20, 0x15, 0x45, 0x06
REFUSE, ALLOW = 0x00050000, 0x7FFF0000
# Offsets in struct seccomp_data: the call's number, its second argument.
NUMBER, FLAGS = 0, 24
NEW_LISTENER = 1 << 3
PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2

which = sys.argv[1]
verdict = REFUSE | (errno.EPERM if which == "all" else errno.EINVAL)
program = [
    (LOAD, 0, 0, NUMBER),
    (EQUAL, 0, 3, SECCOMP),
    (LOAD, 0, 0, FLAGS),
    (ANY_BIT, 0, 1 if which == "old" else 0, NEW_LISTENER),
    (RETURN, 0, 0, verdict),
    (RETURN, 0, 0, ALLOW),
]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *one) for one in program))
head = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program), ctypes.addressof(code)))
prctl = ctypes.CDLL(None, use_errno=True).prctl
if prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, head) < 0:
    sys.exit(f"no filter: {os.strerror(ctypes.get_errno())}")
os.execvp(sys.argv[2], sys.argv[2:])
