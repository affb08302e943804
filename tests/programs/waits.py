"""Every kind of wait for every pair of kinds of descriptors, and the errors of epoll_ctl.

The output is the same on the kernel's stack and on Tasuki.
"""

import ctypes
import errno
import itertools
import os
import resource
import select
import socket
import struct

LIBC = ctypes.CDLL(None, use_errno=True)
LONG = 600


class Thing:
    """A descriptor that can be made readable, and not readable again."""

    def __init__(self):
        self.kept = []

    def fileno(self):
        return self.fd

    def end(self):
        for one in self.kept:
            one.close() if hasattr(one, "close") else os.close(one)


class Stream(Thing):
    def __init__(self):
        listener = socket.create_server(("127.0.0.1", 0))
        self.far = socket.create_connection(listener.getsockname())
        self.near = listener.accept()[0]
        listener.close()
        self.kept = [self.far, self.near]
        self.fd = self.near.fileno()

    def ready(self):
        self.far.send(b"x")

    def quiet(self):
        self.near.recv(1)


class Datagrams(Thing):
    def __init__(self):
        self.near = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.near.bind(("127.0.0.1", 0))
        self.far = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.kept = [self.far, self.near]
        self.fd = self.near.fileno()

    def ready(self):
        self.far.sendto(b"x", self.near.getsockname())

    def quiet(self):
        self.near.recv(1)


class Listener(Thing):
    def __init__(self):
        self.near = socket.create_server(("127.0.0.1", 0))
        self.kept = [self.near]
        self.fd = self.near.fileno()

    def ready(self):
        self.far = socket.create_connection(self.near.getsockname())

    def quiet(self):
        self.near.accept()[0].close()
        self.far.close()


class Pipe(Thing):
    def __init__(self):
        self.near, self.far = os.pipe()
        self.fd = self.near
        self.kept = [self.near, self.far]

    def ready(self):
        os.write(self.far, b"x")

    def quiet(self):
        os.read(self.near, 1)


class Counter(Thing):
    def __init__(self):
        self.fd = os.eventfd(0)
        self.kept = [self.fd]

    def ready(self):
        os.eventfd_write(self.fd, 1)

    def quiet(self):
        os.eventfd_read(self.fd)


class Timer(Thing):
    def __init__(self):
        self.fd = LIBC.timerfd_create(1, 0)
        self.kept = [self.fd]

    def ready(self):
        LIBC.timerfd_settime(self.fd, 0, struct.pack("4q", 0, 0, 0, 1000), None)

    def quiet(self):
        os.read(self.fd, 8)


class Unix(Thing):
    def __init__(self):
        self.near, self.far = socket.socketpair()
        self.kept = [self.near, self.far]
        self.fd = self.near.fileno()

    def ready(self):
        self.far.send(b"x")

    def quiet(self):
        self.near.recv(1)


def in_set(inner, depth):
    class Set(inner):
        def __init__(self):
            super().__init__()
            for _ in range(depth):
                outer = select.epoll()
                outer.register(self.fd, select.EPOLLIN)
                self.kept.append(outer)
                self.fd = outer.fileno()

    Set.__name__ = f"{inner.__name__} in {depth}"
    return Set


KINDS = [Stream, Datagrams, Listener, Pipe, Counter, Timer, Unix]
KINDS += [in_set(kind, depth) for kind in (Stream, Datagrams, Pipe) for depth in (1, 2)]


def by_select(fds, time):
    return select.select(fds, [], [], time)[0]


def by_poll(fds, time):
    poll = select.poll()
    for fd in fds:
        poll.register(fd, select.POLLIN)
    return [fd for fd, _ in poll.poll(time * 1000)]


def by_epoll(fds, time, more=0):
    with select.epoll() as poll:
        for fd in fds:
            poll.register(fd, select.EPOLLIN | more)
        return [fd for fd, _ in poll.poll(time)]


def by_edge(fds, time):
    return by_epoll(fds, time, select.EPOLLET)


def by_one_shot(fds, time):
    return by_epoll(fds, time, select.EPOLLONESHOT)


def by_exclusive(fds, time):
    return by_epoll(fds, time, select.EPOLLEXCLUSIVE)


WAYS = [by_select, by_poll, by_epoll, by_edge, by_one_shot, by_exclusive]


def pairs():
    for first, second in itertools.combinations_with_replacement(KINDS, 2):
        one, two = first(), second()
        fds = [one.fd, two.fd]
        name = {one.fd: 1, two.fd: 2}
        line = []
        for way in WAYS:
            try:
                found = [way(fds, 0)]
                one.ready()
                found.append(way(fds, LONG))
                two.ready()
                by_poll([two.fd], LONG)
                found.append(way(fds, LONG))
                one.quiet()
                found.append(way(fds, LONG))
                two.quiet()
                found.append(way(fds, 0))
            except OSError as error:
                found = [[errno.errorcode[error.errno]]]
                name[found[0][0]] = found[0][0]
            line.append(" ".join(str(sorted(name[fd] for fd in fds)) for fds in found))
        print(first.__name__, "+", second.__name__)
        for way, said in zip(WAYS, line):
            print("   ", way.__name__, said)
        one.end()
        two.end()


def error_of(call, *words):
    try:
        call(*words)
        return "no error"
    except OSError as error:
        return errno.errorcode[error.errno]


def errors():
    poll = select.epoll()
    stream = Stream()
    fd = stream.fd
    print("unknown to modify", error_of(poll.modify, fd, select.EPOLLIN))
    print("unknown to remove", error_of(poll.unregister, fd))
    print("new", error_of(poll.register, fd, select.EPOLLIN))
    print("twice", error_of(poll.register, fd, select.EPOLLIN))
    print("itself", error_of(poll.register, poll.fileno(), select.EPOLLIN))
    print("a file", error_of(poll.register, os.open("/proc/self/exe", os.O_RDONLY), select.EPOLLIN))
    print("no descriptor", error_of(poll.register, 9999, select.EPOLLIN))
    exclusive = select.EPOLLEXCLUSIVE
    print("exclusive to modify", error_of(poll.modify, fd, select.EPOLLIN | exclusive))
    other = select.epoll()
    print("exclusive and one shot", error_of(other.register, fd, exclusive | select.EPOLLONESHOT))
    other.register(poll.fileno(), select.EPOLLIN)
    print("a circle", error_of(poll.register, other.fileno(), select.EPOLLIN))
    copy = os.dup(fd)
    print("a duplicate", error_of(poll.register, copy, select.EPOLLIN))
    stream.ready()
    print("both", len(poll.poll(LONG)) if by_poll([fd], LONG) else 0)
    os.close(copy)
    stream.end()
    LIBC.epoll_ctl.argtypes = [ctypes.c_int] * 3 + [ctypes.c_void_p]
    event = ctypes.create_string_buffer(12)
    for words in [(poll.fileno(), 99, 0), (1, 1, poll.fileno()), (-1, 1, 0), (poll.fileno(), 1, -1)]:
        print("epoll_ctl", LIBC.epoll_ctl(*words, event), errno.errorcode[ctypes.get_errno()])


def full_table():
    """No descriptor is free: epoll_ctl needs none."""
    stream, late = Stream(), Stream()
    first, second = select.epoll(), select.epoll()
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    fill = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, limit[1]))
    try:
        while True:
            fill.append(os.dup(0))
    except OSError as error:
        print("full", errno.errorcode[error.errno])
    first.register(stream.fd, select.EPOLLIN)
    second.register(stream.fd, select.EPOLLIN)
    first.register(late.fd, select.EPOLLIN)
    stream.ready()
    print("first", [fd == stream.fd for fd, _ in first.poll(LONG)])
    print("second", [fd == stream.fd for fd, _ in second.poll(LONG)])
    for fd in fill:
        os.close(fd)
    resource.setrlimit(resource.RLIMIT_NOFILE, limit)


pairs()
errors()
full_table()
