"""Puts descriptors in flight: in sockets that nobody reads. Argument: how many. Ends with stdin."""

import array
import socket
import sys

EACH = 250

pairs = []
fds = array.array("i", [0] * EACH)
for _ in range(int(sys.argv[1]) // EACH):
    pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    pairs.append(pair)
    pair[0].sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
print("in flight", flush=True)
sys.stdin.read()
