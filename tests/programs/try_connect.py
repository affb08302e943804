"""Connects to ADDRESS:PORT and prints the name of the error, or "connected".

A third argument is a TCP_USER_TIMEOUT in milliseconds.
"""

import errno
import socket
import sys
import time

connection = socket.socket()
if len(sys.argv) > 3:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(sys.argv[3]))
begin = time.monotonic()
try:
    connection.connect((sys.argv[1], int(sys.argv[2])))
    print("connected")
except OSError as error:
    print(errno.errorcode[error.errno])
print(f"after {time.monotonic() - begin:.3f} s", file=sys.stderr)
