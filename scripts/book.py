#!/usr/bin/env python3
"""What `make docs` needs beside mdbook.

    scripts/book.py                  a preprocessor of mdbook: a book on standard input and output
    scripts/book.py --check SITE     exit code 1 if a link between pages of the site leads nowhere

The README, CONTRIBUTING.md and CHANGELOG.md lie outside docs/, and become chapters of the site.
Links to other files outside docs/ (sources, examples) become plain text there.
"""

import json
import os
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
# Outside docs/, by its name in the site.
CHAPTERS = {"QUIRE.md": ROOT / "README.md", "CONTRIBUTING.md": ROOT / "CONTRIBUTING.md", "CHANGELOG.md": ROOT / "CHANGELOG.md"}
TITLES = {"QUIRE.md": "Start here", "CONTRIBUTING.md": "Contributing", "CHANGELOG.md": "Changelog"}
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")


def rewrite(content, source, page):
    """Links of the file `source`, as they are on the site's page `page`."""

    def target(match):
        bang, text, link = match.groups()
        path, mark, anchor = link.partition("#")
        if "://" in link or not path:
            return match.group(0)
        file = (source.parent / path).resolve()
        chapter = next((name for name, outside in CHAPTERS.items() if outside == file), None)
        if chapter is None and file == DOCS:
            chapter = "README.md"
        if chapter is None and (DOCS not in file.parents or file.is_dir()):
            return text
        to = Path(chapter or file.relative_to(DOCS))
        # mdbook makes index.html of a README.md.
        to = to.with_name("index.md") if to.name == "README.md" else to
        return f"{bang}[{text}]({os.path.relpath(to, Path(page).parent)}{mark}{anchor})"

    return LINK.sub(target, content)


def walk(items):
    for item in items:
        chapter = item.get("Chapter") if isinstance(item, dict) else None
        if chapter and chapter["path"]:
            source = DOCS / (chapter["source_path"] or chapter["path"])
            chapter["content"] = rewrite(chapter["content"], source, chapter["path"])
            walk(chapter["sub_items"])


def preprocess():
    _, book = json.load(sys.stdin)
    items = book["items"] if "items" in book else book["sections"]
    walk(items)
    outside = [
        {
            "Chapter": {
                "name": TITLES[name],
                "content": rewrite(source.read_text(), source, name),
                "number": None,
                "sub_items": [],
                "path": name,
                "source_path": None,
                "parent_names": [],
            }
        }
        for name, source in CHAPTERS.items()
    ]
    items[1:1] = outside[:1]
    items += outside[1:]
    json.dump(book, sys.stdout)


class Page(HTMLParser):
    """The links of a page, and what they may lead to in it."""

    def __init__(self):
        super().__init__()
        self.links, self.anchors = [], set()

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.anchors.update(value for value in (attributes.get("id"), attributes.get("name")) if value)
        link = attributes.get("href") or (tag in ("img", "script") and attributes.get("src"))
        if link:
            self.links.append(link)


def check(site):
    pages = {}
    for file in site.rglob("*.html"):
        pages[file.resolve()] = page = Page()
        page.feed(file.read_text())
    broken = []
    for file, page in pages.items():
        if file.name in ("404.html", "toc.html"):
            continue
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            to = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            to = to / "index.html" if to.is_dir() else to
            anchor = unquote(parts.fragment)
            if not to.exists() or anchor and to in pages and anchor not in pages[to].anchors:
                broken.append(f"{file.relative_to(site.resolve())}: {link}")
    print("\n".join(broken) if broken else f"{len(pages)} pages, every link leads somewhere")
    return 1 if broken else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--check"]:
        sys.exit(check(Path(sys.argv[2])))
    if sys.argv[1:2] == ["supports"]:
        sys.exit(0 if sys.argv[2] == "html" else 1)
    preprocess()
