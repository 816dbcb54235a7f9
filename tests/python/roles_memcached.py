"""pymemcache with the token of a writer, and with none, against the server at the port given: the first `set` authenticates."""

import sys

from pymemcache.client.base import Client
from pymemcache.exceptions import MemcacheError

port, writer = sys.argv[1:]


def connected():
    return Client(("127.0.0.1", int(port)), default_noreply=False, timeout=60)


def expect(call):
    try:
        call()
    except (MemcacheError, OSError):
        return
    raise AssertionError("a refusal is expected")


client = connected()
assert client.set("anyone", f"anyone {writer}")
assert client.set("logs-1:2", '{"n":2}')
assert client.get("logs-1:2") == b'{"n":2}'
expect(lambda: client.set("cars:1", "{}"))
expect(lambda: connected().get("logs-1:2"))
expect(lambda: connected().set("anyone", "anyone wrong"))
