"""elasticsearch-py 7 and 8, as its users write it, against a server on the port given that was started
with `--compat elasticsearch`: every step is checked."""

import sys

import elasticsearch
from elasticsearch import Elasticsearch, helpers

client = Elasticsearch(f"http://127.0.0.1:{sys.argv[1]}")
major = elasticsearch.__version__[0]
assert str(major) == sys.argv[2], elasticsearch.__version__


def expect(error, call):
    try:
        call()
    except error as caught:
        return caught
    raise AssertionError(f"{error.__name__} expected")


# The client checks the product, before or after its first call.
assert client.ping()
assert client.info()["tagline"] == "You Know, for Search"

# A collection with a mapping.
mappings = {"properties": {"n": {"type": "long"}, "make": {"type": "keyword"}, "day": {"type": "date"}}}
body = {"settings": {"number_of_shards": 2}, "mappings": mappings}
created = client.indices.create(index="cars", **(body if major == 8 else {"body": body}))
assert created["acknowledged"], created
assert client.indices.exists(index="cars") and not client.indices.exists(index="boats")
assert client.indices.get_mapping(index="cars")["cars"]["mappings"] == {**mappings, "properties": dict(sorted(mappings["properties"].items()))}
refused = expect(elasticsearch.BadRequestError if major == 8 else elasticsearch.RequestError, lambda: client.index(index="cars", id="x", **({"document": {"n": "many"}} if major == 8 else {"body": {"n": "many"}})))
assert "failed to parse field [n] of type [long]" in str(refused), refused

# Many documents, read back page by page.
cars = [{"_index": "cars", "_id": f"car-{n}", "n": n, "make": "VW" if n % 2 else "Saab", "day": f"2026-01-{n % 28 + 1:02}"} for n in range(2000)]
assert helpers.bulk(client, cars) == (2000, [])
assert len(list(helpers.scan(client, index="cars", size=300))) == 2000

# Single documents.
got = client.get(index="cars", id="car-7")
assert got["_source"] == {"n": 7, "make": "VW", "day": "2026-01-08"}, got
expect(elasticsearch.NotFoundError, lambda: client.get(index="cars", id="none"))
updated = client.update(index="cars", id="car-7", **({"doc": {"n": 70}} if major == 8 else {"body": {"doc": {"n": 70}}}))
assert updated["result"] == "updated", updated
assert client.delete(index="cars", id="car-8")["result"] == "deleted"

# Searches and aggregates.
query = {"bool": {"filter": [{"term": {"make": "VW"}}, {"range": {"day": {"gte": "2026-01-28"}}}]}}
aggs = {"makes": {"terms": {"field": "make"}}}
request = {"query": query, "size": 3, "sort": [{"n": "asc"}], "aggs": aggs}
found = client.search(index="cars", **(request if major == 8 else {"body": request}))
assert [hit["_id"] for hit in found["hits"]["hits"]] == ["car-27", "car-55", "car-83"], found
assert [bucket["key"] for bucket in found["aggregations"]["makes"]["buckets"]] == ["VW"], found
assert client.count(index="cars")["count"] == 1999
helpers.reindex(client, "cars", "copies")
assert client.count(index="copies")["count"] == 1999
assert client.indices.delete(index="cars")["acknowledged"]
