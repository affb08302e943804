"""Sends to ADDRESS:PORT without end."""

import socket
import sys

connection = socket.create_connection((sys.argv[1], int(sys.argv[2])))
print("connected", flush=True)
while True:
    connection.sendall(bytes(1 << 16))
