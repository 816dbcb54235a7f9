#!/usr/bin/env python3
"""Runs OpenSearch's own REST cases against `quire serve`, one fresh server each.

The cases are read from the package org.opensearch:rest-api-spec; none is part of this repository.
A case that does not pass is run once more, alone. It has one of these outcomes:

  passed   every step held
  skipped  it is for other versions, or needs what no client does
  refused  a request was answered with an error that OpenSearch would not have given
  wrong    a request was answered, and the answer is not OpenSearch's
  error    the server failed (5xx) or did not answer
  differs  it is wrong or refused, and differs.json says why Quire answers otherwise

The status is 1 if a case is wrong or an error, if fewer pass than are demanded, or if a case that
differs.json lists, and not as one that differs `sometimes`, passes or is not there any more.
"""

import argparse
import collections
import concurrent.futures
import http.client
import json
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from case import Case, Outcome, load  # noqa: E402
from spec import Spec  # noqa: E402


class Client:
    """One connection to one server."""

    def __init__(self, port: int):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        self.warnings = []

    def send(self, method, target, body, headers):
        self.connection.request(method, target, body, headers)
        answer = self.connection.getresponse()
        data = answer.read()
        self.warnings = [
            re.sub(r'^299 [^"]*"(.*)"$', r"\1", one)
            for one in answer.headers.get_all("Warning", [])
        ]
        return answer.status, answer.headers.get("Content-Type", ""), data


class Server:
    """`quire serve` of an empty database."""

    def __init__(self, quire: Path):
        self.folder = tempfile.mkdtemp(prefix="quire-rest-")
        self.process = subprocess.Popen(
            [quire, "serve", "--create", "--listen", "127.0.0.1:0", f"{self.folder}/db"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        self.port = None
        for line in self.process.stdout:
            found = re.search(r"http://127\.0\.0\.1:(\d+)", line)
            if found:
                self.port = int(found[1])
                break
        if self.port is None:
            raise SystemExit("the server did not say its address")
        # As OpenSearch is by default.
        setting = {"transient": {"action.destructive_requires_name": False}}
        Client(self.port).send(
            "PUT", "/_cluster/settings", json.dumps(setting), {"Content-Type": "application/json"}
        )

    def stop(self) -> None:
        self.process.kill()
        self.process.communicate()
        shutil.rmtree(self.folder, ignore_errors=True)


def run(quire: Path, spec: Spec, sections: dict, name: str) -> tuple[str, str]:
    """Outcome of one case, and why."""
    server = Server(quire)
    try:
        case = Case(spec, Client(server.port))
        case.run(sections.get("setup"))
        case.run(sections[name])
        return "passed", ""
    except Outcome as outcome:
        return outcome.kind, outcome.why
    except (OSError, http.client.HTTPException) as error:
        return "error", f"{type(error).__name__}: {error}"
    except (KeyError, TypeError, ValueError, AttributeError, re.error) as error:
        return "skipped", f"the runner can't do it: {type(error).__name__}: {error}"
    finally:
        server.stop()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("quire", type=Path, help="the command `quire`")
    options.add_argument("spec", type=Path, help="the package: a jar, or its folder rest-api-spec")
    options.add_argument("--only", default="", help="files whose path begins with this")
    options.add_argument("--case", default="", help="cases whose name has this")
    options.add_argument("--out", type=Path, help="write one line of JSON a case here")
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument("--passed", type=int, default=0, help="how many must pass")
    options = options.parse_args()
    if options.spec.is_dir():
        sys.exit(run_all(options, options.spec))
    with tempfile.TemporaryDirectory(prefix="quire-rest-") as folder:
        with zipfile.ZipFile(options.spec) as jar:
            jar.extractall(folder)
        sys.exit(run_all(options, Path(folder) / "rest-api-spec"))


def run_all(options: argparse.Namespace, folder: Path) -> int:
    """Runs the cases of a folder, and prints a table; the status."""
    spec = Spec(folder / "api")
    root = folder / "test"
    work = []
    for file in sorted(root.rglob("*.yml")):
        path = str(file.relative_to(root))
        if path.startswith(options.only):
            sections = load(file.read_text())
            names = [name for name in sections if name not in ("setup", "teardown")]
            work += [(path, sections, name) for name in names if options.case in name]
    listed = json.loads((Path(__file__).parent / "differs.json").read_text())
    differs = {(one["file"], one["case"]): one["why"] for one in listed}
    results = []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        outcomes = pool.map(lambda one: run(options.quire, spec, one[1], one[2]), work)
        for (path, sections, name), (kind, why) in zip(work, outcomes):
            if kind in ("wrong", "error") and (path, name) not in differs:
                kind, why = run(options.quire, spec, sections, name)
            if kind in ("wrong", "refused") and (path, name) in differs:
                kind, why = "differs", f"{differs[path, name]} ({why})"
            results.append({"file": path, "case": name, "outcome": kind, "why": why})
            if kind in ("wrong", "error") or options.only and kind != "passed":
                print(f"{kind:8} {path}: {name}\n         {why}")
    if options.out:
        options.out.write_text("".join(json.dumps(one) + "\n" for one in results))
    folders = collections.defaultdict(collections.Counter)
    for one in results:
        folders[one["file"].split("/")[0]][one["outcome"]] += 1
    kinds = ["passed", "skipped", "refused", "wrong", "error", "differs"]
    print(f"{'folder':32}" + "".join(f"{kind:>9}" for kind in kinds))
    for folder, counts in sorted(folders.items()):
        print(f"{folder:32}" + "".join(f"{counts[kind]:9}" for kind in kinds))
    total = collections.Counter(one["outcome"] for one in results)
    print(f"{'all':32}" + "".join(f"{total[kind]:9}" for kind in kinds))
    outcomes = {(one["file"], one["case"]): one["outcome"] for one in results}
    idle = [(one["file"], one["case"]) for one in listed if not one.get("sometimes")]
    idle = [case for case in idle if outcomes.get(case) not in ("differs", "error")]
    if options.only or options.case:
        idle = [case for case in idle if case in outcomes]
    for path, name in idle:
        print(f"differs.json lists {path}: {name}, which is {outcomes.get((path, name), 'absent')}")
    is_good = total["passed"] >= options.passed and not total["wrong"] and not total["error"]
    return 0 if is_good and not idle else 1


if __name__ == "__main__":
    main()
