"""Sockets that a started program inherits under their own numbers, in all ways of starting one.
`child KIND NUMBER` is such a program. Otherwise this is its parent, and its client; the last line is `all`."""
import ctypes
import multiprocessing
import os
import socket
import subprocess
import sys
import threading

PATIENCE = 60
KINDS = ["bound", "listener", "connection", "datagram"]


def answer(kind, held):
    if kind in ("connection", "datagram"):
        held.sendall(b"hi")
        return
    held.listen(5)
    print("listens", flush=True)
    one, _ = held.accept()
    one.sendall(b"hi")
    one.close()


def words(kind, number):
    return [sys.executable, __file__, "child", kind, str(number)]


def shell(kind, number):
    return f"exec {' '.join(words(kind, number))}".encode()


def pass_fds(kind, held, **more):
    subprocess.run(words(kind, held.fileno()), pass_fds=[held.fileno()], check=True, **more)


def without_environment(kind, held):
    pass_fds(kind, held, env={})


def left_open(kind, held):
    held.set_inheritable(True)
    subprocess.run(words(kind, held.fileno()), close_fds=False, check=True)


def spawned(kind, held, actions, env=os.environ):
    pid = os.posix_spawn(sys.executable, words(kind, held.fileno()), env, file_actions=actions)
    assert os.waitpid(pid, 0)[1] == 0


def by_action(kind, held):
    spawned(kind, held, [(os.POSIX_SPAWN_DUP2, held.fileno(), held.fileno())])


def by_action_without_environment(kind, held):
    spawned(kind, held, [(os.POSIX_SPAWN_DUP2, held.fileno(), held.fileno())], {})


def spawned_open(kind, held):
    held.set_inheritable(True)
    spawned(kind, held, [])


def system(kind, held):
    held.set_inheritable(True)
    assert ctypes.CDLL(None).system(shell(kind, held.fileno())) == 0


def popen(kind, held):
    held.set_inheritable(True)
    libc = ctypes.CDLL(None)
    libc.popen.restype = ctypes.c_void_p
    stream = libc.popen(shell(kind, held.fileno()), b"w")
    assert libc.pclose(ctypes.c_void_p(stream)) == 0


def execveat(kind, held):
    held.set_inheritable(True)
    pid = os.fork()
    if pid == 0:
        strings = [word.encode() for word in words(kind, held.fileno())]
        argv = (ctypes.c_char_p * (len(strings) + 1))(*strings, None)
        ctypes.CDLL(None).execveat(-100, strings[0], argv, (ctypes.c_char_p * 1)(None), 0)
        os._exit(9)
    assert os.waitpid(pid, 0)[1] == 0


def spawn_process(kind, held):
    process = multiprocessing.get_context("spawn").Process(target=answer, args=(kind, held))
    process.start()
    process.join()
    assert process.exitcode == 0


def crowded(kind, held):
    """Another file has the number of a socket of the parent's."""
    others = [socket.socket() for _ in range(3)]
    log = os.open("/dev/null", os.O_WRONLY)
    code = (
        "import os, sys; [os.dup2(int(sys.argv[1]), int(n)) for n in sys.argv[5:]];"
        "os.execv(sys.executable, [sys.executable, sys.argv[2], 'child', *sys.argv[3:5]])"
    )
    passed = [log, held.fileno(), *(one.fileno() for one in others)]
    numbers = [str(one.fileno()) for one in others]
    arguments = [str(log), __file__, kind, str(held.fileno()), *numbers]
    subprocess.run([sys.executable, "-c", code, *arguments], pass_fds=passed, check=True)


WAYS = [
    pass_fds, without_environment, left_open, by_action, by_action_without_environment,
    spawned_open, system, popen, execveat, spawn_process, crowded,
]  # fmt: skip


def pair(kind):
    """The socket to be inherited, and how its client begins."""
    held = socket.socket(type=socket.SOCK_DGRAM if kind == "datagram" else socket.SOCK_STREAM)
    held.bind(("127.0.0.1", 0))
    address = held.getsockname()
    if kind == "datagram":
        client = socket.socket(type=socket.SOCK_DGRAM)
        client.bind(("127.0.0.1", 0))
        held.connect(client.getsockname())
        return held, lambda: client
    if kind == "bound":
        return held, lambda: connected(address)
    held.listen(5)
    if kind == "listener":
        return held, lambda: connected(address)
    client = socket.create_connection(address)
    accepted, _ = held.accept()
    held.close()
    return accepted, lambda: client


def connected(address):
    """The child may not listen yet."""
    pause = threading.Event()
    while True:
        try:
            return socket.create_connection(address, PATIENCE)
        except ConnectionRefusedError:
            pause.wait(0.02)


def passes(way, kind):
    held, client = pair(kind)
    got = []

    def ask():
        with client() as asking:
            asking.settimeout(PATIENCE)
            got.append(asking.recv(9))

    asker = threading.Thread(target=ask, daemon=True)
    asker.start()
    way(kind, held)
    asker.join(PATIENCE)
    held.close()
    assert got == [b"hi"], (way.__name__, kind, got)
    print(way.__name__, kind, flush=True)


def stays(kind):
    """The parent goes on with a socket that two programs have used, one after the other."""
    held, client = pair(kind)
    address = held.getsockname()
    asking = client() if kind in ("connection", "datagram") else None
    for _ in range(2):
        got = []
        begin = asking.recv if asking else (lambda size: connected(address).recv(size))
        asker = threading.Thread(target=lambda begin=begin: got.append(begin(9)), daemon=True)
        asker.start()
        pass_fds(kind, held)
        asker.join(PATIENCE)
        assert got == [b"hi"], (kind, got)
    assert held.getsockname() == address, kind
    if asking:
        held.sendall(b"by the parent")
        assert asking.recv(99) == b"by the parent", kind
    else:
        asking = connected(address)
        held.accept()[0].sendall(b"by the parent")
        assert asking.recv(99) == b"by the parent", kind
    held.close()
    if kind == "connection":
        assert asking.recv(9) == b""
    asking.close()
    print("stays", kind, flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["child"]:
        answer(sys.argv[2], socket.socket(fileno=int(sys.argv[3])))
        sys.exit()
    for way in WAYS:
        for kind in KINDS if way is pass_fds else ["listener", "connection"]:
            passes(way, kind)
    for kind in KINDS:
        stays(kind)
    print("all")
