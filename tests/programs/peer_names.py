"""Prints the result of getpeername in each state of a connection between two sockets of this program.

A peer's name is printed as "a name", an error by its name. The program waits for a state that takes a
moment.
"""

import errno
import select
import socket
import struct
import time

RESET = struct.pack("ii", 1, 0)


def name(sock):
    try:
        return "a name" if sock.getpeername() else "nothing"
    except OSError as error:
        return errno.errorcode[error.errno]


def soon(sock, wanted):
    """The result, once it is `wanted`; else the result after a minute."""
    end = time.monotonic() + 60
    while name(sock) != wanted and time.monotonic() < end:
        time.sleep(0.01)
    return name(sock)


def pair(listener):
    client = socket.create_connection(listener.getsockname())
    return client, listener.accept()[0]


with socket.create_server(("127.0.0.1", 0)) as listener:
    print("listening:", name(listener))
    with socket.socket() as unused:
        print("before connect:", name(unused))
    with socket.socket() as refused:
        assert refused.connect_ex(("127.0.0.1", 9)) == errno.ECONNREFUSED
        print("refused:", name(refused))

    client, server = pair(listener)
    print("connected:", name(client), "and", name(server))
    server.close()
    assert client.recv(1) == b""
    print("the peer has closed:", name(client))
    client.close()

    client, server = pair(listener)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    server.close()
    select.select([client], [], [], 5)
    print("reset:", soon(client, "ENOTCONN"))
    print("its own name:", client.getsockname()[0])
    client.close()

    client, server = pair(listener)
    client.shutdown(socket.SHUT_WR)
    assert server.recv(1) == b""
    print("one end has shut:", name(client), "and", name(server))
    server.shutdown(socket.SHUT_WR)
    assert client.recv(1) == b""
    print("both have shut:", soon(client, "ENOTCONN"), "and", soon(server, "ENOTCONN"))

with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagram:
    print("a datagram socket:", name(datagram))
    datagram.connect(("127.0.0.1", 9))
    print("connected:", name(datagram))
