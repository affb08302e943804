"""no_user_namespaces.py USER PROGRAM [WORD]...: executes a program where users may make none.

Root runs it. The program is in a user namespace, in which all users are the same as outside, and
whose limit of further ones is 0.
"""

import ctypes
import os
import sys

CLONE_NEWUSER = 0x10000000
user, words = int(sys.argv[1]), sys.argv[2:]
inside, outside = os.pipe(), os.pipe()
child = os.fork()
if child == 0:
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWUSER):
        os._exit(2)
    os.write(inside[1], b"x")
    os.read(outside[0], 1)
    os.setgid(0)
    os.setuid(0)
    with open("/proc/sys/user/max_user_namespaces", "w") as limit:
        limit.write("0")
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)
    os.chdir("/run/home")
    os.execvp(words[0], words)
os.read(inside[0], 1)
for kind in ("uid", "gid"):
    with open(f"/proc/{child}/{kind}_map", "w") as file:
        file.write("0 0 65536")
os.write(outside[1], b"x")
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
