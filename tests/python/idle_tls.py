"""Opens connections over TLS, sends a request over each, and looks at what the server takes while they are idle.

Arguments: port, certificate, process of the server, connections, bytes that it may have resident, and bytes for each of them.
"""

import resource
import socket
import ssl
import sys

PORT, CERTIFICATE, PROCESS, CONNECTIONS, BYTES_MAX, EACH_MAX = sys.argv[1:]

# After so many the server has what it has for all of them.
FIRST = 100


def memory(name: str) -> int:
    with open(f"/proc/{PROCESS}/status", encoding="ascii") as status:
        line = next(line for line in status if line.startswith(name))
    return int(line.split()[1]) << 10


def connect(context: ssl.SSLContext) -> ssl.SSLSocket:
    plain = socket.create_connection(("127.0.0.1", int(PORT)))
    return context.wrap_socket(plain, server_hostname="localhost")


def ask(client: ssl.SSLSocket) -> None:
    client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    answer = b""
    while not answer.rstrip().endswith(b"}"):
        piece = client.recv(1 << 16)
        assert piece, answer
        answer += piece
    assert answer.startswith(b"HTTP/1.1 200"), answer


def main() -> None:
    descriptors = int(CONNECTIONS) + 100
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, most))
    context = ssl.create_default_context(cafile=CERTIFICATE)
    clients = []

    def open_until(count: int) -> int:
        while len(clients) < count:
            clients.append(connect(context))
            ask(clients[-1])
        return memory("RssAnon:")

    before = open_until(FIRST)
    after = open_until(int(CONNECTIONS))
    each = (after - before) // (len(clients) - FIRST)
    resident = memory("VmRSS:")
    assert resident <= int(BYTES_MAX), resident
    assert each <= int(EACH_MAX), each
    for client in clients:
        ask(client)


main()
