"""opensearch-py with the tokens of a reader, a writer and nobody, against the server at the port given: each does what its role says."""

import sys

from opensearchpy import OpenSearch
from opensearchpy.exceptions import AuthenticationException, AuthorizationException

port, reader, writer = sys.argv[1:]


def client(token):
    return OpenSearch([{"host": "127.0.0.1", "port": int(port)}], http_auth=("anyone", token), max_retries=0, timeout=60)


def expect(error, call):
    try:
        call()
    except error:
        return
    raise AssertionError(f"{error.__name__} expected")


assert client(writer).index(index="logs-1", id="1", body={"n": 1})["result"] == "created"
assert client(reader).get(index="logs-1", id="1")["_source"] == {"n": 1}
assert client(reader).search(index="logs-*")["hits"]["total"]["value"] == 1
expect(AuthorizationException, lambda: client(reader).index(index="logs-1", id="2", body={}))
expect(AuthorizationException, lambda: client(reader).search(index="cars"))
expect(AuthorizationException, lambda: client(writer).indices.delete(index="logs-1"))
expect(AuthenticationException, lambda: client("wrong").get(index="logs-1", id="1"))
