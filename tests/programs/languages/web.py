"""HTTP servers and clients in Python.

    web.py forking PORT                  socketserver.ForkingMixIn: a process for each connection
    web.py threading PORT                socketserver.ThreadingMixIn
    web.py asyncio PORT                  asyncio's streams, with loop.sendfile
    web.py requests BASE AT-ONCE TIMES   the client of that name, in threads
    web.py aio BASE AT-ONCE TIMES        asyncio's streams

A server has /file, the file `file`, and /digest, the SHA-256 of a request's body. A client asks
for both of them and compares them with the file.
"""

import asyncio
import concurrent.futures
import hashlib
import http.server
import os
import socket
import socketserver
import sys
import urllib.parse


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        with open("file", "rb") as file:
            self.send_response(200)
            self.send_header("Content-Length", str(os.fstat(file.fileno()).st_size))
            self.end_headers()
            self.wfile.flush()
            # By sendfile(2).
            self.connection.sendfile(file)

    def do_POST(self):
        digest = hashlib.sha256(self.rfile.read(int(self.headers["Content-Length"]))).hexdigest()
        self.send_response(200)
        self.send_header("Content-Length", str(len(digest)))
        self.end_headers()
        self.wfile.write(digest.encode())

    def log_message(self, *words):
        pass


def serve(mixin, port):
    class Server(mixin, socketserver.TCPServer):
        allow_reuse_address = True
        address_family = socket.AF_INET6

        def server_bind(self):
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            super().server_bind()

    with Server(("::", int(port)), Handler) as server:
        print("ready", flush=True)
        server.serve_forever()


async def head(reader):
    """First line and length of the body."""
    lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    fields = dict(line.lower().split(": ", 1) for line in lines[1:] if line)
    return lines[0], int(fields.get("content-length", "0"))


async def answer(reader, writer):
    try:
        while True:
            line, length = await head(reader)
            body = await reader.readexactly(length)
            if line.startswith("POST"):
                digest = hashlib.sha256(body).hexdigest()
                writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: 64\r\n\r\n{digest}".encode())
                await writer.drain()
                continue
            with open("file", "rb") as file:
                size = os.fstat(file.fileno()).st_size
                writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n".encode())
                await writer.drain()
                loop = asyncio.get_running_loop()
                sent = await loop.sendfile(writer.transport, file, fallback=False)
                assert sent == size, sent
    except asyncio.IncompleteReadError as error:
        assert not error.partial, error
    finally:
        writer.close()


async def serve_asyncio(port):
    # Without an address it listens at all, with a socket for each family.
    server = await asyncio.start_server(answer, None, int(port))
    print("ready", flush=True)
    async with server:
        await server.serve_forever()


async def exchange(base, body, right, times):
    at = urllib.parse.urlsplit(base)
    reader, writer = await asyncio.open_connection(at.hostname, at.port)
    for _ in range(times):
        writer.write(f"GET /file HTTP/1.1\r\nHost: {at.netloc}\r\n\r\n".encode())
        _, length = await head(reader)
        assert await reader.readexactly(length) == body
        host = f"Host: {at.netloc}\r\nContent-Length: {len(body)}"
        writer.write(f"POST /digest HTTP/1.1\r\n{host}\r\n\r\n".encode() + body)
        await writer.drain()
        _, length = await head(reader)
        assert (await reader.readexactly(length)).decode() == right
    writer.close()
    await writer.wait_closed()


async def fetch_asyncio(base, at_once, times):
    body, right = whole()
    await asyncio.gather(*(exchange(base, body, right, times) for _ in range(at_once)))
    print("fetched", 2 * at_once * times)


def fetch_requests(base, at_once, times):
    import requests

    body, right = whole()

    def ask(_):
        with requests.Session() as session:
            for _ in range(times):
                assert session.get(base + "/file", timeout=60).content == body
                # As a stream, out of the file.
                with open("file", "rb") as file:
                    told = session.post(base + "/digest", data=file, timeout=60)
                assert told.text == right, told
        return 2 * times

    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        print("fetched", sum(pool.map(ask, range(at_once))))


def whole():
    with open("file", "rb") as file:
        body = file.read()
    return body, hashlib.sha256(body).hexdigest()


what, *words = sys.argv[1:]
if what == "forking":
    serve(socketserver.ForkingMixIn, *words)
elif what == "threading":
    serve(socketserver.ThreadingMixIn, *words)
elif what == "asyncio":
    asyncio.run(serve_asyncio(*words))
elif what == "requests":
    fetch_requests(words[0], int(words[1]), int(words[2]))
elif what == "aio":
    asyncio.run(fetch_asyncio(words[0], int(words[1]), int(words[2])))
else:
    sys.exit(f"{what}?")
