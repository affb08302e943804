"""Takes one connection on ADDRESS:PORT, reads to its end, and prints length and SHA-256."""

import hashlib
import socket
import sys

listener = socket.create_server((sys.argv[1], int(sys.argv[2])))
print("ready", flush=True)
connection, _ = listener.accept()
digest, length = hashlib.sha256(), 0
while piece := connection.recv(1 << 18):
    digest.update(piece)
    length += len(piece)
print("took", length, digest.hexdigest(), flush=True)
