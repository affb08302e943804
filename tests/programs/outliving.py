"""Event loops with a listener and a datagram socket, which outlive their instance.

    outliving.py PORT

It prints "ready", then for each kind of loop how often each error came. Each socket tells of the end
once, and then the loop waits in peace: nothing is reported any more.
"""

import asyncio
import collections
import errno
import select
import selectors
import socket
import sys

PORT = int(sys.argv[1])
KINDS = [selectors.EpollSelector, selectors.PollSelector, selectors.SelectSelector]


def sockets():
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("0.0.0.0", 0))
    listener.listen()
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    datagrams.bind(("0.0.0.0", 0))
    listener.setblocking(False)
    datagrams.setblocking(False)
    return [(listener, listener.accept), (datagrams, lambda: datagrams.recv(10))]


def called(call, errors):
    try:
        call()
    except OSError as error:
        errors[errno.errorcode[error.errno]] += 1


def loop(kind, all):
    errors = collections.Counter()
    with kind() as selector:
        for one, call in all:
            selector.register(one, selectors.EVENT_READ, call)
        while errors["ENETDOWN"] < len(all):
            for key, _ in selector.select():
                called(key.data, errors)
        assert selector.select(0.5) == [], "something is reported again"
    for _, call in all:
        called(call, errors)
    return dict(sorted(errors.items()))


def edges(all):
    """Reported once, and never looked at."""
    epoll = select.epoll()
    for one, _ in all:
        epoll.register(one, select.EPOLLIN | select.EPOLLET)
    reported = set()
    while len(reported) < len(all):
        reported.update(number for number, _ in epoll.poll())
    assert epoll.poll(0.5) == [], "an edge is reported again"
    return len(reported)


async def serve(held):
    """What asyncio tells of its server, and of a connection that was there."""
    told = []
    asyncio.get_running_loop().set_exception_handler(lambda _, what: told.append(what["message"]))
    server = await asyncio.start_server(lambda *_: None, sock=held)
    address = held.getsockname()
    reader, writer = await asyncio.open_connection("127.0.0.1", address[1])
    print("ready", flush=True)
    try:
        await reader.read(1)
    except OSError as error:
        print("asyncio", errno.errorcode[error.errno])
    await asyncio.sleep(0.5)
    server.close()
    writer.close()
    return len(told)


crowd = [sockets() for _ in KINDS]
quiet = sockets()
blocking = socket.create_server(("0.0.0.0", PORT))
print("told", asyncio.run(serve(socket.create_server(("0.0.0.0", 0)))) <= 2)
for kind, all in zip(KINDS, crowd):
    print(kind.__name__, loop(kind, all))
print("edges", edges(quiet))
try:
    blocking.accept()
except OSError as error:
    print(errno.errorcode[error.errno])
