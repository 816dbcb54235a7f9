#!/usr/bin/env bash
# The tests of `quire pipe` and `quire reindex` against a search server: test-pipeline.sh TARGET [URL]. Without a URL it starts OpenSearch.
set -euo pipefail
target=$1 url=${2-}
if [ -z "$url" ]; then
    command -v mvn > /dev/null || { echo "test-pipeline: no Maven to fetch OpenSearch with; on Debian: sudo apt-get install maven" >&2; exit 1; }
    home=$target/opensearch data=$(mktemp -d) port=19250
    OPENSEARCH_HEAP=512m bench/peers/opensearch.sh install "$home"
    OPENSEARCH_HEAP=512m bench/peers/opensearch.sh run "$home" "$data" $port > "$data/log" 2>&1 &
    server=$!
    trap 'kill $server; wait $server || true; rm -rf "$data"' EXIT
    url=http://127.0.0.1:$port
fi
python3 scripts/test-pipeline.py "$target/debug/quire" "$url"
python3 scripts/test-reindex.py "$target/debug/quire" "$url"
