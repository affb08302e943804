"""Does what clients of `tasuki web` should not, and prints the first line of each answer.

web_abuse.py http://ADDRESS:PORT TOKEN: then holds its connections until it is killed.
"""

import socket
import sys
import time

host, port = sys.argv[1].removeprefix("http://").split(":")
head = f"Host: {host}\r\nAuthorization: Bearer {sys.argv[2]}\r\n"


def connect():
    connection = socket.create_connection((host, int(port)))
    connection.settimeout(30)
    return connection


def first_line(connection, most=4096):
    try:
        line = connection.recv(most).split(b"\r\n")[0].decode()
    except OSError as error:
        line = str(error)
    print(line, flush=True)
    return connection


def ask(text, most=4096):
    connection = connect()
    try:
        connection.sendall(text.encode())
    except OSError:
        # It has answered and closed before it has read all.
        pass
    return first_line(connection, most)


ask("GET /" + "x" * 100000 + " HTTP/1.1\r\n" + head + "\r\n")
ask("GET / HTTP/1.1\r\n" + head + "".join(f"x{n}: y\r\n" for n in range(500)) + "\r\n")
ask("GET / HTTP/1.1\r\n" + head + "x: " + "y" * 100000 + "\r\n\r\n")
ask("nonsense\r\n\r\n")
body = "Content-Length: 999999999999\r\n\r\n" + "z" * 9999
ask("GET /api/counters HTTP/1.1\r\n" + head + body)
# Viewers that read no more than this: sixteen are let in.
viewers = [ask("GET /api/events HTTP/1.1\r\n" + head + "\r\n", 20) for _ in range(17)]
# Connections that say nothing: there is no place for all, and they do not keep the page's owner out.
idle = [connect() for _ in range(300)]
ask("GET /api/counters HTTP/1.1\r\n" + head + "\r\n")
# Nor do connections whose requests show no token.
strangers = [connect() for _ in range(300)]
for stranger in strangers:
    try:
        stranger.sendall(b"GET / HTTP/1.1\r\nHost: " + host.encode() + b"\r\n\r\n")
    except OSError:
        pass  # It had to make room.
ask("GET /api/counters HTTP/1.1\r\n" + head + "\r\n")
print("all", flush=True)
time.sleep(600)
