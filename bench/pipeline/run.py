#!/usr/bin/env python3
"""Speed of `quire pipe`: run.py QUIRE LINE ..., with the `quire` of a release build. Each line prints what it measured.

  acknowledge                        documents of 1 KB from a file into a server that only acknowledges
  cdc SOCKET PORT HOST:PORT HOME     changed rows of MariaDB into a topic of Kafka, whose programs are in HOME/libs
  delay HOST:PORT HOME               from a record's time in Kafka to searchable in Quire, at 5,000 a second
  load URL PID                       200,000 documents into Quire with all fields indexed, and into the search server of that process
  replay URL[,URL] HOST:PORT HOME COUNT [none|MIBxCONCURRENCY]
                                     a topic of COUNT documents of 1 KB into a search cluster, once to warm it: bulks of 500 on one connection
                                     into an index with its defaults, `quire reindex`, and a sweep of fixed settings, or none, or a given one, beside the one it finds

CPU is user and system time. MariaDB is called as root over its socket. Topics, a database and a user `bench` are left behind.
"""
import http.server
import json
import os
import random
import socketserver
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

QUIRE = os.path.abspath(sys.argv[1])
TICKS = os.sysconf("SC_CLK_TCK")


def cpu_of(pid):
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def timed(arguments, folder):
    """Runs quire. Returns its seconds, and its seconds of CPU."""
    begin = time.monotonic()
    with open(os.path.join(folder, "output"), "w") as output:
        child = subprocess.Popen([QUIRE, *arguments], cwd=folder, stdout=output, stderr=output)
        _, status, usage = os.wait4(child.pid, 0)
    seconds = time.monotonic() - begin
    if status != 0:
        sys.exit(open(os.path.join(folder, "output")).read()[-2000:])
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss >> 10


def write_pipe(folder, name, source, sink):
    with open(os.path.join(folder, name), "w") as file:
        file.write(f"[source]\n{source}\n[[sink]]\nname = \"sink\"\n{sink}\n")


def documents(path, count, size):
    words = [f"w{number * 7919 % 5003:04}" for number in range(5003)]
    choose = random.Random(1)
    with open(path, "w") as file:
        for number in range(count):
            head = (f'{{"_id":{number},"title":"{" ".join(choose.choices(words, k=5))}","price":{choose.randrange(10**6) / 100},'
                    f'"mark":"m{choose.randrange(40)}","year":{choose.randrange(1950, 2026)},"text":"')
            text = " ".join(choose.choices(words, k=max(1, (size - len(head) - 3) // 6)))
            file.write(f'{head}{text}"}}\n')
    return os.path.getsize(path) / count


class Acknowledge(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    item = b'{"index":{"status":201}}'

    def answer(self, body):
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.answer(b'{"version":{"number":"3.6.0","distribution":"opensearch"}}')

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        count = body.count(b"\n") // 2
        self.answer(b'{"errors":false,"items":[' + b",".join([self.item] * count) + b"]}")

    def log_message(self, *_):
        pass


def acknowledge(count=200_000):
    class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
        daemon_threads = True

    with tempfile.TemporaryDirectory() as folder:
        mean = documents(os.path.join(folder, "in.ndjson"), count, 1000)
        server = Server(("127.0.0.1", 0), Acknowledge)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        sink = f'kind = "opensearch"\nurl = "http://127.0.0.1:{server.server_port}"\nindex = "a"'
        write_pipe(folder, "pipe.toml", 'files = ["in.ndjson"]', sink)
        for _ in range(3):
            seconds, cpu, memory = timed(["pipe", "run", "pipe.toml", "--once"], folder)
            print(f"acknowledge: {count} documents of {mean:.0f} bytes: {count / cpu:,.0f} a second of CPU, "
                  f"{count / seconds:,.0f} a second, {memory} MiB at most")
            os.remove(os.path.join(folder, "pipe.toml.state/sink.position.json"))


def kafka(home, program):
    return ["java", "-Xmx128m", "-XX:+UseSerialGC", "-cp", f"{home}/libs/*", f"org.apache.kafka.tools.{program}"]


def create_topic(home, broker):
    topic = f"bench-{time.time_ns()}"
    subprocess.run([*kafka(home, "TopicCommand"), "--bootstrap-server", broker, "--create", "--topic", topic, "--partitions", "3"],
                   check=True, stdout=subprocess.DEVNULL)
    return topic


def cdc(socket, port, broker, home, changes=200_000):
    def sql(text):
        subprocess.run(["mariadb", "--no-defaults", "-u", "root", f"--socket={socket}", "-e", text], check=True)

    with tempfile.TemporaryDirectory() as folder:
        sql("CREATE OR REPLACE DATABASE bench; USE bench; CREATE TABLE t (id INT PRIMARY KEY, v INT, s VARCHAR(200)); "
            f"INSERT INTO t SELECT seq, 0, REPEAT('x', 150) FROM seq_1_to_{changes}")
        sql("CREATE OR REPLACE USER bench@'%'; GRANT SELECT, REPLICATION SLAVE, BINLOG MONITOR ON *.* TO bench@'%'")
        source = f'type = "mysql"\nurl = "mysql://127.0.0.1:{port}"\ntable = "bench.t"\nuser = "bench"'
        topic = create_topic(home, broker)
        write_pipe(folder, "pipe.toml", source, f'kind = "kafka"\nurl = "kafka://{broker}"\ntopic = "{topic}"')
        seconds, cpu, _ = timed(["pipe", "run", "pipe.toml", "--once"], folder)
        print(f"snapshot: {changes / seconds:,.0f} rows a second, {changes / cpu:,.0f} a second of CPU")
        for turn in range(3):
            step = changes // 20
            sql("USE bench; " + "; ".join(f"UPDATE t SET v = v + 1 WHERE id BETWEEN {1 + part * step} AND {(part + 1) * step}"
                                          for part in range(20)))
            seconds, cpu, memory = timed(["pipe", "run", "pipe.toml", "--once"], folder)
            print(f"changes: {changes / seconds:,.0f} rows a second, {changes / cpu:,.0f} a second of CPU, {memory} MiB at most")


def serve(folder):
    child = subprocess.Popen([QUIRE, "serve", "db", "--create", "--listen", "127.0.0.1:0"], cwd=folder, stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL, text=True)
    return child, child.stdout.readline().strip().rstrip('"}').rsplit("/", 1)[1]


def delay(broker, home, rate=5_000, seconds=40):
    topic = create_topic(home, broker)
    with tempfile.TemporaryDirectory() as folder:
        server, address = serve(folder)
        write_pipe(folder, "pipe.toml", f'type = "kafka"\nurl = "kafka://{broker}"\ntopic = "{topic}"',
                   f'kind = "quire"\nurl = "http://{address}"\nindex = "t"')
        pipe = subprocess.Popen([QUIRE, "pipe", "run", "pipe.toml", "--json"], cwd=folder, stdout=subprocess.PIPE, text=True)
        producer = subprocess.Popen([*kafka(home, "ConsoleProducer"), "--bootstrap-server", broker, "--topic",
                                     topic, "--timeout", "1", "--reader-property", "parse.key=true", "--reader-property",
                                     "key.separator=|"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        begin, sent = time.monotonic(), 0
        while sent < rate * seconds:
            due = min(int((time.monotonic() - begin) * rate), rate * seconds)
            producer.stdin.write("".join(f'{number % 50_000}|{{"n":{number},"text":"{"x" * 300}"}}\n' for number in range(sent, due)))
            producer.stdin.flush()
            sent = due
            time.sleep(0.01)
        producer.stdin.close()
        producer.wait()
        # The first reports are of the start of all processes.
        reports = []
        for line in pipe.stdout:
            progress = json.loads(line)["progress"]
            if progress["delay_p99_seconds"] and progress["changes_per_second"] > rate / 2:
                reports.append((progress["delay_p50_seconds"], progress["delay_p99_seconds"], progress["changes_per_second"]))
            if progress["changes"] >= sent:
                break
        cpu = (cpu_of(pipe.pid), cpu_of(server.pid))
        pipe.kill()
        server.kill()
        steady = reports[5:]
        halves, mosts = sorted(one[0] for one in steady), sorted(one[1] for one in steady)
        print(f"delay: {len(steady)} reports of a second, p50 {halves[len(halves) // 2] * 1e3:.0f} ms; p99 of each: median "
              f"{mosts[len(mosts) // 2] * 1e3:.0f} ms, largest {mosts[-1] * 1e3:.0f} ms; CPU of the pipe {cpu[0] / sent * 1e6:.1f} "
              f"and of Quire {cpu[1] / sent * 1e6:.1f} µs a change")


def load(url, pid, count=200_000):
    with tempfile.TemporaryDirectory() as folder:
        mean = documents(os.path.join(folder, "in.ndjson"), count, 1000)
        server, address = serve(folder)
        places = [("quire", f"http://{address}", server.pid), ("opensearch", url, int(pid))]
        for turn in range(3):
            rates = []
            for kind, place, process in places:
                write_pipe(folder, f"{kind}.toml", f'files = ["in.ndjson"]', f'kind = "{kind}"\nurl = "{place}"\nindex = "t{turn}"')
                before = cpu_of(process)
                seconds, cpu, _ = timed(["pipe", "run", f"{kind}.toml", "--once"], folder)
                of_server = cpu_of(process) - before
                with urllib.request.urlopen(f"{place}/t{turn}/_count") as answer:
                    found = json.load(answer)["count"]
                assert found == count, (kind, found)
                os.remove(os.path.join(folder, f"{kind}.toml.state/sink.position.json"))
                rates.append((count / seconds, count / of_server))
                print(f"load: {kind}: {count} documents of {mean:.0f} bytes: {count / seconds:,.0f} a second, "
                      f"{count / of_server:,.0f} a second of the server's CPU, {count / cpu:,.0f} of the pipe's")
            (ours, ours_cpu), (theirs, theirs_cpu) = rates
            print(f"load: Quire takes {ours / theirs:.1f} times as many a second, {ours_cpu / theirs_cpu:.1f} a second of CPU")
        server.kill()


def call(url, path, body=None, method=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url + path, data, {"Content-Type": "application/json"}, method=method)
    for attempt in range(60):
        try:
            with urllib.request.urlopen(request, timeout=1800) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            # After a load a node answers so until its heap is collected.
            if error.code != 429 or attempt == 59:
                raise
            time.sleep(1)


def percentile(values, part):
    return sorted(values)[int(len(values) * part)]


def searches(url, index, count=200):
    """Milliseconds of mixed searches, one after another: terms, phrases, words with a filter, ranges, aggregations."""
    choose = random.Random(2)
    word = lambda: f"w{choose.randrange(5003):04}"
    kinds = [
        lambda: {"query": {"match": {"text": f"{word()} {word()}"}}},
        lambda: {"query": {"match_phrase": {"text": f"{word()} {word()}"}}},
        lambda: {"query": {"bool": {"must": {"match": {"title": word()}}, "filter": {"range": {"year": {"gte": 2000}}}}}},
        lambda: {"query": {"range": {"price": {"lt": choose.randrange(10_000)}}}, "sort": [{"year": "desc"}]},
        lambda: {"query": {"match": {"text": word()}}, "size": 0, "aggs": {"years": {"terms": {"field": "year"}}}},
    ]
    spent = []
    for number in range(2 * count):
        begin = time.monotonic()
        call(url, f"/{index}/_search?request_cache=false", kinds[number % len(kinds)]())
        spent.append((time.monotonic() - begin) * 1e3)
    # The first half warms the servers.
    return spent[count:]


def replay(urls, broker, home, count, sweep="sweep"):
    count, url = int(count), urls.split(",")[0]
    older = call(url, "/")["version"]["number"].startswith("5.")
    index_settings = {"number_of_replicas": 0, "refresh_interval": "-1", "translog": {"durability": "async", "flush_threshold_size": "2gb"}}
    with tempfile.TemporaryDirectory() as folder:
        mean = documents(os.path.join(folder, "in.ndjson"), count, 1000)
        topic = create_topic(home, broker)
        write_pipe(folder, "fill.toml", 'files = ["in.ndjson"]', f'kind = "kafka"\nurl = "kafka://{broker}"\ntopic = "{topic}"')
        timed(["pipe", "run", "fill.toml", "--once"], folder)
        os.remove(os.path.join(folder, "in.ndjson"))
        source = f'type = "kafka"\nurl = "kafka://{broker}"\ntopic = "{topic}"'
        names = []

        def drop():
            while names:
                call(url, f"/{names.pop()}", method="DELETE")

        def ship(name, settings, limit):
            """Seconds until all documents are in an index, searchable and copied. `limit` are more lines of the sink."""
            names.append(name)
            # A run that failed may have left it.
            call(url, f"/{name}?ignore_unavailable=true", method="DELETE")
            call(url, f"/{name}", {"settings": settings}, "PUT")
            write_pipe(folder, f"{name}.toml", source, f'kind = "opensearch"\nurl = "{urls}"\nindex = "{name}"\n{limit}')
            begin = time.monotonic()
            timed(["pipe", "run", f"{name}.toml", "--once"], folder)
            call(url, f"/{name}/_refresh", {}, "POST")
            call(url, f"/_cluster/health/{name}?wait_for_status=green&timeout=1200s")
            seconds = time.monotonic() - begin
            found = call(url, f"/{name}/_search", {"size": 0})["hits"]["total"]
            if not isinstance(found, int):
                found = call(url, f"/{name}/_count")["count"]
            assert found == count, (name, found)
            return seconds

        nodes = call(url, "/_cluster/health")["number_of_nodes"]
        if nodes < 2:
            sys.exit("replay: replicas need two nodes")
        print(f"replay: {count} documents of {mean:.0f} bytes, {nodes} nodes of {'Elasticsearch 5' if older else 'OpenSearch'}", flush=True)
        ship("bench-warm", index_settings, f"bulk_bytes = {4 << 20}\nconcurrency = 3")
        drop()
        defaults = ship("bench-defaults", {}, f"bulk_bytes = {int(500 * mean)}\nconcurrency = 1")
        print(f"replay: bulks of 500, one connection, an index with its defaults: {count / defaults:,.0f} a second", flush=True)
        before = searches(url, "bench-defaults")
        drop()
        write_pipe(folder, "reindex.toml", source, f'kind = "opensearch"\nurl = "{urls}"\nindex = "bench-tuned"\n[reindex]')
        tuned, cpu, memory = timed(["reindex", "run", "reindex.toml"], folder)
        with open(os.path.join(folder, "reindex.toml.state/sink.reindex/journal.ndjson")) as journal:
            for line in journal:
                line = json.loads(line)
                print("   ", line["at"], line["says"], flush=True)
        new = "bench-tuned-000001"
        names.append(new)
        call(url, f"/_cluster/health/{new}?wait_for_status=green&timeout=1200s")
        after = searches(url, new)
        drop()
        print(f"replay: quire reindex, with the merge, the copies and the comparison: {count / tuned:,.0f} a second, "
              f"{defaults / tuned:.2f} times as many; {cpu:.1f} s of CPU, {memory} MiB at most", flush=True)
        print(f"replay: 200 searches: p50 {percentile(before, 0.5):.1f} and {percentile(after, 0.5):.1f} ms, "
              f"p95 {percentile(before, 0.95):.1f} and {percentile(after, 0.95):.1f} ms before and after", flush=True)
        if sweep == "none":
            return
        rates = {}
        grid = [(megabytes, concurrency) for megabytes in [1, 4, 16] for concurrency in [1, 3, 8]]
        if sweep == "sweep":
            for megabytes, concurrency in grid:
                limit = f"bulk_bytes = {int(megabytes * (1 << 20))}\nconcurrency = {concurrency}"
                rates[megabytes, concurrency] = count / ship(f"bench-{len(rates)}", index_settings, limit)
                drop()
                print(f"replay: {megabytes} MiB x {concurrency}: {rates[megabytes, concurrency]:,.0f} a second", flush=True)
        turns = []
        best = max(rates, key=rates.get) if rates else tuple(map(int, sweep.split("x")))
        for turn in range(3):
            limit = f"bulk_bytes = {int(best[0] * (1 << 20))}\nconcurrency = {best[1]}"
            fixed = count / ship(f"bench-fixed{turn}", index_settings, limit)
            drop()
            found = count / ship(f"bench-found{turn}", index_settings, "")
            drop()
            turns.append(found / fixed)
            print(f"replay: {best[0]} MiB x {best[1]}, {fixed:,.0f} a second; found by itself {found:,.0f}, "
                  f"{found / fixed:.2f} of it", flush=True)
        print(f"replay: {sorted(turns)[1]:.2f} of the best fixed setting ({min(turns):.2f} to {max(turns):.2f})")


globals()[sys.argv[2]](*sys.argv[3:])
