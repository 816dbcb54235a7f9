"""A client that openapi-python-client generates from the description of the server at the port given, into the directory given: it writes, reads,
searches, and is refused."""

import importlib
import os
import subprocess
import sys

port, directory = sys.argv[1:]
server = f"http://127.0.0.1:{port}"
generate = [sys.executable, "-m", "openapi_python_client", "generate", "--url", f"{server}/openapi.json", "--output-path", f"{directory}/client"]
# The generator finds ruff beside this Python.
environment = {**os.environ, "PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"}
subprocess.run(generate, check=True, env=environment, stdout=subprocess.DEVNULL)
sys.path.insert(0, f"{directory}/client")
client = importlib.import_module("quire_client").Client(base_url=server)
models = importlib.import_module("quire_client.models")


def call(operation, *arguments, **named):
    module = importlib.import_module(f"quire_client.api.default.{operation}")
    return module.sync_detailed(*arguments, client=client, **named)


made = call("put_collection", "tracks", body=models.Collection())
assert made.status_code == 200 and made.parsed.acknowledged, made
for key, title, seconds in [("t1", "So What", 562), ("t2", "Freddie Freeloader", 589), ("t3", "Blue in Green", 337)]:
    document = models.Document()
    document.additional_properties = {"title": title, "seconds": seconds}
    written = call("put_collection_doc_id", "tracks", key, body=document, refresh="true")
    assert (written.status_code, written.parsed.result) == (201, "created"), written
found = call("get_collection_doc_id", "tracks", "t1").parsed
assert found.found and found.field_source["title"] == "So What", found
search = models.Search.from_dict({"query": {"range": {"seconds": {"gte": 500}}}, "sort": ["seconds"], "aggs": {"mean": {"avg": {"field": "seconds"}}}})
answer = call("post_collection_search", "tracks", body=search).parsed
assert [hit.field_id for hit in answer.hits.hits] == ["t1", "t2"], answer
assert answer.aggregations["mean"]["value"] == 575.5, answer
assert call("post_collection_count", "tracks", body=models.Query()).parsed.count == 3
assert call("delete_collection_doc_id", "tracks", "t1").parsed.result == "deleted"
tokens = call("post_analyze", body=models.Analyze.from_dict({"text": "So What"})).parsed.tokens
assert [token["token"] for token in tokens] == ["so", "what"], tokens
absent = call("get_collection_doc_id", "tracks", "t1")
assert absent.status_code == 404, absent
