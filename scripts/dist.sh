#!/usr/bin/env bash
# Builds the program as it is installed, by what it does at work (profile-guided optimization): `scripts/dist.sh TARGET`.
#
# TARGET is cargo's directory for output; the program lies in TARGET/dist/quire. A build that counts what it executes serves documents and
# searches of many kinds. By these counts the compiler then decides what is inlined, and where code lies.
set -euo pipefail

target=$(mkdir -p "$1" && cd "$1" && pwd)
counts=$target/dist-counts
say() { printf 'dist: %s\n' "$*" >&2; }

# How many adverts are loaded.
documents=60000

# A body of `_bulk`: 1,000 adverts from the number $1 on.
adverts() {
    awk -v first="$1" 'BEGIN {
        srand(first)
        for (id = first; id < first + 1000; id++) {
            printf "{\"index\":{\"_id\":\"%d\"}}\n", id
            printf "{\"title\":\"%s %d in %s\",\"price\":%d,\"pay\":%.2f,\"added\":\"2026-%02d-%02dT10:00:00Z\",\"open\":%s,",
                word(), id % 997, word(), rand() * 20000, rand() * 90, 1 + rand() * 12, 1 + rand() * 28, rand() < 0.5 ? "true" : "false"
            printf "\"region\":\"region-%d\",\"mark\":\"mark-%d\",\"colour\":\"colour-%d\",", rand() * 1000, 30 * rand() * rand(), rand() * 12
            printf "\"tags\":[\"%s\",\"%s\"],\"at\":{\"lat\":%.4f,\"lon\":%.4f}", word(), word(), 48 + rand() * 4, 8 + rand() * 6
            for (field = 0; field < 12; field++) printf ",\"f%d\":%d", field, rand() * 2 ^ (field + 1)
            print "}"
        }
    }
    function word(  letters, text) {
        for (letters = 3 + rand() * 6; letters > 0; letters--) text = text sprintf("%c", 97 + 26 * rand() * rand())
        return text
    }'
}

# Requests to the server $1 as a configuration of curl, which sends them over one connection.
requests() {
    awk -v url="$1" -v documents="$documents" -v count=3000 'BEGIN {
        srand(count)
        for (number = 0; number < count; number++) {
            region = sprintf("region-%d", rand() * 1000); mark = sprintf("mark-%d", rand() * 30); colour = sprintf("colour-%d", rand() * 12)
            low = int(rand() * 15000); id = int(rand() * documents)
            search("_count", "{\"query\":{\"term\":{\"region\":\"" region "\"}}}")
            marked = "{\"term\":{\"mark\":\"" mark "\"}}"; coloured = "{\"term\":{\"colour\":\"" colour "\"}}"
            price = "{\"range\":{\"price\":{\"gte\":" low ",\"lte\":" low + 3000 "}}}"
            search("_count", "{\"query\":" price "}")
            search("_count", "{\"query\":{\"bool\":{\"filter\":[" marked "," coloured "]}}}")
            request("GET", "_doc/" id, "")
            if (number % 4 == 0) {
                search("_search", "{\"query\":" marked ",\"sort\":[{\"added\":\"desc\"}],\"size\":10}")
                search("_search", "{\"query\":" price ",\"aggs\":{\"found\":{\"terms\":{\"field\":\"mark\"}}},\"size\":0}")
                several = "{\"terms\":{\"mark\":[\"" mark "\",\"mark-1\",\"mark-2\"]}}"
                search("_count", "{\"query\":{\"bool\":{\"filter\":[" several "],\"must_not\":[" coloured "]}}}")
                request("PUT", "_doc/" id, "{\"price\":" low ",\"mark\":\"" mark "\",\"region\":\"" region "\"}")
                request("POST", "_update/" id, "{\"doc\":{\"price\":" low + 1 "}}")
            }
            if (number % 40 == 0) {
                search("_search", "{\"query\":{\"prefix\":{\"title\":\"a" number % 10 "\"}},\"size\":5}")
                by = "\"date_histogram\":{\"field\":\"added\",\"calendar_interval\":\"month\"},\"aggs\":{\"pay\":{\"avg\":{\"field\":\"pay\"}}}"
                search("_search", "{\"query\":{\"regexp\":{\"title\":\".*b[a-e].*\"}},\"aggs\":{\"by\":{" by "}}}")
                request("DELETE", "_doc/" id, "")
            }
        }
    }
    function search(path, body) { request("POST", path, body) }
    function request(method, path, body) {
        gsub(/"/, "\\\"", body)
        if (started++) print "next"
        print "silent\noutput = \"/dev/null\"\nheader = \"content-type: application/json\""
        printf "request = \"%s\"\nurl = \"%s/work/%s\"\n", method, url, path
        if (body != "") printf "data = \"%s\"\n", body
    }'
}

# Loads and requests, by the program $1 in the directory $2.
work() {
    local url server first
    "$1" serve "$2/db" --create --listen 127.0.0.1:0 --memory 512MiB >"$2/log" 2>&1 &
    server=$!
    # Whatever goes wrong, no server is left.
    trap 'kill "$server" 2>/dev/null || true' EXIT
    until url=$(grep -o -m 1 'http://127[^ ]*' "$2/log"); do
        kill -0 "$server" || { cat "$2/log" >&2; exit 1; }
        sleep 0.1
    done
    send() { curl -fsS -o /dev/null -X "$1" "$url/$2" -H 'content-type: application/json' --data-binary "$3"; }
    send PUT work '{"settings":{"number_of_shards":2,"quire.index":"all"}}'
    for ((first = 0; first < documents; first += 1000)); do
        adverts "$first" >"$2/bulk"
        send POST work/_bulk "@$2/bulk"
    done
    requests "$url" >"$2/requests"
    curl --config "$2/requests"
    send POST work/_flush ''
    curl --config "$2/requests"
    kill "$server"
    wait "$server"
    trap - EXIT
}

host=$(rustc -vV | sed -n 's/^host: //p')
merge=$(rustc --print sysroot)/lib/rustlib/$host/bin/llvm-profdata
if [ ! -x "$merge" ]; then
    if ! command -v rustup >/dev/null; then
        say "llvm-profdata of this Rust is not installed, and there is no rustup to install it; \`cargo build --profile dist\` does without"
        exit 1
    fi
    say "installing llvm-profdata"
    rustup component add llvm-tools
fi

# Builds with the flags $2 into the directory $1. With a target named, flags are not for what the build itself runs.
build() {
    RUSTFLAGS="${RUSTFLAGS:-} $2" CARGO_TARGET_DIR=$1 cargo build --profile dist --locked -p quire-cli --target "$host"
    built=$1/$host/dist/quire
}

say "building the program that counts what it executes"
build "$counts/counting" "-Cprofile-generate=$counts/raw"
say "letting it work"
rm -rf "$counts/raw" "$counts/work"
mkdir -p "$counts/work"
work "$built" "$counts/work"
"$merge" merge -o "$counts/merged" "$counts/raw"
say "building the program by these counts"
build "$counts/counted" "-Cprofile-use=$counts/merged"
mkdir -p "$target/dist"
install "$built" "$target/dist/quire"
say "built $target/dist/quire"
