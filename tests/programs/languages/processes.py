"""Python's multiprocessing over TCP.

    processes.py manage PORT WORKERS          a manager with two queues, and forked workers, which
                                              are clients of it
    processes.py order ADDRESS PORT JOBS      puts jobs into one queue; the digests come in the other
    processes.py listen PORT WORKERS          a Listener, on which forked workers accept
    processes.py talk ADDRESS PORT TIMES      clients of that, which are forked, too
"""

import hashlib
import multiprocessing
import multiprocessing.connection
import multiprocessing.managers
import os
import queue
import random
import signal
import sys

KEY = b"a key of both ends"
fork = multiprocessing.get_context("fork")


class Manager(multiprocessing.managers.BaseManager):
    pass


def digest(data):
    return hashlib.sha256(data).hexdigest()


def client(address, port):
    for name in ("jobs", "results"):
        Manager.register(name)
    manager = Manager((address, port), KEY)
    manager.connect()
    return manager.jobs(), manager.results()


def work(port):
    jobs, results = client("127.0.0.1", port)
    while (job := jobs.get()) is not None:
        number, data = job
        results.put((number, digest(data)))


def start(workers, target, *words):
    """Forks workers, which end with the server. A handler would be in their way."""
    for _ in range(workers):
        fork.Process(target=target, args=words, daemon=True).start()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    print("ready", flush=True)


def manage(port, workers):
    jobs, results = queue.Queue(), queue.Queue()
    Manager.register("jobs", callable=lambda: jobs)
    Manager.register("results", callable=lambda: results)
    server = Manager(("0.0.0.0", port), KEY).get_server()
    start(workers, work, port)
    server.serve_forever()


def order(address, port, count):
    jobs, results = client(address, port)
    data = [random.randbytes(100_000 + number) for number in range(count)]
    for number, each in enumerate(data):
        jobs.put((number, each))
    answers = [results.get(timeout=60) for _ in range(count)]
    right = [digest(each) for each in data]
    assert sorted(answers) == list(enumerate(right)), answers
    print("answered", count)


def accept(listener):
    while True:
        with listener.accept() as connection:
            try:
                while True:
                    data = connection.recv_bytes()
                    connection.send({"digest": digest(data), "by": os.getpid()})
                    connection.send_bytes(data[::-1])
            except EOFError:
                pass


def listen(port, workers):
    listener = multiprocessing.connection.Listener(("0.0.0.0", port), backlog=50, authkey=KEY)
    start(workers - 1, accept, listener)
    accept(listener)


def talk_once(address, port, seed):
    generator = random.Random(seed)
    with multiprocessing.connection.Client((address, port), authkey=KEY) as connection:
        for size in (1, 1000, 100_000, 1_000_000):
            data = generator.randbytes(size)
            connection.send_bytes(data)
            assert connection.poll(60)
            assert connection.recv()["digest"] == digest(data)
            assert connection.recv_bytes() == data[::-1]
    return 4


def talk(address, port, times):
    with fork.Pool(4) as pool:
        counts = pool.starmap(talk_once, [(address, port, seed) for seed in range(times)])
    print("answered", sum(counts))


if __name__ == "__main__":
    what, *words = sys.argv[1:]
    {"manage": manage, "order": order, "listen": listen, "talk": talk}[what](
        *(int(word) if word.isdigit() else word for word in words)
    )
