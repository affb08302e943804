"""Accepts connections on ADDRESS:PORT and never reads. Prints each connection's end by a RST."""

import select
import socket
import sys

listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
listener.bind((sys.argv[1], int(sys.argv[2])))
listener.listen(100)
poll = select.poll()
poll.register(listener, select.POLLIN)
held = {}
print("ready", flush=True)
while True:
    for fd, events in poll.poll():
        if fd == listener.fileno():
            connection, _ = listener.accept()
            held[connection.fileno()] = (len(held) + 1, connection)
            poll.register(connection, 0)
            print("accepted", len(held), flush=True)
        elif events & select.POLLERR:
            poll.unregister(fd)
            print("reset", held[fd][0], flush=True)
        elif events & select.POLLHUP:
            poll.unregister(fd)
            print("ended", held[fd][0], flush=True)
