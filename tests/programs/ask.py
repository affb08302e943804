"""Connects to ADDRESS:PORT and prints the bytes that it receives."""

import socket
import sys

with socket.create_connection((sys.argv[1], int(sys.argv[2]))) as connection:
    while piece := connection.recv(1 << 16):
        sys.stdout.write(piece.decode())
