"""Prints what TCP_INQ and SO_TIMESTAMP tell beside received parts of a stream, and at its end."""

import socket

SOL_TCP, TCP_INQ, TCP_CC_INFO = 6, 36, 26
SO_TIMESTAMP, SO_TIMESTAMPNS = 29, 35

listener = socket.create_server(("127.0.0.1", 0))
listener.setsockopt(SOL_TCP, TCP_INQ, 1)
client = socket.create_connection(listener.getsockname())
server, _ = listener.accept()
print("taken over", server.getsockopt(SOL_TCP, TCP_INQ))


def receive(length, room=100):
    data, messages, flags, _ = server.recvmsg(length, room)
    return data, messages, flags


client.sendall(b"0123456789")
while len(server.recv(10, socket.MSG_PEEK)) < 10:
    pass
print(receive(4), receive(2, 0), receive(2))
client.close()
server.recv(10, socket.MSG_PEEK | socket.MSG_WAITALL)
print(receive(10), receive(10))
server.setsockopt(SOL_TCP, TCP_INQ, 0)
print(receive(10))

listener.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMP, 1)
stamped = False
# Linux begins to note times a moment after it was asked for the first ones.
while not stamped:
    client = socket.create_connection(listener.getsockname())
    server, _ = listener.accept()
    client.sendall(b"0")
    stamped = any(level == socket.SOL_SOCKET for level, _, _ in receive(1)[1])
for option in SO_TIMESTAMP, SO_TIMESTAMPNS:
    client.sendall(b"0123456789")
    while len(server.recv(10, socket.MSG_PEEK)) < 10:
        pass
    told = [receive(4), receive(4, 0), receive(4)]
    print("timed", [[(*kind, len(bytes)) for *kind, bytes in messages] for _, messages, _ in told])
    server.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
client.close()
print("timed end", receive(10))
client = socket.socket()
client.setsockopt(SOL_TCP, socket.TCP_CONGESTION, b"reno")
print("of Reno", client.getsockopt(SOL_TCP, TCP_CC_INFO, 64))
