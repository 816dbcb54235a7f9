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
bad_request = elasticsearch.BadRequestError if major == 8 else elasticsearch.RequestError
refused = expect(bad_request, lambda: client.index(index="cars", id="x", **({"document": {"n": "many"}} if major == 8 else {"body": {"n": "many"}})))
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

# More of single documents.
def with_body(members):
    return members if major == 8 else {"body": members}


def document(members):
    return {"document": members} if major == 8 else {"body": members}


assert client.create(index="cars", id="new", **document({"n": 5000}))["result"] == "created"
expect(elasticsearch.ConflictError, lambda: client.create(index="cars", id="new", **document({})))
assert client.exists(index="cars", id="new") and client.get_source(index="cars", id="new") == {"n": 5000}
seen = client.get(index="cars", id="new")
place = {"if_seq_no": seen["_seq_no"], "if_primary_term": seen["_primary_term"]}
assert client.index(index="cars", id="new", **document({"n": 5001}), **place)["result"] == "updated"
expect(elasticsearch.ConflictError, lambda: client.index(index="cars", id="new", **document({}), **place))
external = {"version": 7, "version_type": "external"}
assert client.index(index="cars", id="old", **document({"n": 1}), **external)["_version"] == 7
expect(elasticsearch.ConflictError, lambda: client.index(index="cars", id="old", **document({"n": 2}), **external))
several = client.mget(index="cars", **with_body({"ids": ["new", "none"]}))["docs"]
assert [one["found"] for one in several] == [True, False], several

# Searches together, and one page by page.
searches = [{"index": "cars"}, {"size": 0}, {"index": "copies"}, {"query": {"term": {"n": 70}}}]
both = client.msearch(**({"searches": searches} if major == 8 else {"body": searches}))["responses"]
assert [one["hits"]["total"]["value"] for one in both] == [2001, 2], both
seen, after = [], {}
while hits := client.search(index="cars", **with_body({"size": 900, "sort": [{"_id": "asc"}], **after}))["hits"]["hits"]:
    seen += [hit["_id"] for hit in hits]
    after = {"search_after": hits[-1]["sort"]}
assert len(seen) == 2001 and seen == sorted(set(seen)), len(seen)

# A point in time: pages of equal documents, each document once, and nothing that is written later.
point = client.open_point_in_time(index="cars", keep_alive="1m")["id"]
client.index(index="cars", id="late", **document({"n": 1}))
seen, after, query = [], {}, {"size": 300, "sort": [{"make": "asc"}], "query": {"exists": {"field": "make"}}}
while hits := client.search(**with_body({**query, "pit": {"id": point, "keep_alive": "1m"}, **after}))["hits"]["hits"]:
    seen += [hit["_id"] for hit in hits]
    after = {"search_after": hits[-1]["sort"]}
assert len(seen) == len(set(seen)) == client.count(index="cars", **with_body({"query": query["query"]}))["count"], len(seen)
closed = client.close_point_in_time(**({"id": point} if major == 8 else {"body": {"id": point}}))
assert closed["succeeded"] and closed["num_freed"] == 1, closed
client.delete(index="cars", id="late")

# Fields, tables, templates, aliases.
assert list(client.field_caps(index="cars", fields="make")["fields"]["make"]) == ["keyword"]
assert [row["index"] for row in client.cat.indices(format="json", s="index")] == ["cars", "copies"]
template = {"index_patterns": ["boats-*"], "template": {"mappings": mappings}}
assert client.indices.put_index_template(name="boats", **with_body(template))["acknowledged"]
assert client.indices.exists_index_template(name="boats")
assert client.indices.put_alias(index="copies", name="vehicles")["acknowledged"]
assert list(client.indices.get_alias(name="vehicles")) == ["copies"]

# Copies and changes by query, and the task of one.
copying = {"source": {"index": "vehicles"}, "dest": {"index": "boats-1"}}
task = client.reindex(**with_body(copying), wait_for_completion=False, slices=2)["task"]
while not (shown := client.tasks.get(task_id=task))["completed"]:
    pass
assert shown["response"]["created"] == 1999 and len(shown["response"]["slices"]) == 2, shown
query = {"query": {"term": {"make": "VW"}}}
assert client.update_by_query(index="boats-1", **with_body(query))["updated"] == 1000
assert client.delete_by_query(index="boats-1", **with_body(query))["deleted"] == 1000
assert client.indices.stats(index="boats-1")["_all"]["primaries"]["docs"]["count"] == 999
assert client.nodes.stats()["_nodes"]["successful"] == 1
assert client.indices.delete(index="cars")["acknowledged"]
