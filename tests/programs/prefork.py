"""A server whose children accept on the listener that they share.

    prefork.py ADDRESS PORT CHILDREN [reuseport]

Each child answers with its process id, the SHA-256 of what it read, and all of it. On SIGTERM it
says how many connections it has served, and ends.
"""

import hashlib
import os
import signal
import socket
import sys

listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind((sys.argv[1], int(sys.argv[2])))
listener.listen(64)


def serve():
    served = 0

    def end(*_):
        os.write(1, b"served %d\n" % served)
        os._exit(0)

    signal.signal(signal.SIGTERM, end)
    print("ready", flush=True)
    while True:
        conn, _ = listener.accept()
        got = b""
        while more := conn.recv(65536):
            got += more
        conn.sendall(hashlib.sha256(got).digest() + got)
        conn.close()
        served += 1


children = []
for _ in range(int(sys.argv[3])):
    child = os.fork()
    if child == 0:
        serve()
    children.append(child)
signal.signal(signal.SIGTERM, lambda *_: [os.kill(child, signal.SIGTERM) for child in children])
for child in children:
    os.waitpid(child, 0)
print("over", flush=True)
