"""Files of pyarrow, an independent writer of Parquet, loaded by `quire load`: PROGRAM SERVER."""

import base64
import datetime
import decimal
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import uuid

import pyarrow
import pyarrow.parquet as parquet

program, server = sys.argv[1:]
folder = pathlib.Path(tempfile.mkdtemp())


def quire(*arguments):
    command = [program, *map(str, arguments)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)


def ok(*arguments):
    done = quire(*arguments)
    assert done.returncode == 0, (arguments, done.stdout, done.stderr)
    return done.stdout


def refused(*arguments):
    done = quire(*arguments)
    assert done.returncode != 0, (arguments, done.stdout)
    assert "panicked" not in done.stderr and "bug" not in done.stderr, done.stderr
    return done.stderr


def documents(database, collection):
    lines = ok("scan", database, collection).splitlines()
    return [json.loads(line, parse_float=str) for line in lines]


def every_type():
    moment = datetime.datetime(2024, 2, 29, 23, 59, 58, 123456)
    third = decimal.Decimal("-0.01")
    columns = {
        "_id": (pyarrow.int64(), [1, 2, 3], [1, 2, 3]),
        "flag": (pyarrow.bool_(), [True, None, False], [True, None, False]),
        "small": (pyarrow.int8(), [-128, None, 127], [-128, None, 127]),
        "byte": (pyarrow.uint8(), [0, None, 255], [0, None, 255]),
        "unsigned": (pyarrow.uint32(), [0, None, 2**32 - 1], [0, None, 2**32 - 1]),
        "large": (pyarrow.uint64(), [0, None, 2**64 - 1], [0, None, 2**64 - 1]),
        "negative": (pyarrow.int64(), [-(2**63), None, 0], [-(2**63), None, 0]),
        "half": (pyarrow.float16(), [1.5, None, -0.25], ["1.5", None, "-0.25"]),
        "float": (pyarrow.float32(), [0.1, None, 1e10], ["0.1", None, "10000000000.0"]),
        "double": (pyarrow.float64(), [0.1, float("nan"), 1e300], ["0.1", None, "1e300"]),
        "price": (pyarrow.decimal128(9, 2), [third, None, decimal.Decimal("39.90")],
                  ["-0.01", None, "39.90"]),
        "exact": (pyarrow.decimal128(38, 4), [third, None, decimal.Decimal(10) ** 30],
                  ["-0.0100", None, "1" + "0" * 30 + ".0000"]),
        "wide": (pyarrow.decimal256(60, 1), [third * 10, None, decimal.Decimal(10) ** 50],
                 ["-0.1", None, "1" + "0" * 50 + ".0"]),
        "day": (pyarrow.date32(), [moment.date(), None, datetime.date(1066, 10, 14)],
                ["2024-02-29", None, "1066-10-14"]),
        "time_ms": (pyarrow.time32("ms"), [1, None, 86_399_999],
                    ["00:00:00.001", None, "23:59:59.999"]),
        "time_ns": (pyarrow.time64("ns"), [1, None, 0], ["00:00:00.000000001", None, "00:00:00"]),
        "local": (pyarrow.timestamp("us"), [moment, None, datetime.datetime(1969, 12, 31, 1)],
                  ["2024-02-29T23:59:58.123456", None, "1969-12-31T01:00:00"]),
        "utc": (pyarrow.timestamp("ms", tz="UTC"), [1, None, 0],
                ["1970-01-01T00:00:00.001Z", None, "1970-01-01T00:00:00Z"]),
        "nanos": (pyarrow.timestamp("ns", tz="Europe/Berlin"), [1, None, 0],
                  ["1970-01-01T00:00:00.000000001Z", None, "1970-01-01T00:00:00Z"]),
        "text": (pyarrow.string(), ["naïve \"\n\\", None, ""], ["naïve \"\n\\", None, ""]),
        "big_text": (pyarrow.large_string(), ["a", None, "b"], ["a", None, "b"]),
        "word": (pyarrow.dictionary(pyarrow.int32(), pyarrow.string()), ["x", None, "x"],
                 ["x", None, "x"]),
        "binary": (pyarrow.binary(), [b"\x00\xff", None, b""],
                   [base64.b64encode(b"\x00\xff").decode(), None, ""]),
        "fixed": (pyarrow.binary(3), [b"abc", None, b"\x00\x01\x02"], ["YWJj", None, "AAEC"]),
        "none": (pyarrow.null(), [None, None, None], [None, None, None]),
        "list": (pyarrow.list_(pyarrow.int32()), [[1, None, 3], None, []], [[1, None, 3], None, []]),
        "lists": (pyarrow.list_(pyarrow.list_(pyarrow.string())),
                  [[["a"], [], None, ["b", None]], None, [[]]],
                  [[["a"], [], None, ["b", None]], None, [[]]]),
        "struct": (pyarrow.struct([("a", pyarrow.int32()), ("b", pyarrow.string())]),
                   [{"a": 1, "b": None}, None, {"a": None, "b": "x"}],
                   [{"a": 1, "b": None}, None, {"a": None, "b": "x"}]),
        "structs": (pyarrow.list_(pyarrow.struct([("a", pyarrow.int32()),
                                                  ("c", pyarrow.list_(pyarrow.int8()))])),
                    [[{"a": 1, "c": [1, 2]}, None, {"a": None, "c": None}], [], None],
                    [[{"a": 1, "c": [1, 2]}, None, {"a": None, "c": None}], [], None]),
        "map": (pyarrow.map_(pyarrow.string(), pyarrow.list_(pyarrow.int8())),
                [[("k", [1]), ("l", None)], None, []], [{"k": [1], "l": None}, None, {}]),
        "numbers": (pyarrow.map_(pyarrow.int64(), pyarrow.string()),
                    [[(7, "x")], [], None], [{"7": "x"}, {}, None]),
    }
    schema = pyarrow.schema([(name, column[0]) for name, column in columns.items()])
    given = {name: pyarrow.array(column[1], column[0]) for name, column in columns.items()}
    expected = [{name: column[2][row] for name, column in columns.items()} for row in range(3)]
    return pyarrow.table(given, schema=schema), expected


table, expected = every_type()
ways = [
    {"compression": codec, "version": version, "data_page_version": page, "use_dictionary": words}
    for codec, version, page, words in [
        ("none", "2.6", "1.0", True), ("snappy", "2.6", "2.0", False), ("gzip", "2.6", "1.0", True),
        ("zstd", "2.6", "2.0", True), ("lz4", "2.6", "1.0", False),
    ]
]
for number, way in enumerate(ways):
    name = f"types-{number}.parquet"
    parquet.write_table(table, folder / name, write_page_checksum=number % 2 == 0, **way)
    ok("load", "db", f"types{number}", name)
    found = documents("db", f"types{number}")
    for one, other in zip(found, expected):
        for field in other:
            assert one[field] == other[field], (way, field, one[field], other[field])
    assert found == expected, (way, found)
    # Loaded again by what it prints, it is the same.
    assert list(found[0]) == list(expected[0])

# Old timestamps of 96 bits, and lists without the names of today.
old = pyarrow.table({"_id": [1], "at": pyarrow.array([10**15 + 1], pyarrow.timestamp("us")),
                     "l": pyarrow.array([[1, 2]], pyarrow.list_(pyarrow.int32()))})
parquet.write_table(old, folder / "old.parquet", version="1.0", use_compliant_nested_type=False,
                    use_deprecated_int96_timestamps=True)
ok("load", "db", "old", "old.parquet")
assert documents("db", "old") == [{"_id": 1, "at": "2001-09-09T01:46:40.000001", "l": [1, 2]}]

# UUIDs and JSON are types of their own.
extra = pyarrow.table({
    "_id": pyarrow.array([uuid.UUID(int=7).bytes], pyarrow.uuid()),
    "json": pyarrow.array(['{"a":[1.50]}'], pyarrow.json_()),
})
parquet.write_table(extra, folder / "extra.parquet", store_schema=False)
ok("load", "db", "extra", "extra.parquet")
assert documents("db", "extra") == [
    {"_id": "00000000-0000-0000-0000-000000000007", "json": {"a": ["1.50"]}}]

# Nested rows at random, in many row groups and small pages.
random.seed(21)


def word():
    return random.choice([None, "", "a", "long " * random.randrange(50)])


rows = [
    {"_id": row,
     "deep": random.choice([None, [
         random.choice([None, {"n": random.choice([None, row]),
                               "of": random.choice([None, [word() for _ in range(row % 4)]])}])
         for _ in range(random.randrange(4))]]),
     "map": random.choice([None, [(str(key), random.random()) for key in range(row % 3)]])}
    for row in range(20_000)
]
kind = pyarrow.schema([
    ("_id", pyarrow.int32()),
    ("deep", pyarrow.list_(pyarrow.struct([("n", pyarrow.int64()),
                                           ("of", pyarrow.list_(pyarrow.string()))]))),
    ("map", pyarrow.map_(pyarrow.string(), pyarrow.float64())),
])
many = pyarrow.Table.from_pylist(rows, schema=kind)
parquet.write_table(many, folder / "many.parquet", row_group_size=3_000, data_page_size=2_000)
by_key = {row["_id"]: row for row in many.to_pylist(maps_as_pydicts="strict")}
for place in ["db", server]:
    ok("load", place, "many", "many.parquet")
    lines = ok("scan", place, "many").splitlines()
    found = {row["_id"]: row for row in map(json.loads, lines)}
    assert found == by_key, place

# A file is known by its name, by how it begins, and by the option; on standard input it is refused.
whole = (folder / "many.parquet").read_bytes()
(folder / "nameless").write_bytes(whole)
(folder / "many.csv").write_bytes(whole)
ok("load", "db", "nameless", "nameless")
assert "--format parquet" in refused("load", "db", "wrong", "many.csv")
ok("load", "db", "wrong", "many.csv", "--format", "parquet")
assert "standard input" in refused("load", "db", "stdin", "-", "--format", "parquet")
(folder / "text.parquet").write_text('{"_id":1}\n')
assert "Parquet" in refused("load", "db", "text", "text.parquet")

# Keys and types by option.
ok("load", "db", "keyed", "types-0.parquet", "--key", "text", "--on-error", "skip")
ok("load", "db", "auto", "old.parquet", "--key", "auto")
plain = pyarrow.table({"id": ["01", "02"], "n": ["1", "x"], "b": [b"hi", b"\xff"], "d": [1, 2]})
parquet.write_table(plain, folder / "plain.parquet")
ok("load", "db", "cast", "plain.parquet", "--key", "id", "--types", "n=integer,d=string,b=string",
   "--on-error", "skip")
assert documents("db", "cast") == [{"id": "01", "n": 1, "b": "hi", "d": "1"}]
why = refused("load", "db", "cast", "plain.parquet", "--types", "n=integer")
assert "plain.parquet:2" in why and '"n"' in why, why
assert "`m`" in refused("load", "db", "cast", "plain.parquet", "--types", "m=integer")
assert "more than one value" in refused("load", "db", "c", "old.parquet", "--types", "l=string")
assert "--key" in refused("load", "db", "none", "plain.parquet")

# A folder, with fields in its folders' names.
sales = pyarrow.table({"_id": [1, 2, 3], "year": [2023, 2024, 2024], "city": ["Ulm", "a b", "Ulm"]})
parquet.write_to_dataset(sales, folder / "sales", partition_cols=["year", "city"])
(folder / "sales" / "_SUCCESS").write_text("")
ok("load", "db", "sales", "sales")
found = sorted(documents("db", "sales"), key=lambda row: row["_id"])
assert found == [{"year": 2023, "city": "Ulm", "_id": 1}, {"year": 2024, "city": "a b", "_id": 2},
                 {"year": 2024, "city": "Ulm", "_id": 3}], found
(folder / "empty").mkdir()
assert "without Parquet files" in refused("load", "db", "empty", "empty")

# A load that stopped goes on where it was, and makes the same keys.
middle = pyarrow.table({"n": list(range(5_000)), "t": ["x"] * 2_500 + ["y"] + ["x"] * 2_499})
parquet.write_table(middle, folder / "middle.parquet", row_group_size=700)
command = ["load", "db", "middle", "middle.parquet", "--key", "auto", "--resume", "middle.state",
           "--types", "t=string"]
ok(*command)
assert len(documents("db", "middle")) == 5_000
assert not (folder / "middle.state").exists()

# Cut and damaged files: an error, and never a document that is not in the file.
small = pyarrow.Table.from_pylist(rows[:60], schema=kind)
parquet.write_table(small, folder / "small.parquet", row_group_size=20, write_page_checksum=True)
whole = (folder / "small.parquet").read_bytes()
for length in [0, 3, 4, 11, len(whole) // 2, len(whole) - 1]:
    (folder / "cut.parquet").write_bytes(whole[:length])
    assert "cut.parquet" in refused("load", "db", "cut", "cut.parquet"), length
for place in random.sample(range(len(whole)), 40):
    damaged = bytearray(whole)
    damaged[place] ^= 1 << random.randrange(8)
    (folder / "damaged.parquet").write_bytes(damaged)
    done = quire("load", "db", "damaged", "damaged.parquet")
    assert "panicked" not in done.stderr, (place, done.stderr)
    assert done.returncode in (0, 1, 2), (place, done.returncode, done.stderr)
