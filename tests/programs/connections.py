"""Many connections at a time: an echo server and its client, each with a limit of descriptors.

    connections.py serve ADDRESS PORT LIMIT COUNT     echo until COUNT connections were closed
    connections.py connect ADDRESS PORT LIMIT COUNT   open COUNT, use all of them, end all
    connections.py busy ADDRESS PORT LIMIT COUNT      open COUNT; from SIGUSR1 on use ten of them
                                                      1,000 times
    connections.py fill ADDRESS PORT LIMIT            accept until that fails; then once more
    connections.py some ADDRESS PORT LIMIT COUNT      open COUNT and wait to be killed
"""

import errno
import os
import resource
import select
import signal
import socket
import sys

AT_ONCE = 200
MESSAGE = 48


def memory():
    """This process's own memory and that of shared regions, KiB."""
    rows = (line.split() for line in open("/proc/self/status"))
    kib = {row[0]: row[1] for row in rows if row[0] in ("RssAnon:", "RssShmem:")}
    return f"own {kib['RssAnon:']} shared {kib['RssShmem:']} KiB"


def listener(address):
    listener = socket.create_server(address, backlog=4096)
    listener.setblocking(False)
    return listener


def serve(address, count):
    listening = listener(address)
    epoll = select.epoll()
    epoll.register(listening, select.EPOLLIN)
    print("ready", flush=True)
    connections, closed, most = {}, 0, 0
    while closed < count:
        for fd, _ in epoll.poll():
            if fd == listening.fileno():
                accept_all(listening, epoll, connections)
                if len(connections) >= count > most:
                    print("holds", len(connections), memory(), flush=True)
                most = max(most, len(connections))
            elif not echo(connections[fd]):
                connections.pop(fd).close()
                closed += 1
    print("served", closed, "most", most, memory(), flush=True)


def accept_all(listening, epoll, connections):
    while True:
        try:
            connection, _ = listening.accept()
        except BlockingIOError:
            return
        connection.setblocking(False)
        connections[connection.fileno()] = connection
        epoll.register(connection, select.EPOLLIN)


def echo(connection):
    data = connection.recv(4096)
    if data:
        assert connection.send(data) == len(data)
    return bool(data)


def busy(address, count):
    epoll, connections = open_all(address, count)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    print("open", count, flush=True)
    signal.sigwait({signal.SIGUSR1})
    few = dict(list(connections.items())[:: len(connections) // 10][:10])
    for turn in range(1000):
        ask_all(epoll, few, b"turn %d of" % turn)
    print("asked", len(few), flush=True)
    signal.pause()


def connect(address, count):
    epoll, connections = open_all(address, count)
    print("open", count, memory(), flush=True)
    for word in (b"first", b"again"):
        ask_all(epoll, connections, word)
    end_all(epoll, connections)
    print("closed", len(connections), memory(), flush=True)


def open_all(address, count):
    epoll = select.epoll()
    connections, begun, done = {}, 0, 0
    while done < count:
        while begun < count and begun - done < AT_ONCE:
            connection = socket.socket()
            connection.setblocking(False)
            outcome = connection.connect_ex(address)
            assert outcome in (0, errno.EINPROGRESS), os.strerror(outcome)
            connections[connection.fileno()] = connection
            epoll.register(connection, select.EPOLLOUT)
            begun += 1
        for fd, _ in epoll.poll():
            outcome = connections[fd].getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            assert outcome == 0, os.strerror(outcome)
            epoll.modify(fd, 0)
            done += 1
    return epoll, connections


def ask_all(epoll, connections, word):
    """Sends a message of its own on each connection, and checks all echoes."""
    waiting = list(connections)
    asked, answered = 0, 0
    while answered < len(connections):
        while waiting and asked - answered < AT_ONCE:
            fd = waiting.pop()
            assert connections[fd].send(message(word, fd)) == MESSAGE
            epoll.modify(fd, select.EPOLLIN)
            asked += 1
        for fd, events in epoll.poll():
            assert events == select.EPOLLIN, events
            assert connections[fd].recv(4096) == message(word, fd)
            epoll.modify(fd, 0)
            answered += 1


def end_all(epoll, connections):
    """Sends the end of each stream, and waits for the server's: FINs of all of them at once would
    overrun the device's queue, and their repetitions as well."""
    waiting = list(connections)
    begun, ended = 0, 0
    while ended < len(connections):
        while waiting and begun - ended < AT_ONCE:
            fd = waiting.pop()
            connections[fd].shutdown(socket.SHUT_WR)
            epoll.modify(fd, select.EPOLLIN)
            begun += 1
        for fd, _ in epoll.poll():
            assert connections[fd].recv(4096) == b""
            connections[fd].close()
            ended += 1


def message(word, fd):
    return (b"%s %d " % (word, fd)).ljust(MESSAGE, b".")


def fill(address):
    listening = listener(address)
    print("ready", flush=True)
    connections = []
    while True:
        select.select([listening], [], [])
        try:
            connections.append(listening.accept()[0])
        except OSError as error:
            print("full", errno.errorcode[error.errno], connections[-1].fileno(), flush=True)
            break
    for refused in (lambda: socket.socket(), lambda: open("/dev/null")):
        try:
            refused()
            print("has room")
        except OSError as error:
            print(errno.errorcode[error.errno], flush=True)
    # The connection that was not taken is still there.
    connections.pop().close()
    connections.append(listening.accept()[0])
    print("took", connections[-1].fileno(), flush=True)


def some(address, count):
    connections = [socket.create_connection(address) for _ in range(count)]
    print("open", len(connections), flush=True)
    signal.pause()


def main():
    role, host, port, limit, *count = sys.argv[1:]
    limit = int(limit)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    roles = {"serve": serve, "connect": connect, "busy": busy, "fill": fill, "some": some}
    roles[role]((host, int(port)), *map(int, count))


main()
