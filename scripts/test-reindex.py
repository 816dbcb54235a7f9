#!/usr/bin/env python3
"""Reindexes a Quire collection into a real search cluster through kills, and compares every document and every setting.

    test-reindex.py QUIRE URL [--kills N] [--documents N] [--seed N]

QUIRE is the command, URL the cluster: OpenSearch, Elasticsearch 5 to 8, or Quire. `make test-pipeline` starts one first.
An index is built by a pipe, then anew by `quire reindex run`, while documents are put, replaced and deleted; the command is killed
(SIGKILL) again and again, by turns during the run, the switch and the way back, and each time begun anew or cleaned up. After each
clean-up every setting of the cluster must be what it was. In the end both indexes must equal the source.
"""

import argparse
import importlib.util
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time

spec = importlib.util.spec_from_file_location("pipeline", os.path.join(os.path.dirname(__file__), "test-pipeline.py"))
pipeline = importlib.util.module_from_spec(spec)
spec.loader.exec_module(pipeline)
call = pipeline.call

MAPPINGS = {"properties": {"title": {"type": "keyword"}, "plays": {"type": "long"}, "text": {"type": "text"}}}
SETTINGS = {"number_of_shards": 1, "number_of_replicas": 1, "refresh_interval": "2s", "translog": {"flush_threshold_size": "300mb"}}


class Cluster:
    def __init__(self, url):
        self.url = url
        version = json.loads(pipeline.wait_for(url)[1])
        self.is_quire = "quire" in version
        version = version["version"]
        self.name = "quire" if self.is_quire else version.get("distribution", "elasticsearch")
        self.number = version["number"]
        major = int(self.number.split(".")[0])
        self.doc_type = {5: "doc", 6: "_doc"}.get(major) if self.name == "elasticsearch" else None

    def do(self, method, path, body=None):
        status, answer = call(self.url, method, path, None if body is None else json.dumps(body))
        assert status in (200, 201), f"{method} {path}: {status} {answer}"
        return json.loads(answer)

    def create(self, index, alias):
        if self.is_quire:
            self.do("PUT", f"/{index}", {"settings": {"number_of_shards": 2}})
        else:
            mappings = {self.doc_type: MAPPINGS} if self.doc_type else MAPPINGS
            self.do("PUT", f"/{index}", {"settings": SETTINGS, "mappings": mappings})
            # Something to put back that is no default, and something that must never change.
            settings = {"indices.recovery.max_bytes_per_sec": "39mb", "cluster.routing.allocation.node_initial_primaries_recoveries": "5"}
            self.do("PUT", "/_cluster/settings", {self.scope(): settings})
        self.do("POST", "/_aliases", {"actions": [{"add": {"index": index, "alias": alias}}]})

    def scope(self):
        return "persistent" if self.name == "elasticsearch" and self.number.startswith(("7.", "8.")) else "transient"

    def reset(self, alias):
        for index in self.indexes(alias):
            call(self.url, "DELETE", f"/{index}")
        if not self.is_quire:
            names = ["indices.recovery.max_bytes_per_sec", "cluster.routing.allocation.node_initial_primaries_recoveries"]
            self.do("PUT", "/_cluster/settings", {self.scope(): dict.fromkeys(names)})

    def indexes(self, alias):
        return [row["index"] for row in self.do("GET", f"/_cat/indices/{alias}-*?h=index&format=json")]

    def cluster_settings(self):
        return None if self.is_quire else self.do("GET", "/_cluster/settings")

    def index_settings(self, index):
        """The settings of an index that a reindex may change, and all others that are no index's own."""
        settings = self.do("GET", f"/{index}")[index]["settings"]["index"]
        for own in ["uuid", "creation_date", "provided_name", "version", "number_of_shards"]:
            settings.pop(own, None)
        return settings

    def serving(self, alias):
        return sorted(self.do("GET", f"/_alias/{alias}"))

    def documents(self, index):
        return pipeline.of_quire(self.url, index) if self.is_quire else pipeline.of_search(self.url, index)


class Writer(threading.Thread):
    """Changes the source without a pause."""

    def __init__(self, source, documents, seed):
        super().__init__(daemon=True)
        self.source, self.documents, self.rng = source, documents, random.Random(seed)
        self.stopping = threading.Event()
        self.written = 0

    def run(self):
        while not self.stopping.is_set():
            numbers = [self.rng.randrange(self.documents) for _ in range(20)]
            pipeline.write(self.source, numbers, self.rng)
            self.written += len(numbers)
            time.sleep(0.05)

    def stop(self):
        self.stopping.set()
        self.join()


class Test:
    def __init__(self, options, folder, source):
        self.options, self.source = options, source
        self.rng = random.Random(options.seed)
        self.cluster = Cluster(options.url)
        self.alias = f"reindexed-{os.getpid()}"
        self.old, self.new = f"{self.alias}-000001", f"{self.alias}-000002"
        self.file = os.path.join(folder, "pipe.toml")
        self.log = open(os.path.join(folder, "log"), "w+", encoding="utf-8")
        self.killed = 0
        with open(self.file, "w", encoding="utf-8") as file:
            file.write(f"""
[source]
url = "{source}"
collection = "tracks"
[[sink]]
name = "search"
kind = "opensearch"
url = "{options.url}"
index = "{self.alias}"
bulk_bytes = 200000
concurrency = 2
[reindex]
shards = 2
verify_documents = 500
""")

    def command(self, *words):
        return [self.options.quire, *words[:2], self.file, *words[2:]]

    def run(self, *words):
        done = subprocess.run(self.command(*words), stdout=subprocess.PIPE, stderr=self.log, text=True)
        if done.returncode != 0:
            self.log.seek(0)
            sys.exit(f"{words}: {done.stdout}\n{self.log.read()[-4000:]}")
        return done.stdout

    def kill(self, seconds, *words):
        """Runs a command and kills it after a time at random; whether it was killed."""
        process = subprocess.Popen(self.command(*words), stdout=self.log, stderr=self.log)
        try:
            process.wait(self.rng.random() * seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            self.killed += 1
            return True
        assert process.returncode == 0, f"{words} failed: {self.tail()}"
        return False

    def tail(self):
        self.log.seek(0)
        return self.log.read()[-4000:]

    def check_settings(self):
        found = self.cluster.cluster_settings()
        assert found == self.cluster_before, f"{found} instead of {self.cluster_before}"

    def check_index(self, index):
        found = self.cluster.index_settings(index)
        assert found == self.index_before, f"{index}: {found} instead of {self.index_before}"

    def clean(self):
        self.run("reindex", "clean")
        self.check_settings()
        if self.new in self.cluster.indexes(self.alias):
            self.check_index(self.new)

    def test(self):
        cluster, options = self.cluster, self.options
        print(f"{cluster.name} {cluster.number}, seed {options.seed}")
        pipeline.write(self.source, list(range(options.documents)), self.rng)
        cluster.create(self.old, self.alias)
        self.run("pipe", "run", "--once")
        self.cluster_before, self.index_before = cluster.cluster_settings(), cluster.index_settings(self.old)
        plan = self.run("reindex", "plan")
        print(plan)
        assert self.new in plan
        writer = Writer(self.source, options.documents, options.seed)
        writer.start()
        pipe = subprocess.Popen(self.command("pipe", "run"), stdout=self.log, stderr=self.log)
        try:
            self.build()
            self.switch()
        finally:
            pipe.kill()
            pipe.wait()
            writer.stop()
        print(f"killed {self.killed} times; {writer.written} changes were written meanwhile")
        self.run("pipe", "run", "--once")
        expected = pipeline.of_quire(self.source, "tracks")
        self.run("reindex", "switch")
        pipeline.compare("new index", cluster.documents(self.new), expected)
        self.run("reindex", "rollback")
        pipeline.compare("old index", cluster.documents(self.old), expected)
        assert cluster.serving(self.alias) == [self.old]
        self.run("reindex", "switch")
        self.run("reindex", "clean", "--drop")
        assert cluster.indexes(self.alias) == [self.new] == cluster.serving(self.alias)
        self.check_settings()
        self.check_index(self.new)
        dead = [name for _, _, names in os.walk(self.file + ".state") for name in names if "dead" in name]
        assert not dead, f"documents were refused: {dead}"
        print("every setting is as it was")

    def build(self):
        """Kills the run, and every other time cleans up, until it has been killed as often as it should be."""
        begun = time.monotonic()
        self.kill(0.3, "reindex", "run")
        for number in range(self.options.kills * 2 // 3):
            assert self.cluster.serving(self.alias) == [self.old]
            # From a fraction of a second to what a whole run takes.
            if not self.kill(self.options.seconds * (number + 1) / self.options.kills * 2, "reindex", "run"):
                # It was complete: from the begin again.
                self.check_settings()
                self.run("reindex", "clean", "--drop")
            elif number % 2:
                self.clean()
        print(self.run("reindex", "run").strip())
        self.check_settings()
        self.check_index(self.new)
        print(f"built in {time.monotonic() - begun:.0f} s with {self.killed} kills")

    def switch(self):
        for number in range(self.options.kills // 3 + 1):
            word = "rollback" if number % 2 else "switch"
            if self.kill(1.5, "reindex", word):
                assert len(self.cluster.serving(self.alias)) == 1, "the alias stands for one index at each moment"
            self.run("reindex", word)
            expected = self.old if number % 2 else self.new
            assert self.cluster.serving(self.alias) == [expected]
        self.check_settings()


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("quire")
    arguments.add_argument("url")
    arguments.add_argument("--kills", type=int, default=30)
    arguments.add_argument("--documents", type=int, default=20000)
    arguments.add_argument("--seconds", type=float, default=8, help="about what a run takes")
    arguments.add_argument("--seed", type=int, default=1)
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        source = f"http://127.0.0.1:{pipeline.free_port()}"
        server = subprocess.Popen(
            [options.quire, "serve", os.path.join(folder, "db"), "--create", "--listen", source.removeprefix("http://"), "--quiet"]
        )
        test = None
        try:
            pipeline.wait_for(source)
            test = Test(options, folder, source)
            test.test()
        finally:
            if test:
                test.cluster.reset(test.alias)
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
