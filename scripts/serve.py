"""An HTTP server that answers every request on PORT with FILE. The kernel sends the file (sendfile), so
the demo does not measure this program. Prints "ready" when it listens.
Usage: serve.py FILE PORT"""

import os
import socket
import sys
import threading


def serve(connection, path):
    with connection, open(path, "rb") as file:
        request = b""
        while b"\r\n\r\n" not in request:
            part = connection.recv(65536)
            if not part:
                return
            request += part
        size = os.fstat(file.fileno()).st_size
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {size}\r\nConnection: close\r\n\r\n"
        connection.sendall(head.encode())
        connection.sendfile(file)


path, port = sys.argv[1], int(sys.argv[2])
with socket.create_server(("0.0.0.0", port)) as listener:
    print("ready", flush=True)
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=serve, args=(connection, path), daemon=True).start()
