"""A program that gives away kernel sockets whose close takes ten minutes, and closes its own copies.

lingering.py supervisor SOCKET   sends them to a supervisor
lingering.py wire SOCKET PATH    connects to the wire at SOCKET, then listens as a wire at PATH

Such a socket has SO_LINGER and data that its peer does not take. The process that closes the last
copy waits. Each way prints a line. The program then keeps the peers until it is ended.
"""

import array
import fcntl
import os
import socket
import struct
import sys
import threading
import time

# Most descriptors of a message.
MOST = 253
F_ADD_SEALS, F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW = 1033, 1, 2, 4
kept = []


def lingering():
    """A connection with a full send queue, to a peer that reads nothing."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    ours = socket.create_connection(listener.getsockname())
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    kept.append(listener.accept()[0])
    listener.close()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 600))
    ours.setblocking(False)
    try:
        while True:
            ours.send(bytes(1 << 16))
    except BlockingIOError:
        return ours


def give(line, words, gifts):
    """Sends words with descriptors, then closes our copies. False: they were not taken."""
    fds = array.array("i", [gift.fileno() for gift in gifts])
    try:
        line.sendmsg([words], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
    except OSError as error:
        # The copies are now the last ones: their close would keep this program.
        print("refused:", error)
        kept.extend(gifts)
        return False
    # The receiver may have closed its copies already. Then it is this program that waits.
    closing = threading.Thread(target=lambda: [gift.close() for gift in gifts], daemon=True)
    closing.start()
    closing.join(1)
    return True


def nested():
    """A Unix socket in whose queue a lingering socket waits."""
    inner, outer = socket.socketpair()
    assert give(inner, b"x", [lingering()])
    inner.close()
    return outer


def framed(body, fds=0):
    return struct.pack("<II", len(body), fds) + body


def connected(path):
    line = socket.socket(socket.AF_UNIX)
    line.settimeout(30)
    line.connect(path)
    return line


GIFTS = {
    "one": lambda: [lingering()],
    "many": lambda: [lingering() for _ in range(12)],
    "nested": lambda: [nested()],
    "hundreds": lambda: [lingering() for _ in range(40)] + [nested()] * (MOST - 40),
}


def to_supervisor(path):
    ps = framed(b'{"request":"ps"}')
    for name, gifts in GIFTS.items():
        # With a whole request, with a part of one, and as the last thing.
        for words in [ps, ps[:3], ps + ps[:5]]:
            line = connected(path)
            give(line, words, gifts())
            line.close()
        print("given:", name)


def message(line):
    """A message and its descriptors."""
    words, data, _, _ = line.recvmsg(4096, socket.CMSG_LEN(4 * MOST))
    fds = array.array("i")
    for _, _, one in data:
        fds.frombytes(one)
    while len(words) < 8 or len(words) < 8 + struct.unpack("<I", words[:4])[0]:
        more = line.recv(4096)
        assert more, "the other end is gone"
        words += more
    return words[8:], list(fds)


def up_as_connecting(path):
    """Greets a listening end; its greeting, and the length of its region."""
    line = connected(path)
    hello, [region] = message(line)
    line.send(framed(hello))
    return line, hello, os.fstat(region).st_size


def to_listening(path):
    for name, gifts in GIFTS.items():
        line = connected(path)
        give(line, framed(b"{}")[:4], gifts())
        line.close()
        print("given before the greeting:", name)
        line, hello, length = up_as_connecting(path)
        give(line, b"x", gifts())
        give(line, b"x", gifts())
        line.close()
        print("given after the greeting:", name)
    return hello, length


def region(length):
    fd = os.memfd_create("wire", os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, length)
    fcntl.fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW)
    return os.fdopen(fd, "rb", closefd=True)


def to_connecting(path, hello, length):
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    print("listening")
    for name, gifts in GIFTS.items():
        # So many are too many to hear of another end before they are closed.
        for before in [True] if name == "hundreds" else [True, False]:
            line, _ = listener.accept()
            if before:
                # In the place of a region, or with one.
                give(line, framed(hello, 1), gifts())
            else:
                give(line, framed(hello, 1), [region(length)])
                # The other end may not have read that yet, and takes descriptors meanwhile.
                give(line, b"x", gifts())
                message(line)
                give(line, b"x", gifts())
            line.close()
        print("given to a connecting end:", name)
    os.unlink(path)


def main():
    match sys.argv[1:]:
        case ["supervisor", path]:
            to_supervisor(path)
        case ["wire", path, other]:
            hello, length = to_listening(path)
            to_connecting(other, hello, length)
    print("all given")
    time.sleep(600)


main()
