"""Sends a message to an echo server again and again, with a pause, and waits for each echo.

pulse.py HOST PORT BYTES SECONDS-BETWEEN
"""

import socket
import sys
import time

host, port, size, pause = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
message = b"x" * size
with socket.create_connection((host, port)) as connection:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    print("connected", flush=True)
    while True:
        connection.sendall(message)
        left = size
        while left > 0:
            part = connection.recv(left)
            if not part:
                sys.exit("the peer has closed")
            left -= len(part)
        time.sleep(pause)
