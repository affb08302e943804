"""A parent and its children use the same sockets in turn.

    take_turns.py ADDRESS PORT

The parent reads three bytes of a connection, a child the next three, which ends without a close, the
parent the last three. Of two datagrams that wait, a child receives one and the parent the other. An
option that the parent has set holds in the child. A child that touches nothing ends nothing.
"""

import os
import socket
import sys

address, port = sys.argv[1], int(sys.argv[2])


def in_child(run):
    pid = os.fork()
    if pid == 0:
        try:
            run()
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0


listener = socket.create_server((address, port))
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
datagrams.bind((address, port))
print("ready", flush=True)
conn, peer = listener.accept()
conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
first = conn.recv(3, socket.MSG_WAITALL)
in_child(lambda: None)


def second():
    assert conn.getpeername() == peer
    assert conn.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
    conn.sendall(b"child " + conn.recv(3, socket.MSG_WAITALL) + b"\n")


in_child(second)
conn.sendall(b"parent " + first + conn.recv(3, socket.MSG_WAITALL) + b"\n")
conn.close()
# Both have come.
conn, _ = listener.accept()
conn.recv(1)


def answer(who):
    got, source = datagrams.recvfrom(10)
    datagrams.sendto(who + b" " + got, source)


in_child(lambda: answer(b"child"))
answer(b"parent")
conn.close()
in_child(listener.close)
listener.accept()
print("over", flush=True)
