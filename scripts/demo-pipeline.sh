#!/usr/bin/env bash
# A table of MariaDB kept in step with a search index, live, and a reindex beside it: demo-pipeline.sh QUIRE.
# All of it in a folder of its own, on loopback.
set -euo pipefail
quire=$1
PATH=$PATH:/usr/sbin
dir=$(mktemp -d) pids=()
end() {
    kill "${pids[@]}" 2> /dev/null || true
    wait || true
    rm -rf "$dir"
}
trap end EXIT
sql() { mariadb --no-defaults --socket="$dir/socket" --user=root --batch --skip-column-names "$@"; }
say() { printf '\n== %s\n' "$*"; }
search() { curl -sS "http://127.0.0.1:9431/tracks/_search" -H 'Content-Type: application/json' -d "$1"; }

say "MariaDB with 200,000 tracks"
mariadb-install-db --no-defaults --datadir="$dir/data" --user="$(id -un)" --auth-root-authentication-method=normal --skip-test-db > "$dir/install"
mariadbd --no-defaults --datadir="$dir/data" --socket="$dir/socket" --port=9432 --bind-address=127.0.0.1 --user="$(id -un)" --server-id=1 \
    --log-bin=binlog --binlog-format=ROW --binlog-row-metadata=FULL --innodb-buffer-pool-size=64M 2> "$dir/server" &
pids+=($!)
for _ in $(seq 150); do sql -e 'SELECT 1' > /dev/null 2>&1 && break; sleep 0.2; done
sql <<'SQL'
CREATE DATABASE shop;
CREATE USER quire@'%' IDENTIFIED BY 'secret';
GRANT REPLICATION SLAVE, BINLOG MONITOR, SELECT ON *.* TO quire@'%';
CREATE TABLE shop.tracks (id INT PRIMARY KEY, title VARCHAR(100), genre ENUM('soul','folk','jazz','techno'), plays INT, price DECIMAL(6,2));
INSERT INTO shop.tracks SELECT seq, CONCAT('Track ', seq), 1 + seq % 4, 0, seq % 1000 / 100 FROM shop.seq_1_to_200000;
SQL

say "Quire, and a pipe from the table to it"
"$quire" serve "$dir/db" --create --listen 127.0.0.1:9431 --quiet > "$dir/listening" &
pids+=($!)
for _ in $(seq 100); do curl -sS http://127.0.0.1:9431 > /dev/null 2>&1 && break; sleep 0.1; done
curl -sS -X PUT http://127.0.0.1:9431/tracks-000001 > "$dir/created"
curl -sS http://127.0.0.1:9431/_aliases -H 'Content-Type: application/json' \
    -d '{"actions":[{"add":{"index":"tracks-000001","alias":"tracks"}}]}' > "$dir/named"
echo secret > "$dir/password"
cat > "$dir/tracks.toml" <<'END'
[source]
type = "mysql"
url = "mysql://127.0.0.1:9432"
table = "shop.tracks"
user = "quire"
password_file = "password"

[[sink]]
name = "search"
kind = "quire"
url = "http://127.0.0.1:9431"
index = "tracks"

[reindex]
shards = 4
END
"$quire" pipe check "$dir/tracks.toml"
"$quire" pipe run "$dir/tracks.toml" &
pipe=$!
pids+=("$pipe")
count() { curl -sS http://127.0.0.1:9431/tracks/_count | grep -o '"count":[0-9]*' | cut -d: -f2 || true; }
for _ in $(seq 600); do [ "$(count)" = 200000 ] && break; sleep 0.2; done

say "Changes at the source while it runs: plays go up, tracks come and go; the pipe is killed and begins again"
sql shop -e "UPDATE tracks SET plays = plays + id WHERE id % 10 = 3"
kill -KILL "$pipe"
sql shop -e "DELETE FROM tracks WHERE id > 199000; INSERT INTO tracks VALUES (300000, 'The new one', 'jazz', 1000000, 9.99)"
sql shop -e "ALTER TABLE tracks ADD COLUMN label VARCHAR(20); UPDATE tracks SET label = 'indie' WHERE id % 1000 = 0"
"$quire" pipe run "$dir/tracks.toml" &
pids+=($!)
for _ in $(seq 600); do [ "$(count)" = 199001 ] && search '{"query":{"term":{"label":"indie"}},"size":0}' | grep -q '"value":200,' && break; sleep 0.2; done

say "Reindex: a new index of four partitions, filled from the table beside the one that serves, compared, and switched to"
"$quire" reindex run "$dir/tracks.toml"
sql shop -e "UPDATE tracks SET plays = plays + 1 WHERE id % 1000 = 7"
"$quire" reindex switch "$dir/tracks.toml"
plays() { search '{"size":0,"aggs":{"plays":{"sum":{"field":"plays"}}}}' | grep -o '"plays":{"value":[0-9]*' | grep -o '[0-9]*$' || true; }
rows=$(sql -e 'SELECT COUNT(*) FROM shop.tracks') sum=$(sql -e 'SELECT SUM(plays) FROM shop.tracks')
for _ in $(seq 600); do [ "$(plays)" = "$sum" ] && break; sleep 0.2; done

say "Search, served from the new index: the most played jazz"
search '{"query":{"term":{"genre":"jazz"}},"sort":[{"plays":"desc"}],"size":3}'
echo
say "The source has $rows rows with $sum plays; the index has $(count) documents with $(plays) plays"
[ "$rows $sum" = "$(count) $(plays)" ] || { echo "demo-pipeline: the index differs from the table" >&2; exit 1; }
