"""Echo server on ADDRESS:PORT for many connections at once, in one thread with selectors."""

import selectors
import socket
import sys

MOST_HELD = 1 << 20

address, port = sys.argv[1], int(sys.argv[2])
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind((address, port))
listener.listen(512)
listener.setblocking(False)
selector = selectors.DefaultSelector()
selector.register(listener, selectors.EVENT_READ)
print("ready", flush=True)


def serve(connection, held, events):
    """Moves bytes. Returns the events to wait for next, or nothing when the connection is over."""
    if events & selectors.EVENT_READ:
        data = connection.recv(1 << 16)
        if data:
            held["bytes"] += data
        else:
            held["ended"] = True
    if held["bytes"]:
        try:
            del held["bytes"][: connection.send(held["bytes"])]
        except BlockingIOError:
            pass
    wanted = 0
    if held["bytes"]:
        wanted |= selectors.EVENT_WRITE
    if not held["ended"] and len(held["bytes"]) < MOST_HELD:
        wanted |= selectors.EVENT_READ
    return wanted


while True:
    for key, events in selector.select():
        if key.fileobj is listener:
            connection, _ = listener.accept()
            connection.setblocking(False)
            state = {"bytes": bytearray(), "ended": False}
            selector.register(connection, selectors.EVENT_READ, state)
            continue
        try:
            wanted = serve(key.fileobj, key.data, events)
        except OSError as error:
            print("connection failed:", error, flush=True)
            wanted = 0
        if wanted:
            selector.modify(key.fileobj, wanted, key.data)
        else:
            selector.unregister(key.fileobj)
            key.fileobj.close()
