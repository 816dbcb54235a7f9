"""One case of OpenSearch's REST tests, and what came of it."""

import json
import re

import yaml

from spec import MissingParameter, encode, is_pattern, pattern

VERSION = (0, 2, 19, 0)
FEATURES = {
    "allowed_warnings", "arbitrary_key", "close_to", "contains", "default_shards",
    "embedded_stash_key", "headers", "is_true_after_update", "node_selector", "regex",
    "stash_in_key", "stash_in_path", "stash_path_replace", "transform_and_set", "warnings",
    "yaml", "catch_unauthorized",
}
STATUSES = {
    "bad_request": {400}, "unauthorized": {401}, "forbidden": {403}, "missing": {404},
    "request_timeout": {408}, "conflict": {409}, "unavailable": {503},
}


class Outcome(Exception):
    """A case that did not pass: `kind` is skipped, refused, wrong or error."""

    def __init__(self, kind: str, why: str):
        super().__init__(why)
        self.kind = kind
        self.why = why


class Loader(yaml.SafeLoader):
    """YAML as Jackson reads it: no dates, no `yes` and `no`, no numbers of base 60."""


Loader.yaml_implicit_resolvers = {}
for tag, text, first in [
    ("null", r"^(?:~|null|Null|NULL|)$", ["~", "n", "N", ""]),
    ("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", list("tTfF")),
    ("int", r"^[-+]?[0-9]+$", list("-+0123456789")),
    ("float", r"^[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?$",
     list("-+.0123456789")),
]:
    Loader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(text), first)
Loader.add_constructor("tag:yaml.org,2002:int", lambda l, n: int(l.construct_scalar(n)))
Loader.add_constructor("tag:yaml.org,2002:float", lambda l, n: float(l.construct_scalar(n)))


def text_keys(value: object) -> object:
    """The value with every key as text, as JSON has them."""
    if isinstance(value, dict):
        return {key_text(key): text_keys(one) for key, one in value.items()}
    if isinstance(value, list):
        return [text_keys(one) for one in value]
    return value


def key_text(key: object) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    return "null" if key is None else str(key)


def load(text: str) -> dict:
    """The sections of a file: setup, teardown and its cases, by name."""
    sections = {}
    for document in yaml.load_all(text, Loader):
        for name, steps in (document or {}).items():
            sections[str(name)] = text_keys(steps)
    return sections


def below(version: str) -> tuple:
    """A version in its order. Those of Elasticsearch (4 to 7) come before OpenSearch 1.0."""
    parts = [int(part) for part in re.findall(r"\d+", version)[:3]]
    parts += [0] * (3 - len(parts))
    return (-1, *parts) if parts[0] in range(4, 8) else (0, *parts)


def in_range(text: str) -> bool:
    """Whether the version of the cases is in one of the ranges, as ` - 2.7.99 , 3.0.0 - `."""
    if text.strip() == "all":
        return True
    for part in text.split(","):
        low, _, high = part.partition("-")
        if (not low.strip() or below(low) <= VERSION) and (
            not high.strip() or VERSION <= below(high)
        ):
            return True
    return False


class Case:
    """Runs the steps of a case against one server."""

    def __init__(self, spec, client):
        self.spec = spec
        self.client = client
        self.stash = {}
        self.last = None

    def run(self, steps: list) -> None:
        for step in steps or []:
            (kind, argument), = step.items()
            getattr(self, "step_" + kind)(argument)

    def step_skip(self, argument: dict) -> None:
        features = argument.get("features", [])
        features = [features] if isinstance(features, str) else features
        names = {name.strip() for one in features for name in one.split(",")}
        if names - FEATURES:
            raise Outcome("skipped", f"features {sorted(names - FEATURES)}")
        if "version" in argument and in_range(str(argument["version"])):
            raise Outcome("skipped", f"version {argument['version']}")

    def step_do(self, argument: dict) -> None:
        argument = dict(argument)
        catch = argument.pop("catch", None)
        if catch == "param":
            # OpenSearch's own runner sends nothing either: it is about what a client checks.
            return
        headers = argument.pop("headers", {})
        warnings = argument.pop("warnings", []) + argument.pop("warnings_regex", [])
        warnings += argument.pop("allowed_warnings", [])
        warnings += argument.pop("allowed_warnings_regex", [])
        argument.pop("node_selector", None)
        (name, arguments), = argument.items()
        arguments = self.resolved(arguments or {})
        ignored = arguments.pop("ignore", [])
        ignored = {int(one) for one in (ignored if isinstance(ignored, list) else [ignored])}
        try:
            method, target, body = self.spec.request(name, arguments)
        except MissingParameter as error:
            raise Outcome("wrong", f"the runner: {error}") from None
        data, media = encode(name, body)
        sent = dict(self.resolved(headers))
        if media and not any(key.lower() == "content-type" for key in sent):
            sent["Content-Type"] = media
        status, found, answer = self.client.send(method, target, data, sent)
        text = f"{method} {target} -> {status}"
        if method == "HEAD":
            self.last = status == 200
            if status == 404:
                status = 200
        else:
            self.last = decoded(found, answer)
        said = self.last if isinstance(self.last, str) else json.dumps(self.last)
        if status >= 500 and status not in (501, 503):
            raise Outcome("error", f"{text}: {said[:400]}")
        if catch is None:
            if status >= 400 and status not in ignored:
                raise Outcome("refused", f"{text}: {said[:400]}")
            unknown = [one for one in self.client.warnings if one not in warnings]
            if unknown and not warnings:
                raise Outcome("wrong", f"{text} warns: {unknown}")
            return
        catch = str(catch).strip()
        if catch in STATUSES:
            good = status in STATUSES[catch]
        elif catch == "request":
            good = status >= 400
        elif is_pattern(catch):
            whole = f"method [{method}] status line [HTTP/1.1 {status}]\n{said}"
            # White space in it counts, unlike in that of a value.
            wanted = pattern(catch, 0)
            good = status >= 400 and bool(
                wanted.search(whole) or wanted.search(whole.replace('\\"', '"'))
            )
        else:
            raise Outcome("skipped", f"catch {catch}")
        if not good:
            kind = "refused" if status >= 400 else "wrong"
            raise Outcome(kind, f"{text}: {said[:400]}; expected {catch}")

    def step_set(self, argument: dict) -> None:
        for path, name in argument.items():
            self.stash[name] = self.at(path)

    step_transform_and_set = None

    def step_match(self, argument: dict) -> None:
        for path, expected in argument.items():
            actual, expected = self.at(path), self.resolved(expected)
            if is_pattern(expected):
                good = isinstance(actual, (str, int, float)) and bool(
                    pattern(expected).search(str(actual))
                )
            else:
                good = equal(actual, expected)
            if not good:
                raise Outcome("wrong", f"{path} is {shown(actual)}, expected {shown(expected)}")

    def step_is_true(self, path: str) -> None:
        actual = self.at(str(path))
        if actual in (None, "", False, "false", 0, "0") and not isinstance(actual, (list, dict)):
            raise Outcome("wrong", f"{path} is {shown(actual)}, expected to be true")

    def step_is_false(self, path: str) -> None:
        actual = self.at(str(path))
        if not (actual is None or actual in ("", False, "false", 0, "0")):
            raise Outcome("wrong", f"{path} is {shown(actual)}, expected to be false")

    def step_length(self, argument: dict) -> None:
        for path, expected in argument.items():
            actual = self.at(path)
            expected = int(self.resolved(expected))
            if not isinstance(actual, (str, list, dict)) or len(actual) != expected:
                raise Outcome("wrong", f"length of {path}: {shown(actual)}, expected {expected}")

    def step_contains(self, argument: dict) -> None:
        for path, expected in argument.items():
            actual, expected = self.at(path), self.resolved(expected)
            if isinstance(actual, list) and isinstance(expected, dict):
                good = any(
                    isinstance(one, dict)
                    and all(key in one and equal(one[key], expected[key]) for key in expected)
                    for one in actual
                )
            else:
                good = actual is not None and expected in actual
            if not good:
                raise Outcome("wrong", f"{path} is {shown(actual)}, lacks {shown(expected)}")

    def step_close_to(self, argument: dict) -> None:
        for path, about in argument.items():
            actual = self.at(path)
            if not number(actual) or abs(actual - about["value"]) > about["error"]:
                raise Outcome("wrong", f"{path} is {shown(actual)}, expected {about}")

    def step_gt(self, argument: dict) -> None:
        self.compared(argument, lambda a, b: a > b, "greater than")

    def step_gte(self, argument: dict) -> None:
        self.compared(argument, lambda a, b: a >= b, "at least")

    def step_lt(self, argument: dict) -> None:
        self.compared(argument, lambda a, b: a < b, "less than")

    def step_lte(self, argument: dict) -> None:
        self.compared(argument, lambda a, b: a <= b, "at most")

    def compared(self, argument: dict, holds, words: str) -> None:
        for path, expected in argument.items():
            actual, expected = self.at(path), self.resolved(expected)
            if type(expected) is str:
                actual = str(actual)
            if actual is None or not holds(actual, expected):
                raise Outcome("wrong", f"{path} is {shown(actual)}, expected {words} {expected}")

    def at(self, path: str) -> object:
        """What the last answer has at a dotted path; nothing where it has none."""
        if path.startswith("$") and path != "$body" and not path.startswith("$body."):
            return self.resolved(path)
        if path == "$body" or path == "":
            return self.last
        path = path.removeprefix("$body.")
        value = self.last
        for part in re.split(r"(?<!\\)\.", path):
            part = str(self.resolved(part.replace("\\.", ".")))
            if isinstance(value, dict):
                if part == "_arbitrary_key_":
                    return next(iter(value), None)
                value = value.get(part)
            elif isinstance(value, list):
                if not part.isdigit() or int(part) >= len(value):
                    return None
                value = value[int(part)]
            else:
                return None
        return value

    def resolved(self, value: object) -> object:
        """The value with what earlier answers left under names that begin with `$`."""
        if isinstance(value, str) and "$" in value:
            whole = re.fullmatch(r"\$\{?([A-Za-z_][\w-]*)\}?", value)
            if whole and whole[1] in self.stash:
                return self.stash[whole[1]]
            return re.sub(
                r"\$\{([^}]+)\}", lambda m: str(self.stash.get(m[1], m[0])), value
            )
        if isinstance(value, dict):
            return {self.resolved(key): self.resolved(one) for key, one in value.items()}
        if isinstance(value, list):
            return [self.resolved(one) for one in value]
        return value


def number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def equal(actual: object, expected: object) -> bool:
    if number(actual) and number(expected):
        return float(actual) == float(expected)
    if isinstance(actual, dict) and isinstance(expected, dict):
        return actual.keys() == expected.keys() and all(
            equal(actual[key], expected[key]) for key in actual
        )
    if isinstance(actual, list) and isinstance(expected, list):
        return len(actual) == len(expected) and all(map(equal, actual, expected))
    if isinstance(actual, str) and number(expected):
        return actual == str(expected)
    return type(actual) is type(expected) and actual == expected


def shown(value: object) -> str:
    return json.dumps(value)[:300]


def decoded(media: str, answer: bytes) -> object:
    """The answer as the cases see it: JSON and YAML as values, all else as text."""
    text = answer.decode("utf-8", "replace")
    if "json" in media:
        return json.loads(text) if text else None
    if "yaml" in media:
        return text_keys(yaml.load(text, Loader))
    return text
