#!/usr/bin/env python3
"""Ships a Quire collection to a real search server through kills, and compares every document.

    test-pipeline.py QUIRE URL [--kills N] [--documents N]

QUIRE is the command, URL the server: OpenSearch, or Elasticsearch 5 to 8. `make test-pipeline` starts one first.
While `quire pipe run` ships to the server, to a second collection of Quire and to files, documents are put, replaced and deleted;
the command is killed again and again, and each time begun anew. In the end every sink must equal the source.
"""

import argparse
import http.client
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse


def call(url, method, path, body=None, kind="application/json"):
    address = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=60)
    connection.request(method, path, body, {"Content-Type": kind} if body is not None else {})
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    return answer.status, text


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_for(url):
    for _ in range(600):
        try:
            return call(url, "GET", "/")
        except OSError:
            time.sleep(0.1)
    sys.exit(f"{url} does not answer")


def write(quire, numbers, rng):
    """Puts, replaces and deletes documents, in bulks."""
    for begin in range(0, len(numbers), 500):
        lines = []
        for number in numbers[begin : begin + 500]:
            if rng.random() < 0.2:
                lines.append({"delete": {"_id": str(number)}})
                continue
            lines.append({"index": {"_id": str(number)}})
            lines.append({"_id": number, "title": f"track {number}", "plays": rng.randrange(1000), "text": "words " * rng.randrange(40)})
        body = "".join(json.dumps(line) + "\n" for line in lines)
        status, answer = call(quire, "POST", "/tracks/_bulk", body, "application/x-ndjson")
        assert status == 200, answer


def of_quire(url, collection):
    """All documents of a collection, without their ids."""
    documents = {}
    after = ""
    while True:
        status, answer = call(url, "GET", f"/{collection}/_changes?limit=100000&after={after}")
        assert status == 200, answer
        *changes, last = [json.loads(line) for line in answer.decode().strip().split("\n")]
        for change in changes:
            apply(documents, change)
        if not changes:
            return documents
        after = last["cursor"]


def apply(documents, change):
    key = str(change["key"])
    if change.get("deleted"):
        documents.pop(key, None)
    else:
        documents[key] = {name: value for name, value in change["document"].items() if name != "_id"}


def of_search(url, index):
    """All documents of an index, by scrolling."""
    call(url, "POST", f"/{index}/_refresh")
    documents = {}
    query = json.dumps({"size": 5000, "sort": ["_doc"]})
    status, answer = call(url, "POST", f"/{index}/_search?scroll=1m", query)
    while True:
        assert status == 200, answer
        answer = json.loads(answer)
        for hit in answer["hits"]["hits"]:
            documents[hit["_id"]] = hit["_source"]
        if not answer["hits"]["hits"]:
            return documents
        scroll = json.dumps({"scroll": "1m", "scroll_id": answer["_scroll_id"]})
        status, answer = call(url, "POST", "/_search/scroll", scroll)


def of_files(folder):
    documents = {}
    positions = set()
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), encoding="utf-8") as lines:
            for line in lines:
                change = json.loads(line)
                place = (change["partition"], change["position"])
                assert place not in positions, f"{place} is there twice"
                positions.add(place)
                apply(documents, change)
    return documents


def compare(name, found, expected):
    wrong = [key for key in set(found) | set(expected) if found.get(key) != expected.get(key)]
    for key in wrong[:5]:
        print(f"{name}: {key}: {found.get(key)} instead of {expected.get(key)}")
    if wrong:
        sys.exit(f"{name}: {len(wrong)} documents differ")
    print(f"{name}: {len(found)} documents, all equal")


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("quire")
    arguments.add_argument("url")
    arguments.add_argument("--kills", type=int, default=12)
    arguments.add_argument("--documents", type=int, default=20000)
    arguments.add_argument("--seed", type=int, default=1)
    options = arguments.parse_args()
    rng = random.Random(options.seed)
    version = json.loads(wait_for(options.url)[1])["version"]
    print(f"{version.get('distribution', 'elasticsearch')} {version['number']}, seed {options.seed}")
    index = f"tracks-{os.getpid()}"
    with tempfile.TemporaryDirectory() as folder:
        quire = f"http://127.0.0.1:{free_port()}"
        server = subprocess.Popen(
            [options.quire, "serve", os.path.join(folder, "db"), "--create", "--listen", quire.removeprefix("http://"), "--quiet"]
        )
        try:
            wait_for(quire)
            test(options, rng, folder, quire, index)
        finally:
            server.terminate()
            server.wait()
            call(options.url, "DELETE", f"/{index}")


def test(options, rng, folder, quire, index):
    pipe = os.path.join(folder, "pipe.toml")
    with open(pipe, "w", encoding="utf-8") as file:
        file.write(f"""
[source]
url = "{quire}"
collection = "tracks"
[[sink]]
name = "search"
kind = "opensearch"
url = "{options.url}"
index = "{index}"
gzip = true
[[sink]]
name = "copy"
kind = "quire"
url = "{quire}"
index = "copy"
[[sink]]
name = "archive"
kind = "ndjson"
directory = "archive"
file_bytes = 1000000
""")
    log = open(os.path.join(folder, "log"), "w", encoding="utf-8")
    write(quire, list(range(options.documents)), rng)
    for _ in range(options.kills):
        run = subprocess.Popen([options.quire, "pipe", "run", pipe], stdout=log, stderr=log)
        write(quire, [rng.randrange(options.documents) for _ in range(options.documents // 10)], rng)
        time.sleep(rng.random() * 2)
        assert run.poll() is None, open(log.name, encoding="utf-8").read()
        run.kill()
        run.wait()
    print(f"killed {options.kills} times")
    subprocess.run([options.quire, "pipe", "run", pipe, "--once"], check=True, stderr=log)
    expected = of_quire(quire, "tracks")
    compare("search", of_search(options.url, index), expected)
    compare("copy", of_quire(quire, "copy"), expected)
    compare("archive", of_files(os.path.join(folder, "archive")), expected)
    dead = [name for name in os.listdir(pipe + ".state") if "dead" in name]
    assert not dead, f"documents were refused: {dead}"


if __name__ == "__main__":
    main()
