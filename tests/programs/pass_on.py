"""A server that passes each connection to another process, which serves it.

    pass_on.py ADDRESS PORT PATH

Both processes began before there was a socket of the stack. The connections go through the Unix
socket PATH (SCM_RIGHTS).
"""

import hashlib
import os
import socket
import sys


def serve():
    with socket.socket(socket.AF_UNIX) as way:
        way.bind(sys.argv[3])
        way.listen()
        print("ready", flush=True)
        source, _ = way.accept()
        while True:
            _, fds, _, _ = socket.recv_fds(source, 1, 4)
            if not fds:
                return
            conn = socket.socket(fileno=fds[0])
            assert conn.family == socket.AF_INET and conn.type == socket.SOCK_STREAM
            got = b""
            while more := conn.recv(65536):
                got += more
            conn.sendall(hashlib.sha256(got).digest() + got)
            conn.close()


if os.fork() == 0:
    serve()
    os._exit(0)
listener = socket.create_server((sys.argv[1], int(sys.argv[2])))
way = socket.socket(socket.AF_UNIX)
while way.connect_ex(sys.argv[3]) != 0:
    pass
print("ready", flush=True)
while True:
    conn, _ = listener.accept()
    # What has come so far lies in this process: the other one gets it with the socket.
    conn.recv(1, socket.MSG_PEEK)
    socket.send_fds(way, [b"x"], [conn.fileno()])
    conn.close()
