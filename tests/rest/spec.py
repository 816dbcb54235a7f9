"""The description of OpenSearch's REST API: which request a call of its cases is."""

import json
import re
import urllib.parse
from pathlib import Path


class MissingParameter(Exception):
    """A call lacks a part of its path. A client says so before it sends anything."""


class Spec:
    """The `api/*.json` files, by the name of the call."""

    def __init__(self, folder: Path):
        self.calls = {}
        self.everywhere = set()
        for file in folder.glob("*.json"):
            for name, call in json.loads(file.read_text()).items():
                if name == "params" or file.stem == "_common":
                    self.everywhere |= set(call if name == "params" else [])
                else:
                    self.calls[name] = call

    def request(self, name: str, arguments: dict) -> tuple[str, str, object]:
        """Method, target with its query, and body of the call `name`.

        `arguments` are those of the case, with `body` among them.
        """
        call = self.calls[name]
        arguments = dict(arguments)
        body = arguments.pop("body", None)
        paths = call["url"]["paths"]
        fitting = [p for p in paths if set(p.get("parts", {})) <= set(arguments)]
        fitting = [p for p in fitting if all(arguments[part] != "" for part in p.get("parts", {}))]
        # A deprecated path is only for those who name its parts.
        fitting.sort(key=lambda p: (len(p.get("parts", {})), "deprecated" not in p), reverse=True)
        if not fitting:
            raise MissingParameter(f"{name} lacks parts of its path: {sorted(arguments)}")
        path = fitting[0]
        missing = [
            part
            for part, about in fitting[0].get("parts", {}).items()
            if about.get("required") and part not in arguments
        ]
        if missing or (body is None and call.get("body", {}).get("required") is True):
            raise MissingParameter(f"{name} lacks {missing or ['body']}")
        methods = path["methods"]
        method = methods[0]
        if method == "GET" and body is not None and "POST" in methods:
            method = "POST"
        target = path["path"]
        for part in path.get("parts", {}):
            value = as_text(arguments.pop(part))
            target = target.replace("{" + part + "}", urllib.parse.quote(value, safe=",*-_.<>"))
        known = set(call["url"].get("params", call.get("params", {})))
        known |= set(call.get("params", {})) | self.everywhere
        unknown = set(arguments) - known
        if unknown:
            raise MissingParameter(f"{name} has no parameter {sorted(unknown)}")
        if arguments:
            pairs = [(key, as_text(value)) for key, value in arguments.items()]
            target += "?" + urllib.parse.urlencode(pairs)
        return method, target, body


def as_text(value: object) -> str:
    """A value of a case as it stands in a path or a query."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ",".join(as_text(one) for one in value)
    if value is None:
        return ""
    return str(value)


def encode(name: str, body: object) -> tuple[bytes | None, str | None]:
    """The body as bytes, and its media type."""
    if body is None:
        return None, None
    lines = name in ("bulk", "msearch", "msearch_template")
    if isinstance(body, list) and lines:
        parts = [one if isinstance(one, str) else json.dumps(one) for one in body]
        return ("\n".join(part.strip("\n") for part in parts) + "\n").encode(), "application/json"
    if isinstance(body, str):
        if lines:
            return (body.rstrip("\n") + "\n").encode(), "application/json"
        return body.encode(), "application/json"
    return json.dumps(body).encode(), "application/json"


def is_pattern(expected: object) -> bool:
    """Whether an expected value is a regular expression between slashes."""
    if not isinstance(expected, str):
        return False
    text = expected.strip()
    return len(text) > 1 and text.startswith("/") and text.endswith("/")


def pattern(expected: str, flags: int = re.VERBOSE) -> re.Pattern:
    """The regular expression of an expected value: white space and comments are not part of it,
    by default."""
    text = expected.strip()[1:-1].replace("\\/", "/")
    text = re.sub(r"(\\p\{Alpha\}|\\p\{L\})", "[A-Za-z]", text)
    return re.compile(text, flags | re.DOTALL if "\n" in text else flags)
