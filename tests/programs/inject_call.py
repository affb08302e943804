"""Makes a process issue a system call: inject_call.py PID NUMBER. x86-64 only.

It stops the process at the entry of its next call and replaces the call's number, as somebody
could who owns the process. The filter of system calls sees the new number.
"""

import ctypes
import os
import signal
import sys

SEIZE, INTERRUPT, SYSCALL, DETACH, POKEUSER = 0x4206, 0x4207, 24, 17, 6
# Offset of orig_rax in struct user: the sixteenth register.
ORIG_RAX = 15 * 8
TRACESYSGOOD = 1
AT_CALL = signal.SIGTRAP | 0x80

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.restype = ctypes.c_long
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


def ptrace(request, pid, address=0, data=0):
    if libc.ptrace(request, pid, address, data) < 0:
        sys.exit(f"ptrace {request}: {os.strerror(ctypes.get_errno())}")


pid, number = int(sys.argv[1]), int(sys.argv[2])
ptrace(SEIZE, pid, 0, TRACESYSGOOD)
ptrace(INTERRUPT, pid)
os.waitpid(pid, 0)
deliver = 0
while True:
    ptrace(SYSCALL, pid, 0, deliver)
    _, status = os.waitpid(pid, 0)
    if not os.WIFSTOPPED(status):
        break
    deliver = os.WSTOPSIG(status)
    if deliver == signal.SIGSYS:
        # The filter's answer: the process deals with it alone.
        ptrace(DETACH, pid, 0, deliver)
        break
    if deliver == AT_CALL:
        # Its entry or its exit, where this changes nothing.
        deliver = 0
        ptrace(POKEUSER, pid, ORIG_RAX, number)
print("done", flush=True)
