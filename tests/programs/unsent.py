"""What TCP_NOTSENT_LOWAT does to poll and to sends, over the loopback device."""

import select
import socket
import struct
import threading

TCP_NOTSENT_LOWAT = getattr(socket, "TCP_NOTSENT_LOWAT", 25)
LOWAT = 16384
PIECE = 4096
NOTSENT_BYTES = 144
REST = bytes(range(256)) * 4096

listener = socket.create_server(("127.0.0.1", 0))
listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
client = socket.create_connection(listener.getsockname())
server, _ = listener.accept()
poll = select.poll()
poll.register(client, select.POLLOUT)


def bound(value):
    client.setsockopt(socket.IPPROTO_TCP, TCP_NOTSENT_LOWAT, value)


def unsent():
    info = client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    return struct.unpack_from("I", info, NOTSENT_BYTES)[0]


def is_writable(timeout=0):
    return bool(poll.poll(timeout))


# Nobody reads: the window closes, and bytes wait to leave.
bound(LOWAT)
sent = 0
while is_writable(200):
    sent += client.send(bytes(PIECE), socket.MSG_DONTWAIT)
print("at half of it", LOWAT // 2 <= unsent() < LOWAT // 2 + PIECE)
try:
    while True:
        sent += client.send(bytes(PIECE), socket.MSG_DONTWAIT)
except BlockingIOError:
    print("at all of it", LOWAT <= unsent() < LOWAT + PIECE)
bound(8 * LOWAT)
print("with a larger bound", is_writable())
bound(LOWAT)
print("with the old one", is_writable())
bound(0)
print("without one", is_writable())
bound(LOWAT)
print("value", client.getsockopt(socket.IPPROTO_TCP, TCP_NOTSENT_LOWAT))

received = bytearray()


def read_all():
    while piece := server.recv(65536):
        received.extend(piece)


reader = threading.Thread(target=read_all)
reader.start()
print("as the peer reads", is_writable(10000))
client.sendall(REST)
client.shutdown(socket.SHUT_WR)
reader.join()
print("arrived", bytes(received) == bytes(sent) + REST)
