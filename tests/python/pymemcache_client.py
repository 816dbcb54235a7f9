"""pymemcache, as its users write it, against a server whose values are a field: every step is checked.

With a file of certificates to trust it speaks TLS.
"""

import ssl
import sys
import time

from pymemcache import serde
from pymemcache.client.base import Client, PooledClient
from pymemcache.client.hash import HashClient

address = ("127.0.0.1", int(sys.argv[1]))
tls = {"tls_context": ssl.create_default_context(cafile=sys.argv[2])} if len(sys.argv) > 2 else {}

# Serialised values: the flags say how, and come back.
client = Client(address, serde=serde.pickle_serde, default_noreply=False, timeout=20, **tls)
for value in [b"bytes \xff\x00\r\n", "text é", 42, {"a": [1, 2.5, None]}, "", b""]:
    assert client.set("user:1", value)
    assert client.get("user:1") == value, value
assert client.get("nobody") is None and client.get("nobody", default=5) == 5

# Many at once.
many = {f"key-{n}": {"n": n, "text": "x" * n} for n in range(2000)}
assert client.set_many(many) == []
assert client.get_many(list(many)) == many
assert client.get_many(["key-1", "nobody"]) == {"key-1": many["key-1"]}
assert client.delete_many(["key-1", "key-2"]) and client.get("key-2") is None

# Conditions.
assert client.add("key-1", "first") and not client.add("key-1", "second")
assert client.replace("key-1", "third") and not client.replace("key-2", "x")
value, unique = client.gets("key-1")
assert value == "third"
assert client.cas("key-1", "fourth", unique) is True
assert client.cas("key-1", "fifth", unique) is False
assert client.cas("nobody", "x", unique) is None
assert client.get("key-1") == "fourth"

# Counters, text, time to live.
plain = Client(address, default_noreply=False, timeout=20, **tls)
assert plain.set("hits", "5") and plain.incr("hits", 3) == 8 and plain.decr("hits", 10) == 0
assert plain.incr("nobody", 1) is None
assert plain.append("hits", b"!") and plain.prepend("hits", b"?") and plain.get("hits") == b"?0!"
assert plain.touch("hits", 0) and not plain.touch("nobody", 0)
assert plain.delete("hits") and not plain.delete("hits")
assert plain.set("hits", "x", expire=1000) and plain.get("hits") == b"x"
assert plain.set("hits", "x") and plain.touch("hits", 1)
assert plain.set("gone", "x", expire=1)
time.sleep(1.1)
assert plain.get("hits") is None and plain.get("gone") is None and not plain.delete("hits")
assert plain.set("hits", "x") and plain.set("hits", "y", expire=-1) and plain.get("hits") is None

# Without replies, as is the default; the next request is answered after them.
quiet = Client(address, timeout=20, **tls)
for n in range(300):
    quiet.set(f"quiet-{n}", str(n))
assert quiet.get("quiet-299") == b"299"
quiet.delete("quiet-299")
assert quiet.get("quiet-299") is None

# What else clients ask, and other kinds of clients.
assert quiet.version().startswith(b"1.6") and quiet.stats()[b"curr_items"] > 2000
pool = PooledClient(address, max_pool_size=4, timeout=20, **tls)
pool.set("pooled", "x")
assert pool.get("pooled") == b"x"
hashed = HashClient([address], timeout=20, **tls)
hashed.set_many({"h1": "1", "h2": "2"})
assert hashed.get_many(["h1", "h2"]) == {"h1": b"1", "h2": b"2"}
for one in [client, plain, quiet]:
    one.quit()

print("pymemcache: all well")
