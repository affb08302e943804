"""Crowds the control socket of an instance until it is killed: crowd.py SOCKET KIND VERSION.

The kinds are:
"held": connections that never send anything;
"flood": invalid requests, whose answers are read;
"clients": one process as many clients, which speak VERSION;
"unread": answers that are never read.
"""

import json
import socket
import struct
import sys
import threading
import time

path, kind, version = sys.argv[1:]


def connect():
    line = socket.socket(socket.AF_UNIX)
    line.connect(path)
    return line


def message(request):
    body = json.dumps(request).encode()
    return struct.pack("<II", len(body), 0) + body


def push(line, data):
    """Sends for ever; the instance may hang up."""
    try:
        while True:
            line.sendall(data)
    except OSError:
        pass


def read(line):
    while line.recv(1 << 20):
        pass


lines = []
if kind == "held":
    lines = [connect() for _ in range(2000)]
elif kind == "flood":
    lines = [connect()]
    for does in [lambda: push(lines[0], message(1) * 100), lambda: read(lines[0])]:
        threading.Thread(target=does, daemon=True).start()
elif kind == "unread":
    lines = [connect() for _ in range(8)]
    for line in lines:
        does = lambda line=line: push(line, message({"request": "ps"}) * 100)
        threading.Thread(target=does, daemon=True).start()
elif kind == "clients":
    hello = message({"request": "hello", "version": int(version), "program": "crowd"})
    for _ in range(40):
        line = connect()
        line.sendall(hello)
        head = line.recv(8, socket.MSG_WAITALL)
        body = line.recv(struct.unpack("<II", head)[0], socket.MSG_WAITALL)
        lines.append(line)
        if b"may not be more" in body:
            print("refused")
            break
time.sleep(0.5)
print("crowding")
time.sleep(600)
