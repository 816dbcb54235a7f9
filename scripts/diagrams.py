#!/usr/bin/env python3
"""Draws the diagrams of README.md and docs/ARCHITECTURE.md into docs/img/.

    scripts/diagrams.py            writes the pictures
    scripts/diagrams.py --check    writes nothing; exit code 1 if one would change

Standard library only.
"""

import sys
from html import escape
from pathlib import Path

IMAGES = Path(__file__).resolve().parent.parent / "docs/img"

STYLE = """
  .page { fill: #ffffff; stroke: #d0d7de; }
  text { font-family: -apple-system, "Segoe UI", Helvetica, Arial, "DejaVu Sans", sans-serif; fill: #1f2328; }
  .head { font-size: 13px; font-weight: 600; }
  .text { font-size: 12px; }
  .note { font-size: 11px; fill: #59636e; }
  .box { fill: #f6f8fa; stroke: #afb8c1; }
  .core { fill: #ddf4ff; stroke: #54aeff; }
  .frame { fill: none; stroke: #54aeff; stroke-width: 1.5; }
  .lane { stroke: #d0d7de; stroke-dasharray: 3 3; }
  .arrow { stroke: #57606a; stroke-width: 1.3; fill: none; }
  .tip { fill: #57606a; }
  .back { stroke: #57606a; stroke-width: 1.3; fill: none; stroke-dasharray: 5 3; }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117; stroke: #3d444d; }
    text { fill: #f0f6fc; }
    .note { fill: #9198a1; }
    .box { fill: #151b23; stroke: #656c76; }
    .core { fill: #121d2f; stroke: #4493f8; }
    .frame { stroke: #4493f8; }
    .lane { stroke: #3d444d; }
    .arrow, .back { stroke: #9198a1; }
    .tip { fill: #9198a1; }
  }
"""


def page(width, height, title, body):
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{escape(title)}">\n<style>{STYLE}</style>\n'
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
        'orient="auto-start-reverse"><path class="tip" d="M0 0L8 4L0 8z"/></marker></defs>\n'
        f'<rect class="page" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="6"/>\n'
        + "\n".join(body)
        + "\n</svg>\n"
    )


def text(x, y, words, kind="text", anchor="start"):
    return f'<text class="{kind}" x="{x}" y="{y}" text-anchor="{anchor}">{escape(words)}</text>'


def box(x, y, width, height, head, lines=(), kind="box"):
    out = [f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="5"/>']
    top = y + height / 2 - 8 * len(lines) + 4.5
    out.append(text(x + width / 2, top, head, "head", "middle"))
    out += [text(x + width / 2, top + 16 * (at + 1), line, "note", "middle") for at, line in enumerate(lines)]
    return out


def arrow(path, kind="arrow"):
    return f'<path class="{kind}" d="{path}" marker-end="url(#tip)"/>'


def overview():
    """What goes in, what is kept, what comes out."""
    body = [text(90, 30, "Documents come in", "head", "middle"), text(800, 30, "Answers go out", "head", "middle")]
    sources = [
        ("quire load", "NDJSON, CSV, standard input"),
        ("HTTP", "OpenSearch's document API"),
        ("memcached protocol", "for today's caches"),
        ("Rust", "the crate quiredb"),
    ]
    for at, (head, line) in enumerate(sources):
        y = 44 + 56 * at
        body += box(16, y, 176, 46, head, [line])
        body.append(arrow(f"M192 {y + 23}H242"))
    body.append('<rect class="frame" x="244" y="14" width="404" height="262" rx="8"/>')
    body.append(text(446, 34, "Quire: one process, one directory", "head", "middle"))
    body += box(262, 48, 368, 62, "Log", ["every write is a record, durable when acknowledged;", "its position is the version"], "core")
    body.append(arrow("M446 110V138"))
    body.append(text(456, 128, "apply, in order", "note"))
    body += box(262, 140, 368, 58, "Trees", ["key → number → position in the log;", "memtables in memory, table files on disk"])
    body += box(262, 212, 368, 50, "One memory budget, checksums on every byte", ["writers are slowed before memory runs out"])
    answers = [
        ("get, multi-get, scan", "by key"),
        ("query", "filter, sort, facets, aggregates"),
        ("tail", "changes in order"),
        ("metrics, verify, repair", "for operations"),
    ]
    for at, (head, line) in enumerate(answers):
        y = 44 + 56 * at
        body += box(700, y, 184, 46, head, [line])
        body.append(arrow(f"M648 {y + 23}H698"))
    derived = [
        (150, "Followers", "copies that serve reads, live"),
        (360, "Frozen files", "immutable, with indexes"),
        (570, "Backups", "incremental, while writing"),
    ]
    for x, head, line in derived:
        body += box(x, 312, 192, 46, head, [line])
        body.append(arrow(f"M{x + 96} 276V310"))
    return page(900, 376, "Quire: documents come in, a log and trees keep them, answers go out", body)


def sequence(title, lanes, steps, width=900):
    """Lanes side by side; a step is (from, to, words), or (lane, None, words) for what a lane does alone."""
    gap = (width - 40) / len(lanes)
    middle = [20 + gap * (at + 0.5) for at in range(len(lanes))]
    at = {name: middle[index] for index, name in enumerate(lanes)}
    y, body = 78, []
    for start, to, words in steps:
        if to is None:
            lines = words.split("\n")
            height = 12 + 15 * len(lines)
            wide = max(len(line) for line in lines) * 6.3 + 16
            left = min(max(at[start] - wide / 2, 10), width - 10 - wide)
            body.append(f'<rect class="core" x="{left:.1f}" y="{y}" width="{wide:.1f}" height="{height}" rx="4"/>')
            for row, line in enumerate(lines):
                body.append(text(f"{left + wide / 2:.1f}", y + 17 + 15 * row, line, "note", "middle"))
            y += height + 12
        else:
            back = lanes.index(to) < lanes.index(start)
            y += 14
            body.append(arrow(f"M{at[start]:.1f} {y}H{at[to]:.1f}", "back" if back else "arrow"))
            body.append(text(f"{(at[start] + at[to]) / 2:.1f}", y - 5, words, "note", "middle"))
            y += 16
    height = y + 8
    head = []
    for index, name in enumerate(lanes):
        x = middle[index]
        head.append(f'<path class="lane" d="M{x:.1f} 56V{height - 12}"/>')
        head += box(x - 62, 26, 124, 30, name)
    return page(width, height, title, head + body)


def write():
    return sequence(
        "The life of a write",
        ["caller", "quiredb", "collection", "store", "log", "lsm"],
        [
            ("caller", "quiredb", "write_batch"),
            ("quiredb", "collection", "by partition"),
            ("collection", "store", "begin: writer lock"),
            ("collection", None, "decide each write against the newest state:\ncondition, docid, merged patch"),
            ("collection", "store", "records"),
            ("store", "log", "append one group"),
            ("log", None, "copy into the pending\nblock in memory"),
            ("store", "lsm", "apply each record"),
            ("lsm", None, "insert into\nmemtables"),
            ("store", None, "release the writer lock;\nwait here if memory is short"),
            ("store", "log", "acknowledge: sync"),
            ("log", None, "one fdatasync for all\nwriters that wait"),
            ("store", None, "publish the position:\nnew views see the write"),
            ("store", "caller", "versions"),
        ],
    )


def read():
    return sequence(
        "The life of a read",
        ["caller", "quiredb", "collection", "lsm", "log", "env"],
        [
            ("caller", "quiredb", "get(key)"),
            ("quiredb", "collection", "partition of the key"),
            ("collection", None, "take the published position and the current\nversions of trees and log: no lock"),
            ("collection", "lsm", "keys: key → docid"),
            ("lsm", None, "memtables, then runs, newest first:\nfilter page, index block, data block"),
            ("lsm", "env", "block cache, or read, check, decode"),
            ("collection", "lsm", "rows: docid → position"),
            ("collection", "log", "position → record"),
            ("log", None, "segment by base, block by index,\nrecord by the block's table"),
            ("log", "env", "cache, or read"),
            ("collection", None, "compare docid and key of the record\nwith what was looked up"),
            ("collection", "caller", "document, or an error"),
        ],
    )


def query():
    return sequence(
        "The life of a query",
        ["caller", "query: prepare", "query: plan", "shard", "query: merge"],
        [
            ("caller", "query: prepare", "text or builder"),
            ("query: prepare", None, "check depth and sizes; values become\nbytes that compare as the values do"),
            ("query: prepare", "query: plan", "for each shard"),
            ("query: plan", "shard", "statistics"),
            ("query: plan", None, "least and most documents of each condition;\na shard without a match is not read"),
            ("query: plan", "shard", "execute, cheapest first"),
            ("shard", None, "doc sets in place;\nordinals for sorting\nand counting"),
            ("shard", "query: merge", "hits, counts"),
            ("query: merge", None, "best hits over all\nshards; exact sums"),
            ("query: merge", "caller", "answer"),
        ],
    )


def crash():
    """What is on disk at a crash, and what opening makes of it."""
    body = [text(20, 30, "At the crash", "head"), text(20, 176, "At the next opening", "head")]
    body += box(20, 44, 250, 60, "Manifest", ["names the table files;", "they hold all records up to position A"])
    body += box(290, 44, 180, 60, "Table files", ["up to A; newer ones", "are orphans"])
    body += box(490, 44, 390, 60, "Log", ["", ""])
    for x, width, words, kind in ((500, 150, "up to A", "box"), (650, 130, "A + 1 to D: durable", "core"), (780, 90, "torn", "box")):
        body.append(f'<rect class="{kind}" x="{x}" y="70" width="{width}" height="26"/>')
        body.append(text(x + width / 2, 87, words, "note", "middle"))
    body.append(text(300, 136, "A flush writes tables first, then replaces the manifest by a rename:", "note"))
    body.append(text(300, 152, "after a crash the old one or the new one is there, whole.", "note"))
    steps = [
        ("1  Read the manifest", "compare its identity", "with its place"),
        ("2  Remove orphans", "files that it does", "not name"),
        ("3  Cut the torn tail", "or report damage, if it", "was once durable"),
        ("4  Compare ends", "a log that lost durable", "records is an error"),
        ("5  Replay", "apply records A + 1 to D", "to the memtables"),
    ]
    for at, (head, one, two) in enumerate(steps):
        x = 20 + 174 * at
        body += box(x, 204, 160, 68, head, [one, two], "core" if at == 4 else "box")
        if at:
            body.append(arrow(f"M{x - 14} 238H{x - 1}"))
    body.append(arrow("M165 104V202"))
    body.append(arrow("M715 104V180H800V202"))
    return page(900, 292, "What a crash leaves, and what opening does", body)


def main():
    check = sys.argv[1:] == ["--check"]
    pictures = {"overview": overview(), "write": write(), "read": read(), "query": query(), "crash": crash()}
    stale = False
    for name, picture in pictures.items():
        path = IMAGES / f"{name}.svg"
        if path.exists() and path.read_text() == picture:
            continue
        stale = True
        print(("differs: " if check else "wrote ") + path.name)
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(picture)
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
