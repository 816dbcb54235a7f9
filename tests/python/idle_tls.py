"""Opens connections over TLS, sends a request over each, and looks at what the server takes while they are idle.

Arguments: port, certificate, process of the server, version of HTTP (1 or 2), connections, bytes that it may have resident, and bytes for each of them.
"""

import resource
import socket
import ssl
import sys

PORT, CERTIFICATE, PROCESS, VERSION, CONNECTIONS, BYTES_MAX, EACH_MAX = sys.argv[1:]

# The beginning of a connection of HTTP/2: an empty frame of settings follows the preface.
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])

# The types and flags of frames that are looked for.
DATA, HEADERS, END_STREAM, END_OF_REQUEST = 0, 1, 1, 5

# After so many the server has what it has for all of them.
FIRST = 100


def memory(name: str) -> int:
    with open(f"/proc/{PROCESS}/status", encoding="ascii") as status:
        line = next(line for line in status if line.startswith(name))
    return int(line.split()[1]) << 10


def connect(context: ssl.SSLContext) -> ssl.SSLSocket:
    plain = socket.create_connection(("127.0.0.1", int(PORT)))
    return context.wrap_socket(plain, server_hostname="localhost")


def exactly(client: ssl.SSLSocket, count: int) -> bytes:
    read = b""
    while len(read) < count:
        piece = client.recv(count - len(read))
        assert piece, read
        read += piece
    return read


def ask_http2(client: ssl.SSLSocket, number: int) -> None:
    stream = 2 * number + 1
    # GET, the scheme and / by their numbers in the static table; the authority by its name there.
    fields = bytes([0x82, 0x86, 0x84, 0x01, 9]) + b"localhost"
    head = len(fields).to_bytes(3, "big") + bytes([HEADERS, END_OF_REQUEST]) + stream.to_bytes(4, "big")
    client.sendall(head + fields)
    answer = b""
    while True:
        head = exactly(client, 9)
        kind, flags = head[3], head[4]
        payload = exactly(client, int.from_bytes(head[:3], "big"))
        if kind == DATA:
            answer += payload
            if flags & END_STREAM:
                break
    assert answer.rstrip().endswith(b"}"), answer


def ask_http1(client: ssl.SSLSocket) -> None:
    client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    answer = b""
    while not answer.rstrip().endswith(b"}"):
        piece = client.recv(1 << 16)
        assert piece, answer
        answer += piece
    assert answer.startswith(b"HTTP/1.1 200"), answer


def ask(client: ssl.SSLSocket, number: int) -> None:
    """Sends the request of this number, counted from 0 in its connection, and reads the answer."""
    if VERSION == "1":
        ask_http1(client)
        return
    if number == 0:
        client.sendall(PREFACE)
    ask_http2(client, number)


def main() -> None:
    descriptors = int(CONNECTIONS) + 100
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, most))
    context = ssl.create_default_context(cafile=CERTIFICATE)
    if VERSION == "2":
        context.set_alpn_protocols(["h2"])
    clients = []

    def open_until(count: int) -> int:
        while len(clients) < count:
            clients.append(connect(context))
            ask(clients[-1], 0)
        return memory("RssAnon:")

    before = open_until(FIRST)
    after = open_until(int(CONNECTIONS))
    each = (after - before) // (len(clients) - FIRST)
    resident = memory("VmRSS:")
    assert resident <= int(BYTES_MAX), resident
    assert each <= int(EACH_MAX), each
    for client in clients:
        ask(client, 1)


main()
