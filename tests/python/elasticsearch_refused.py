"""elasticsearch-py 8 against a server that speaks as OpenSearch: it is refused, and nothing is written."""

import sys

import elasticsearch

client = elasticsearch.Elasticsearch(f"http://127.0.0.1:{sys.argv[1]}")
try:
    client.index(index="cars", id="1", document={"n": 1})
except elasticsearch.ApiError as refused:
    assert refused.status_code == 406, refused
    assert "--compat elasticsearch" in str(refused), refused
else:
    raise AssertionError("a refusal is expected")
