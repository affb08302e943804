"""TCP server on ADDRESS:PORT that prints how its one connection begins and ends."""

import socket
import sys

listener = socket.create_server((sys.argv[1], int(sys.argv[2])))
print("ready", flush=True)
connection, _ = listener.accept()
total = 0
while True:
    try:
        piece = connection.recv(1 << 16)
    except ConnectionResetError:
        print("ended by RST", flush=True)
        break
    if not piece:
        print("ended by FIN", flush=True)
        break
    if total < 1 << 20 <= total + len(piece):
        print("got 1 MiB", flush=True)
    total += len(piece)
