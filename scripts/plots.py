#!/usr/bin/env python3
"""Draws the plots of the documentation, and fills the tables of docs/PERFORMANCE.md.

Both come from docs/results/*.json, which the benchmarks write (`--json FILE`).

    scripts/plots.py            writes docs/img/*.svg and the tables
    scripts/plots.py --check    writes nothing; exit code 1 if a file would change

A table stands between `<!-- table RESULTS: PHASE | UNIT; … -->` and `<!-- end of table -->`.
Standard library only.
"""

import json
import math
import re
import sys
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs/results"
IMAGES = ROOT / "docs/img"
PAGE = ROOT / "docs/PERFORMANCE.md"

ENGINES = {
    "quire": "Quire",
    "leveldb": "LevelDB",
    "rocksdb": "RocksDB",
    "lmdb": "LMDB",
    "sqlite": "SQLite",
    "lucene": "Lucene",
    "opensearch": "OpenSearch",
    "h2": "H2",
}

STYLE = """
  .page { fill: #ffffff; stroke: #d0d7de; }
  text { font-family: -apple-system, "Segoe UI", Helvetica, Arial, "DejaVu Sans", sans-serif; fill: #1f2328; }
  .title { font-size: 14px; font-weight: 600; }
  .note { font-size: 11.5px; fill: #59636e; }
  .label { font-size: 12px; }
  .value { font-size: 12px; }
  .strong { font-weight: 600; }
  .subject { fill: #1f6feb; }
  .peer { fill: #a8b3bf; }
  .spread { stroke: #1f2328; stroke-width: 1.2; }
  .aim { stroke: #bc4c00; stroke-width: 1.2; stroke-dasharray: 4 3; }
  .aimtext { font-size: 11px; fill: #bc4c00; }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117; stroke: #3d444d; }
    text { fill: #f0f6fc; }
    .note { fill: #9198a1; }
    .subject { fill: #4493f8; }
    .peer { fill: #656c76; }
    .spread { stroke: #f0f6fc; }
    .aim { stroke: #f0883e; }
    .aimtext { fill: #f0883e; }
  }
"""


def load(name):
    return json.loads((RESULTS / f"{name}.json").read_text())


def short(value):
    """Three digits are what a measurement is good for."""
    if value >= 100:
        return f"{value:,.0f}"
    if value >= 10:
        return f"{value:.1f}".removesuffix(".0")
    return f"{value:.2f}"


def spread(figure):
    if figure is None:
        return ""
    if "median" not in figure:
        return f"{short(figure['least'])} to {short(figure['most'])}"
    middle = short(figure["median"])
    if figure["least"] == figure["most"]:
        return middle
    return f"{middle} ({short(figure['least'])} to {short(figure['most'])})"


def middle(figure):
    """The median, or the middle of what is known."""
    return figure.get("median", (figure["least"] + figure["most"]) / 2)


def find(results, name, unit):
    for phase in results["phases"]:
        if phase["name"] == name and phase["unit"] == unit:
            return phase
    raise SystemExit(f"{results['benchmark']}.json has no phase '{name}' in '{unit}'")


def bars_of(source, name, unit):
    """The bars of one phase: the subject first, then its peers."""
    results = load(source)
    phase = find(results, name, unit)
    named = ENGINES.get(results["subject"].lower(), results["subject"])
    bars = [(named, phase, True)]
    for peer, figure in phase.get("peers", {}).items():
        bars.append((ENGINES.get(peer, peer), figure, False))
    return bars


def phases_of(source, rows):
    """One bar a phase, for a figure without peers: (label, name, unit)."""
    results = load(source)
    return [(label, find(results, name, unit), True) for label, name, unit in rows]


class Panel:
    """Horizontal bars under a title. `log` for what differs by orders of magnitude."""

    ROW = 22
    HEAD = 44

    def __init__(self, title, note, bars, unit="", log=False, aim=None, aim_text="aim", label=112):
        self.title, self.note, self.bars, self.unit = title, note, bars, unit
        self.log, self.aim, self.aim_text, self.label = log, aim, aim_text, label

    def height(self):
        return self.HEAD + self.ROW * len(self.bars) + (16 if self.aim else 4)

    def draw(self, x, y, width):
        values = [figure["most"] for _, figure, _ in self.bars]
        ends = values + ([self.aim] if self.aim else [])
        room = width - self.label - 78
        low = min(figure["least"] for _, figure, _ in self.bars) / 3
        scale = (
            (lambda value: room * math.log(value / low) / math.log(max(ends) / low))
            if self.log
            else (lambda value: room * value / max(ends))
        )
        out = [
            f'<text class="title" x="{x}" y="{y + 14}">{escape(self.title)}</text>',
            f'<text class="note" x="{x}" y="{y + 31}">{escape(self.note)}</text>',
        ]
        left = x + self.label
        for index, (name, figure, is_subject) in enumerate(self.bars):
            top = y + self.HEAD + self.ROW * index
            line = top + 12
            length = max(scale(middle(figure)), 1.5)
            kind = "subject" if is_subject else "peer"
            weight = " strong" if is_subject else ""
            out.append(
                f'<text class="label{weight}" x="{left - 8}" y="{line}" text-anchor="end">{escape(name)}</text>'
            )
            out.append(f'<rect class="{kind}" x="{left}" y="{top + 1}" width="{length:.1f}" height="15" rx="2"/>')
            end = length
            if figure["most"] > figure["least"]:
                a, b = scale(figure["least"]), scale(figure["most"])
                out.append(f'<path class="spread" d="M{left + a:.1f} {top + 8.5}H{left + b:.1f}"/>')
                end = max(end, b)
            text = short(middle(figure)) + (f" {self.unit}" if self.unit else "")
            if self.aim and end - 4 < scale(self.aim) < end + 8 * len(text) + 6:
                end = scale(self.aim)
            out.append(f'<text class="value{weight}" x="{left + end + 6:.1f}" y="{line}">{escape(text)}</text>')
        if self.aim:
            at = left + scale(self.aim)
            bottom = y + self.HEAD + self.ROW * len(self.bars)
            out.append(f'<path class="aim" d="M{at:.1f} {y + self.HEAD - 4}V{bottom}"/>')
            out.append(
                f'<text class="aimtext" x="{at:.1f}" y="{bottom + 12}" text-anchor="middle">{escape(self.aim_text)}</text>'
            )
        return out


def svg(panels, columns=1, width=760):
    """Panels in rows of `columns`, as one picture."""
    pad, gap = 20, 24
    column = (width - 2 * pad - gap * (columns - 1)) / columns
    rows = [panels[at : at + columns] for at in range(0, len(panels), columns)]
    y, body = pad, []
    for row in rows:
        for index, panel in enumerate(row):
            body += panel.draw(round(pad + index * (column + gap), 1), y, column)
        y += max(panel.height() for panel in row) + 12
    height = y - 12 + pad - 6
    names = "; ".join(panel.title for panel in panels)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{escape(names)}">\n<style>{STYLE}</style>\n'
        f'<rect class="page" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="6"/>\n'
        + "\n".join(body)
        + "\n</svg>\n"
    )


def plots():
    """Every plot: file name and picture."""
    def kv(title, name, unit, note, shown, log=False):
        return Panel(title, note, bars_of("kv", name, unit), shown, log=log)

    def within(title, name, unit, shown):
        return Panel(title, "10 million keys within 512 MiB; less is better", bars_of("kv-512mib", name, unit), shown)

    def aims(title, note, source, rows, aim, unit="×", aim_text="aim", label=250):
        return Panel(title, note, phases_of(source, rows), unit, aim=aim, aim_text=aim_text, label=label)

    return {
        "results": svg(
            [
                Panel(
                    "Search 1 million adverts",
                    "p50, µs; less is better",
                    bars_of("snapshot-cars", "newest of a mark and price in a region, 1 thread, p50", "µs"),
                    label=66,
                ),
                Panel(
                    "Write 10 million keys",
                    "until all is settled, s; less is better",
                    bars_of("kv", "write, settled", "wall s"),
                    label=66,
                ),
                Panel(
                    "Serve documents by key",
                    "memcached protocol, 1,000/s; more is better",
                    [
                        (name, {key: figure[key] / 1000 for key in ("median", "least", "most")}, is_subject)
                        for name, figure, is_subject in bars_of("memcached", "one key", "requests/s")
                    ],
                    label=78,
                ),
            ],
            columns=3,
            width=900,
        ),
        "docstore": svg(
            [
                aims(
                    "Loading, times as fast as updates in place",
                    "10 million documents, 11 GB of JSON; by size of the segments that are updated in place",
                    "docstore",
                    [
                        (f"{count:,} documents, {place}", f"{count} documents a segment, {place}", "loading, times as fast")
                        for count in (1000, 10000)
                        for place in ("in memory", "on disk")
                    ],
                    300,
                    label=215,
                )
            ]
        ),
        "gets": svg(
            [
                Panel(
                    "Documents a second by key",
                    "in the process, random keys, every document compared",
                    phases_of(
                        "gets",
                        [
                            (name, name, "documents/s")
                            for name in (
                                "data in memory, 1 thread",
                                "data in memory, 2 threads",
                                "data in memory, multi-get, 2 threads",
                                "data 4 × memory, 2 threads",
                            )
                        ],
                    ),
                    label=270,
                )
            ]
        ),
        "memcached": svg(
            [
                aims(
                    "Requests a second, of memcached's",
                    "the same client, the same documents, by turns; the median and the spread of 7 pairs",
                    "memcached",
                    [
                        ("one key", "one key", "ratio to memcached"),
                        ("one key, 16 pipelined", "one key, 16 pipelined", "ratio to memcached"),
                        ("20 keys", "20 keys", "ratio to memcached"),
                    ],
                    0.8,
                    label=150,
                )
            ]
        ),
        "kv": svg(
            [
                kv("Write 10 million keys", "write, settled", "wall s", "until all is settled; less is better", "s"),
                kv("Longest write", "write, longest", "ms", "of 10 million, logarithmic; less is better", "ms", log=True),
                kv("Read 1 million keys", "read", "CPU s", "one thread, random order; less is better", "CPU s"),
                kv("Read by 2 threads", "read, 2 threads", "wall s", "1 million keys; less is better", "s"),
                kv("Missing keys", "missing", "CPU s", "1 million; less is better", "CPU s"),
                kv("Scan 10 million keys", "scan", "CPU s", "in order; less is better", "CPU s"),
                kv(
                    "Bytes written to disk",
                    "bytes written to disk / user bytes",
                    "ratio",
                    "per byte of the user; less is better",
                    "×",
                ),
                kv("First reads after opening", "cold reads, p50", "µs", "p50, nothing cached; less is better", "µs"),
            ],
            columns=2,
        ),
        "kv-lmdb": svg(
            [
                aims(
                    "Times better than LMDB",
                    "10 million keys; the median and the spread of three rounds",
                    "kv-lmdb",
                    [
                        (what, f"{what}: times better than LMDB", "ratio")
                        for what in (
                            "read, CPU s",
                            "read, wall s",
                            "read, 2 threads, CPU s",
                            "read, 2 threads, wall s",
                            "missing, CPU s",
                            "scan, CPU s",
                        )
                    ],
                    1,
                    aim_text="as LMDB",
                    label=170,
                )
            ]
        ),
        "kv-512mib": svg(
            [
                within("Write, settled", "write, settled", "wall s", "s"),
                within("Read 50,000 keys", "read", "wall s", "s"),
                within("Read 50,000 keys, 2 threads", "read, 2 threads", "wall s", "s"),
                within("Scan", "scan", "wall s", "s"),
            ],
            columns=2,
        ),
        "kv-load": svg(
            [
                Panel(
                    "Bulk load of 2 million keys",
                    "CPU until settled; less is better",
                    bars_of("kv-load", "write, settled", "CPU s"),
                    "s",
                ),
                Panel(
                    "Bytes written to disk",
                    "per byte of the user; less is better",
                    bars_of("kv-load", "bytes written to disk / user bytes", "ratio"),
                    "×",
                ),
            ],
            columns=2,
        ),
        "snapshot": svg(
            [
                Panel(
                    title,
                    "mean, µs, logarithmic; 1 million documents; less is better",
                    bars_of("snapshot", name, "µs"),
                    "µs",
                    log=True,
                )
                for title, name in (
                    ("Count by one field", "one field, mean"),
                    ("Count by two fields", "two fields, mean"),
                )
            ],
            columns=2,
        ),
        "snapshot-cars": svg(
            [
                Panel(title, "p50, µs, one thread; less is better", bars_of("snapshot-cars", f"{name}, 1 thread, p50", "µs"), "µs")
                for title, name in (
                    ("Count a region", "count a region"),
                    ("Newest 10 of a mark and price, a region", "newest of a mark and price in a region"),
                    ("Newest 10 of a mark and price, anywhere", "newest of a mark and price"),
                    ("Count marks, not a colour, years", "count marks, not a colour, years"),
                )
            ],
            columns=2,
        ),
        "codecs": svg(
            [
                Panel(
                    "Bytes of the log, of the JSON's",
                    "146,403 records of papers; less is better",
                    phases_of(
                        "codecs",
                        [
                            (name, name, "log / JSON bytes")
                            for name in (
                                "none, 16 KiB",
                                "lz4, 16 KiB",
                                "zstd, 16 KiB",
                                "zstd, 16 KiB, dictionary 64 KiB",
                                "lz4, 4 KiB",
                                "zstd, 4 KiB",
                                "zstd, 4 KiB, dictionary 64 KiB",
                                "zstd, 64 KiB",
                            )
                        ],
                    ),
                    label=220,
                )
            ]
        ),
        "backup": svg(
            [
                aims(
                    "Rate of writes with a backup, of that without",
                    "25 pairs each: the median and the spread",
                    "backup",
                    [
                        ("sync", "sync, with a backup", "rate, of the rate alone"),
                        ("none", "none, with a backup", "rate, of the rate alone"),
                    ],
                    0.9,
                    unit="",
                    label=80,
                )
            ]
        ),
        "follow": svg(
            [
                Panel(
                    "Lag of a follower",
                    "20,000 updates a second at the leader; less is better",
                    phases_of("follow", [("p50", "lag, p50", "ms"), ("p99", "lag, p99", "ms"), ("worst", "lag, worst", "ms")]),
                    "ms",
                    label=60,
                ),
                aims(
                    "Catching up",
                    "times the live rate, after 10 s away",
                    "follow",
                    [("rate", "caught up, of the live rate", "ratio")],
                    5,
                    label=60,
                ),
            ],
            columns=2,
        ),
        "overwrites": svg(
            [
                aims(
                    "Bytes of the log, of the live bytes",
                    "while documents are overwritten at full rate",
                    "overwrites",
                    [("log / live", "log bytes / live bytes", "ratio")],
                    1.5,
                    aim_text="at most",
                    label=80,
                ),
                aims(
                    "p99 of a get, of that without compaction",
                    "beside 10,000 overwrites a second",
                    "overwrites",
                    [("get, p99", "get beside overwrites, p99, of that without", "ratio")],
                    2,
                    aim_text="at most",
                    label=80,
                ),
            ],
            columns=2,
        ),
    }


TABLE = re.compile(r"(<!-- table ([\w-]+): (.*?) -->\n).*?(<!-- end of table -->)", re.DOTALL)


def table(match):
    head, source, wanted, end = match.groups()
    results = load(source)
    rows = []
    for row in wanted.split(";"):
        name, unit = (part.strip() for part in " ".join(row.split()).rsplit("|", 1))
        rows.append(find(results, name, unit))
    peers = list(dict.fromkeys(peer for row in rows for peer in row.get("peers", {})))
    has_aim = any("aim" in row for row in rows)
    subject = ENGINES.get(results["subject"].lower(), results["subject"])
    columns = ["", subject, *(ENGINES.get(peer, peer) for peer in peers), *(["aim"] if has_aim else [])]
    lines = ["| " + " | ".join(columns) + " |", "| --- |" + " ---: |" * (len(columns) - 1)]
    for row in rows:
        unit = "" if row["unit"] == "ratio" else f", {row['unit']}"
        cells = [row["name"] + unit, spread({key: row[key] for key in ("median", "least", "most") if key in row})]
        cells += [spread(row.get("peers", {}).get(peer)) for peer in peers]
        if has_aim:
            bound = "at most" if row["better"] == "less" else "at least"
            cells.append(f"{bound} {row['aim']:,}" if "aim" in row else "")
        lines.append("| " + " | ".join(cells) + " |")
    return head + "\n".join(lines) + "\n" + end


def main():
    check = sys.argv[1:] == ["--check"]
    page = PAGE.read_text()
    files = {PAGE: TABLE.sub(table, page)}
    for name, picture in plots().items():
        files[IMAGES / f"{name}.svg"] = picture
    stale = [path for path, text in files.items() if not path.exists() or path.read_text() != text]
    for path in stale:
        print(("differs from the results: " if check else "wrote ") + str(path.relative_to(ROOT)))
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(files[path])
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
