"""pylibmc, as its users write it, against a server whose values are a field: every step is checked."""

import sys

import pylibmc

address = f"127.0.0.1:{sys.argv[1]}"
client = pylibmc.Client([address], behaviors={"cas": True, "tcp_nodelay": True})

# The flags say what a value is: bytes, text, a number, a boolean, or a pickled object.
for value in [b"bytes \xff\x00\r\n", "text \u00e9", 42, -1, {"a": [1, 2.5, None]}, "", b""]:
    assert client.set("user:1", value)
    found = client.get("user:1")
    assert found == value and type(found) is type(value), (value, found)
assert client.get("nobody") is None and client.get("nobody", 5) == 5

# Compressed values have a flag of their own.
text = "long text " * 2000
assert client.set("long", text, min_compress_len=100)
assert client.get("long") == text

# Many at once.
many = {f"key-{n}": {"n": n} for n in range(500)}
assert client.set_multi(many) == []
assert client.get_multi([*many, "nobody"]) == many
assert client.delete_multi(["key-1", "key-2"]) and client.get("key-2") is None

# Conditions.
assert client.add("key-1", "first") and not client.add("key-1", "second")
assert client.replace("key-1", "third") and not client.replace("key-2", "x")
value, unique = client.gets("key-1")
assert value == "third"
assert client.cas("key-1", "fourth", unique)
assert not client.cas("key-1", "fifth", unique)
assert client.get("key-1") == "fourth"

# Counters, text, time to live.
assert client.set("hits", 5) and client.incr("hits", 3) == 8 and client.decr("hits", 2) == 6
assert client.set("text", "b") and client.append("text", "c") and client.prepend("text", "a")
assert client.get("text") == "abc"
assert client.set("kept", "x", time=1000) and client.touch("kept", 2000) and client.get("kept") == "x"
assert client.delete("kept") and not client.delete("kept")

# The binary protocol is refused at once, and not by silence.
binary = pylibmc.Client([address], binary=True)
try:
    found = binary.get("text")
except pylibmc.Error:
    found = None
assert found is None, "the binary protocol was answered"

print("pylibmc: all well")
