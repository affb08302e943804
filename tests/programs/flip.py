"""A proxy for TCP on a bad way: of each connection it changes one bit, this many bytes after the begin of what the
client sends or gets. Its words: its address and port, the server's address and port, `up` or `down`, the byte."""

import socket
import sys
import threading

ADDRESS, PORT, SERVER, SERVER_PORT, WAY, BYTE = sys.argv[1:]
BYTE = int(BYTE)


def pump(source, sink, flips):
    at = 0
    try:
        while got := source.recv(65536):
            if flips and at <= BYTE < at + len(got):
                got = bytearray(got)
                got[BYTE - at] ^= 1
                print("flipped", flush=True)
            at += len(got)
            sink.sendall(got)
    except OSError:
        pass
    for end in (source, sink):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


listener = socket.create_server((ADDRESS, int(PORT)))
print("ready", flush=True)
while True:
    client, _ = listener.accept()
    server = socket.create_connection((SERVER, int(SERVER_PORT)))
    for source, sink, way in ((client, server, "up"), (server, client, "down")):
        threading.Thread(target=pump, args=(source, sink, way == WAY), daemon=True).start()
