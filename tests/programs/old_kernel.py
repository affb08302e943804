"""old_kernel.py PROGRAM [WORD]...: executes a program that finds a kernel without SO_PASSRIGHTS.

A filter of system calls answers the option's requests as Linux before 6.16 does: ENOPROTOOPT.
"""

import ctypes
import errno
import os
import platform
import struct
import sys

SET, GET = {"x86_64": (54, 55), "aarch64": (208, 209)}[platform.machine()]
SO_PASSRIGHTS, SOL_SOCKET = 83, 1
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
REFUSE, ALLOW = 0x00050000 | errno.ENOPROTOOPT, 0x7FFF0000
# Offsets in struct seccomp_data: the call's number, its second and its third argument.
NUMBER, LEVEL, OPTION = 0, 24, 32
PR_SET_SECCOMP, SECCOMP_MODE_FILTER, PR_SET_NO_NEW_PRIVS = 22, 2, 38

program = [
    (LOAD, 0, 0, NUMBER),
    (EQUAL, 1, 0, SET),
    (EQUAL, 0, 5, GET),
    (LOAD, 0, 0, LEVEL),
    (EQUAL, 0, 3, SOL_SOCKET),
    (LOAD, 0, 0, OPTION),
    (EQUAL, 0, 1, SO_PASSRIGHTS),
    (RETURN, 0, 0, REFUSE),
    (RETURN, 0, 0, ALLOW),
]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *one) for one in program))
head = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program), ctypes.addressof(code)))
prctl = ctypes.CDLL(None, use_errno=True).prctl
if prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, head) < 0:
    sys.exit(f"no filter: {os.strerror(ctypes.get_errno())}")
os.execvp(sys.argv[1], sys.argv[1:])
