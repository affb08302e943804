"""How streams end on a network, by Linux's rules: stream_ends.py WHAT [ADDRESS].

reset     what was sent before a close with SO_LINGER {1, 0} arrives before the reset
again     a server that was killed is started again: its port is free once it is waited for
connects  shutdown ends a connect that waits for ADDRESS, which nobody has
attempts  calls of connect after an attempt that failed, and after one that did not

Prints the outcomes.
"""

import errno
import os
import select
import signal
import socket
import struct
import sys
import threading

RESET_ON_CLOSE = struct.pack("ii", 1, 0)


def name_of(call, *arguments):
    """The name of the call's error, or its result."""
    try:
        return call(*arguments)
    except OSError as error:
        return errno.errorcode[error.errno]


def wait_for(stream, events):
    poll = select.poll()
    poll.register(stream, events)
    return poll.poll(20_000)


def pair():
    listener = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(listener.getsockname())
    return client, listener.accept()[0]


def reset():
    for turn in range(20):
        client, server = pair()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        if turn % 2:
            # Unread bytes make a close a reset, too.
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 0, 0))
            server.sendall(b"never read")
            wait_for(client, select.POLLIN)
        client.sendall(b"x" * 1000)
        client.close()
        got = 0
        while isinstance(piece := name_of(server.recv, 4096), bytes) and piece:
            got += len(piece)
        print(got, piece)


def listen(port=0):
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen()
    datagrams = socket.socket(type=socket.SOCK_DGRAM)
    datagrams.bind(("127.0.0.1", port))
    return listener, datagrams


def again():
    for _ in range(20):
        ready, tell = os.pipe()
        child = os.fork()
        if child == 0:
            kept = listen(9124)
            os.write(tell, b"x")
            signal.pause()
        os.read(ready, 1)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        for kept in listen(9124):
            kept.close()
        os.close(ready)
        os.close(tell)
    print("free")


def connects(address):
    for how in socket.SHUT_RD, socket.SHUT_WR, socket.SHUT_RDWR:
        waits, got = socket.socket(), []
        thread = threading.Thread(target=lambda: got.append(name_of(waits.connect, (address, 9))))
        thread.start()
        # Until the attempt has begun there is nothing to end.
        while not got and name_of(waits.shutdown, how) == "ENOTCONN":
            pass
        thread.join(20)
        other = socket.socket()
        other.setblocking(False)
        begun = name_of(other.connect, (address, 9))
        ended = name_of(other.shutdown, how)
        events = wait_for(other, select.POLLIN | select.POLLOUT)[0][1]
        error = other.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        print(got, begun, ended, events, errno.errorcode[error])


def attempts():
    spare = socket.create_server(("127.0.0.1", 0))
    nobody = spare.getsockname()
    spare.close()
    there = socket.create_server(("127.0.0.1", 0))
    for look in False, True:
        stream = socket.socket()
        stream.setblocking(False)
        said = [name_of(stream.connect, nobody)]
        wait_for(stream, select.POLLHUP)
        if look:
            said.append(errno.errorcode[stream.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)])
        said += [name_of(stream.connect, nobody), name_of(stream.connect, there.getsockname())]
        wait_for(stream, select.POLLOUT)
        said += [name_of(stream.connect, nobody), name_of(stream.connect, nobody)]
        print(*said)
    stream = socket.socket()
    said = [name_of(stream.connect, nobody), name_of(stream.recv, 1)]
    said += [name_of(stream.bind, ("127.0.0.1", 0)), name_of(stream.connect, there.getsockname())]
    print(*said, name_of(stream.connect, nobody))
    print(name_of(socket.socket().connect, ("127.0.0.1", 0)))


{"reset": reset, "again": again, "connects": connects, "attempts": attempts}[sys.argv[1]](*sys.argv[2:])
