"""opensearch-py, as its users write it, against a server on the port given: every step is checked.

With a file of certificates to trust it speaks TLS."""

import sys

from opensearchpy import ConflictError, NotFoundError, OpenSearch, RequestError, helpers

tls = {"use_ssl": True, "verify_certs": True, "ca_certs": sys.argv[2]} if len(sys.argv) > 2 else {}
client = OpenSearch([{"host": "127.0.0.1", "port": int(sys.argv[1])}], **tls)


def expect(error, call):
    try:
        call()
    except error as caught:
        return caught
    raise AssertionError(f"{error.__name__} expected")


# The server, and a collection.
assert client.ping()
assert client.info()["version"]["distribution"] == "opensearch"
created = client.indices.create(index="cars", body={"settings": {"index": {"number_of_shards": 3}}})
assert created["acknowledged"] and created["index"] == "cars", created
assert client.indices.exists(index="cars") and not client.indices.exists(index="boats")
assert expect(RequestError, lambda: client.indices.create(index="cars")).error == "resource_already_exists_exception"
assert list(client.indices.get(index="cars")) == ["cars"]

# Bulk: many documents, in the order and with the statuses of their items.
cars = [{"_index": "cars", "_id": f"car-{n}", "_source": {"n": n, "price": n * 1.5, "tags": ["a", "b"]}} for n in range(2500)]
assert helpers.bulk(client, cars, chunk_size=500) == (2500, [])
again = {"_op_type": "create", "_index": "cars", "_id": "car-1", "n": 0}
done, failed = helpers.bulk(client, [again, {"_op_type": "delete", "_index": "cars", "_id": "car-2499"}], raise_on_error=False)
assert done == 1 and failed[0]["create"]["status"] == 409, (done, failed)
assert client.count(index="cars")["count"] == 2499

# Single documents.
answer = client.index(index="cars", id="golf", body={"make": "VW", "km": 81000})
assert answer["result"] == "created", answer
found = client.get(index="cars", id="golf")
assert found["_source"] == {"make": "VW", "km": 81000} and found["found"], found
assert client.get_source(index="cars", id="golf") == found["_source"]
assert client.exists(index="cars", id="golf") and not client.exists(index="cars", id="passat")
expect(NotFoundError, lambda: client.get(index="cars", id="passat"))
expect(NotFoundError, lambda: client.get(index="boats", id="1"))
expect(ConflictError, lambda: client.create(index="cars", id="golf", body={}))
odd = "a/b c?é%20"
client.index(index="cars", id=odd, body={"key": odd})
assert client.get(index="cars", id=odd)["_source"]["key"] == odd
named = client.index(index="cars", body={"without": "an id"})
assert client.get(index="cars", id=named["_id"])["_source"] == {"without": "an id"}

# Updates, and writes that depend on what was read.
assert client.update(index="cars", id="golf", body={"doc": {"km": 82500}})["result"] == "updated"
assert client.update(index="cars", id="golf", body={"doc": {"km": 82500}})["result"] == "noop"
assert client.update(index="cars", id="polo", body={"doc": {"km": 1}, "doc_as_upsert": True})["result"] == "created"
expect(NotFoundError, lambda: client.update(index="cars", id="passat", body={"doc": {"km": 1}}))
seen = client.get(index="cars", id="golf")
assert seen["_source"] == {"make": "VW", "km": 82500}
condition = {"if_seq_no": seen["_seq_no"], "if_primary_term": seen["_primary_term"]}
assert client.index(index="cars", id="golf", body={"km": 0}, **condition)["result"] == "updated"
expect(ConflictError, lambda: client.index(index="cars", id="golf", body={"km": 1}, **condition))
expect(ConflictError, lambda: client.delete(index="cars", id="golf", **condition))

# Many at once.
several = client.mget(index="cars", body={"ids": ["golf", "nothing", "car-7"]})["docs"]
assert [one["found"] for one in several] == [True, False, True], several
assert several[2]["_source"] == {"n": 7, "price": 10.5, "tags": ["a", "b"]}
across = client.mget(body={"docs": [{"_index": "cars", "_id": "golf"}, {"_index": "boats", "_id": "1"}]})["docs"]
assert across[0]["found"] and across[1]["error"]["type"] == "index_not_found_exception", across

# Deletes.
assert client.delete(index="cars", id="golf")["result"] == "deleted"
expect(NotFoundError, lambda: client.delete(index="cars", id="golf"))

# Search: a write is found as soon as it is acknowledged.
client.index(index="cars", id="new", body={"n": 100_000, "price": 99.5, "tags": ["new"]})
found = client.search(index="cars", body={"query": {"term": {"tags": "new"}}})["hits"]
assert found["total"] == {"value": 1, "relation": "eq"} and found["hits"][0]["_source"]["n"] == 100_000, found
cheap = {"query": {"bool": {"filter": [{"range": {"price": {"gte": 3, "lt": 15}}}, {"terms": {"tags": ["a", "z"]}}],
                            "must_not": [{"ids": {"values": ["car-5"]}}]}},
         "sort": [{"price": "desc"}], "size": 3, "_source": ["n"]}
page = client.search(index="cars", body=cheap)
assert [hit["_source"] for hit in page["hits"]["hits"]] == [{"n": 9}, {"n": 8}, {"n": 7}], page
assert page["hits"]["total"]["value"] == 7 and page["hits"]["hits"][0]["sort"] == [13.5], page
aggs = {"tags": {"terms": {"field": "tags"}}, "mean": {"avg": {"field": "n"}}, "k": {"histogram": {"field": "n", "interval": 1000}}}
said = client.search(index="cars", body={"size": 0, "query": {"prefix": {"_id": "car-"}}, "aggs": aggs})["aggregations"]
assert said["tags"]["buckets"] == [{"key": "a", "doc_count": 2499}, {"key": "b", "doc_count": 2499}], said
assert said["mean"]["value"] == 1249 and [one["doc_count"] for one in said["k"]["buckets"]] == [1000, 1000, 499], said
assert client.count(index="cars", body={"query": {"exists": {"field": "price"}}})["count"] == 2500
assert client.delete(index="cars", id="new")["result"] == "deleted"

# Aliases, and copies: by the server, and by the client through scan and bulk.
client.indices.put_alias(index="cars", name="vehicles", body={"filter": {"prefix": {"_id": "car-1"}}})
assert client.indices.exists_alias(name="vehicles") and not client.indices.exists_alias(name="boats")
assert client.count(index="vehicles")["count"] == 1111
copied = client.reindex(body={"source": {"index": "cars"}, "dest": {"index": "by-server"}})
assert copied["created"] == client.count(index="cars")["count"] and not copied["failures"], copied
helpers.reindex(client, "cars", "by-client")
copy = {hit["_id"]: hit["_source"] for hit in helpers.scan(client, index="cars")}
for other in ("by-server", "by-client"):
    assert {hit["_id"]: hit["_source"] for hit in helpers.scan(client, index=other)} == copy, other
switch = [{"remove": {"index": "cars", "alias": "vehicles"}}, {"add": {"index": "by-server", "alias": "vehicles"}}]
assert client.indices.update_aliases(body={"actions": switch})["acknowledged"]
assert list(client.indices.get_alias(name="vehicles")) == ["by-server"]
assert client.get(index="vehicles", id="car-7")["_index"] == "by-server"
assert [row["index"] for row in client.cat.aliases(format="json")] == ["by-server"]
assert client.update_by_query(index="vehicles", body={"query": {"ids": {"values": ["car-7"]}}})["updated"] == 1
expect(RequestError, lambda: client.indices.delete(index="vehicles"))
assert client.delete_by_query(index="vehicles", body={"query": {"match_all": {}}})["deleted"] == len(copy)
for other in ("by-server", "by-client"):
    assert client.indices.delete(index=other)["acknowledged"]

# Templates, mappings, and what can be done with fields.
template = {"index_patterns": ["boats-*"], "template": {"mappings": {"properties": {"n": {"type": "long"}}}}}
assert client.indices.put_index_template(name="boats", body=template)["acknowledged"]
assert client.indices.exists_index_template(name="boats")
client.indices.create(index="boats-1")
client.indices.put_mapping(index="boats-1", body={"properties": {"name": {"type": "keyword"}}})
fields = client.indices.get_mapping(index="boats-1")["boats-1"]["mappings"]["properties"]
assert fields == {"n": {"type": "long"}, "name": {"type": "keyword"}}, fields

# External versions must grow.
external = {"version": 5, "version_type": "external"}
assert client.index(index="boats-1", id="ida", body={"n": 1, "name": "Ida"}, **external)["_version"] == 5
expect(ConflictError, lambda: client.index(index="boats-1", id="ida", body={"n": 2}, **external))
caps = client.field_caps(index="boats-1", fields="n*")["fields"]
assert list(caps["n"]) == ["long"] and list(caps["name"]) == ["keyword"], caps

# Searches together, and a point in time page by page.
searches = [{"index": "boats-1"}, {"query": {"term": {"name": "Ida"}}}, {"index": "cars"}, {"size": 0}]
both = client.msearch(body=searches)["responses"]
assert [one["hits"]["total"]["value"] for one in both] == [1, len(copy)], both
point = client.create_pit(index="cars", params={"keep_alive": "1m"})["pit_id"]
client.index(index="cars", id="later", body={"n": -1})
seen, after = [], {}
while True:
    page = {"pit": {"id": point, "keep_alive": "1m"}, "size": 900, "sort": [{"_id": "asc"}], "track_total_hits": False, **after}
    hits = client.search(body=page)["hits"]["hits"]
    if not hits:
        break
    seen += [hit["_id"] for hit in hits]
    after = {"search_after": hits[-1]["sort"]}
assert seen == sorted(copy), len(seen)
assert client.delete_pit(body={"pit_id": [point]})["pits"][0]["successful"]
client.delete(index="cars", id="later")

# A copy that nobody waits for is a task, in slices.
copying = {"source": {"index": "cars"}, "dest": {"index": "boats-2"}}
task = client.reindex(body=copying, params={"wait_for_completion": "false", "slices": 2})["task"]
while not (shown := client.tasks.get(task_id=task))["completed"]:
    pass
assert shown["response"]["total"] == len(copy) and len(shown["response"]["slices"]) == 2, shown
assert shown["task"]["status"]["created"] == len(copy), shown
stats = client.indices.stats(index="boats-2")["indices"]["boats-2"]["primaries"]
assert stats["docs"]["count"] == len(copy), stats
assert client.nodes.stats()["_nodes"]["successful"] == 1
client.indices.delete(index="boats-1,boats-2")
assert client.indices.delete_index_template(name="boats")["acknowledged"]

# What cannot be done says so.
refused = expect(RequestError, lambda: client.search(index="cars", body={"query": {"match": {"tags": "a"}}}))
assert refused.status_code == 400 and "[match]" in refused.info["error"]["reason"], refused

# Looks.
assert client.cluster.health()["status"] == "green"
client.indices.refresh(index="cars")
assert [row["index"] for row in client.cat.indices(format="json")] == ["cars"]
assert client.indices.delete(index="cars")["acknowledged"]
assert not client.indices.exists(index="cars")

print("opensearch-py: all well")
