"""Urgent data between two ends: one listens on ADDRESS:PORT, the other connects. Each sends the
same things to the other, in turn, and prints what it has received. So both must print the same."""

import errno
import fcntl
import select
import socket
import struct
import sys
import termios

SIOCATMARK = 0x8905
LIMIT = 20


def number(sock, request):
    return struct.unpack("i", fcntl.ioctl(sock, request, struct.pack("i", 0)))[0]


def wait(sock, events):
    """The result of poll, once one of `events` is in it."""
    poll = select.poll()
    poll.register(sock, events)
    found = poll.poll(LIMIT * 1000)
    assert found, "nothing came"
    return found[0][1]


def attempt(sock, most, flags=0):
    try:
        return sock.recv(most, flags | socket.MSG_DONTWAIT)
    except OSError as error:
        return errno.errorcode[error.errno]


def settle(sock):
    """The other end has sent all of this round: it says so on a connection of its own."""
    side.recv(1)


def speak_plain(sock):
    sock.sendall(b"abc")
    sock.send(b"defG", socket.MSG_OOB)
    sock.sendall(b"hij")


def hear_plain(sock):
    print("poll", bool(wait(sock, select.POLLPRI) & select.POLLPRI))
    settle(sock)
    print("except", [len(part) for part in select.select([], [], [sock], LIMIT)])
    print("mark", number(sock, SIOCATMARK), "inq", number(sock, termios.FIONREAD))
    print("peek oob", attempt(sock, 10, socket.MSG_OOB | socket.MSG_PEEK))
    print("to the mark", attempt(sock, 4), attempt(sock, 100))
    print("mark", number(sock, SIOCATMARK))
    print("oob", attempt(sock, 10, socket.MSG_OOB), attempt(sock, 10, socket.MSG_OOB))
    print("except", [len(part) for part in select.select([], [], [sock], 0)])
    print("peek", attempt(sock, 2, socket.MSG_PEEK))
    print("after it", attempt(sock, 100), number(sock, SIOCATMARK), attempt(sock, 100))


def hear_past(sock):
    """The mark is passed without the byte."""
    wait(sock, select.POLLPRI)
    settle(sock)
    print("to the mark", attempt(sock, 100))
    print("after it", attempt(sock, 100))
    print("too late", attempt(sock, 1, socket.MSG_OOB))


def speak_twice(sock):
    sock.send(b"abC", socket.MSG_OOB)
    sock.send(b"deF", socket.MSG_OOB)
    sock.sendall(b"gh")


def hear_twice(sock):
    """Only the newest mark counts: the byte of the older one is an ordinary byte again."""
    settle(sock)
    print("to the newer", attempt(sock, 100), number(sock, SIOCATMARK))
    print("oob", attempt(sock, 1, socket.MSG_OOB), attempt(sock, 100))


def hear_inline(sock):
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_OOBINLINE, 1)
    print("inline", sock.getsockopt(socket.SOL_SOCKET, socket.SO_OOBINLINE))
    settle(sock)
    print("to the mark", attempt(sock, 100), number(sock, SIOCATMARK))
    print("oob", attempt(sock, 1, socket.MSG_OOB), "inq", number(sock, termios.FIONREAD))
    print("with it", attempt(sock, 100))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_OOBINLINE, 0)


def speak_alone(sock):
    sock.send(b"!", socket.MSG_OOB)


def hear_alone(sock):
    """An urgent byte and nothing else is nothing to read."""
    wait(sock, select.POLLPRI)
    settle(sock)
    print("readable", len(select.select([sock], [], [], 0)[0]), attempt(sock, 10))
    print("oob", attempt(sock, 1, socket.MSG_OOB))


ROUNDS = [
    (speak_plain, hear_plain),
    (speak_plain, hear_past),
    (speak_twice, hear_twice),
    (speak_plain, hear_inline),
    (speak_alone, hear_alone),
]


def speak(sock, turn):
    turn(sock)
    # Sent after them, on another connection; the bytes themselves may still be on their way.
    poll = select.poll()
    poll.register(sock, 0)
    while number(sock, termios.TIOCOUTQ):
        poll.poll(1)
    side.sendall(b".")
    assert side.recv(1) == b"+", "the other end has given up"


def hear(sock, turn):
    turn(sock)
    side.sendall(b"+")


role, address, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
if role == "listen":
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((address, port))
    listener.listen(2)
    print("ready", file=sys.stderr, flush=True)
    sock, side = listener.accept()[0], listener.accept()[0]
else:
    sock = socket.create_connection((address, port))
    side = socket.create_connection((address, port))
side.settimeout(LIMIT)
for speaker, hearer in ROUNDS:
    if role == "listen":
        speak(sock, speaker)
        hear(sock, hearer)
    else:
        hear(sock, hearer)
        speak(sock, speaker)
print("nothing", attempt(sock, 1, socket.MSG_OOB))
datagram = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
try:
    datagram.sendto(b"x", socket.MSG_OOB, (address, port))
except OSError as error:
    print("datagram", errno.errorcode[error.errno])
