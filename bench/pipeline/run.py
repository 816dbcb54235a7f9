#!/usr/bin/env python3
"""Speed of `quire pipe`: run.py QUIRE LINE ..., with the `quire` of a release build. Each line prints what it measured.

  acknowledge                        documents of 1 KB from a file into a server that only acknowledges
  cdc SOCKET PORT HOST:PORT HOME     changed rows of MariaDB into a topic of Kafka, whose programs are in HOME/libs
  delay HOST:PORT HOME               from a record's time in Kafka to searchable in Quire, at 5,000 a second
  load URL PID                       200,000 documents into Quire with all fields indexed, and into the search server of that process

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


globals()[sys.argv[2]](*sys.argv[3:])
