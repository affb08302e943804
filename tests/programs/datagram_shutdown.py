"""shutdown(2) of datagram sockets: what it returns, who wakes, what is sent and received later.

Prints one row for each socket, direction and way to wait. The rows are the same on Linux.
"""

import array
import errno
import fcntl
import select
import socket
import struct
import termios
import threading

UDPLITE = 136
HOW = {"RD": socket.SHUT_RD, "WR": socket.SHUT_WR, "RDWR": socket.SHUT_RDWR}


def outcome(call, *words):
    """What a call returns, or the name of its error."""
    try:
        return call(*words)
    except OSError as error:
        return errno.errorcode[error.errno] if error.errno else "timed out"


def made(family, address, protocol, connected):
    """A bound socket, connected or not, and another one to send to it from."""
    one = socket.socket(family, socket.SOCK_DGRAM, protocol)
    other = socket.socket(family, socket.SOCK_DGRAM, protocol)
    one.bind((address, 0))
    other.bind((address, 0))
    if connected:
        one.connect(other.getsockname())
    return one, other


def events(one):
    """poll's bits of the socket."""
    poll = select.poll()
    poll.register(one, 0x3FFF)
    ready = dict(poll.poll(0)).get(one.fileno(), 0)
    epoll = select.epoll()
    epoll.register(one, 0x3FFF)
    same = dict(epoll.poll(0)).get(one.fileno(), 0)
    epoll.close()
    return f"{ready:x} {same:x}"


def arrived(one):
    """Waits until a datagram has arrived: a socket that is shut down is always readable."""
    for _ in range(3000):
        length = array.array("i", [0])
        fcntl.ioctl(one, termios.FIONREAD, length)
        if length[0]:
            return
        threading.Event().wait(0.01)


def wakes(one, how, wait):
    """Whether a thread that waits in `wait` goes on, and with what."""
    got, begun = [], threading.Event()

    def receive():
        begun.set()
        got.append(outcome(wait))

    thread = threading.Thread(target=receive, daemon=True)
    thread.start()
    begun.wait()
    # The call of the thread has most likely begun; where it has not, it ends at once.
    threading.Event().wait(0.1)
    said = outcome(one.shutdown, how)
    thread.join(30)
    return said, got[0] if got else "still waits"


def wait_by_poll(one):
    """The bits for which poll wakes, of those that mean the end."""
    poll = select.poll()
    poll.register(one, select.POLLIN | select.POLLRDHUP)
    return f"{poll.poll()[0][1]:x}"


def wait_by_epoll(one):
    """The same of epoll, edge-triggered."""
    epoll = select.epoll()
    epoll.register(one, select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLET)
    return f"{epoll.poll()[0][1]:x}"


def rows(name, family, address, protocol):
    for connected in (False, True):
        for how in HOW:
            def row(*words):
                print(name, "connected" if connected else "open", how, *words, flush=True)

            one, other = made(family, address, protocol, connected)
            row("first", outcome(one.shutdown, HOW[how]), events(one))
            one.setblocking(False)
            row("recv", outcome(one.recv, 9), outcome(one.recv, 9, socket.MSG_PEEK))
            row("recvfrom", outcome(one.recvfrom, 9), outcome(one.recvmsg, 9))
            row("again", outcome(one.shutdown, HOW[how]), events(one))
            row("send", outcome(one.sendto, b"out", other.getsockname()))
            other.sendto(b"in", one.getsockname())
            arrived(one)
            row("late", events(one), outcome(one.recv, 9), outcome(one.recv, 9))
            one.settimeout(None)
            if how != "WR":
                one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("@ll", 30, 0))
                row("blocking", outcome(one.recv, 9), outcome(one.recvfrom, 9))
            one.connect(other.getsockname())
            row("connect", events(one), outcome(one.shutdown, HOW[how]))
            row("sent", outcome(one.send, b"out"))
            one.close()
            if how == "WR":
                continue
            for kind, wait in (("recv", lambda one: one.recv(9)), ("poll", wait_by_poll),
                               ("epoll", wait_by_epoll),
                               ("select", lambda one: len(select.select([one], [], [])[0]))):
                one, other = made(family, address, protocol, connected)
                row("waiting", kind, *wakes(one, HOW[how], lambda: wait(one)))
            one, other = made(family, address, protocol, connected)
            other.sendto(b"before", one.getsockname())
            arrived(one)
            outcome(one.shutdown, HOW[how])
            row("queued", one.recv(9), outcome(one.recv, 9, socket.MSG_DONTWAIT))


rows("udp4", socket.AF_INET, "127.0.0.1", 0)
rows("udp6", socket.AF_INET6, "::1", 0)
rows("lite4", socket.AF_INET, "127.0.0.1", UDPLITE)
