"""Dual-stack TCP server on PORT of "::" that sends each client its address as the server sees it.

Prints "ready", and for each connection a line "from ADDRESS". IPv4 clients are ::ffff:a.b.c.d. Ends
after COUNT connections.
"""

import socket
import sys

listener = socket.create_server(
    ("::", int(sys.argv[1])), family=socket.AF_INET6, dualstack_ipv6=True
)
print("ready", flush=True)
for _ in range(int(sys.argv[2])):
    connection, peer = listener.accept()
    print("from", peer[0], flush=True)
    connection.sendall(f"{peer[0]} at {connection.getsockname()[0]}\n".encode())
    connection.close()
