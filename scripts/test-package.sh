#!/bin/bash
# Installs the Debian package in a scratch root, starts the server, queries it, upgrades, removes and purges the package.
# The scratch root is this system under an overlay, so it needs root and Linux: scripts/test-package.sh TARGET [PROFILE]
set -euo pipefail

target=$1
profile=${2:-test}
cd "$(dirname "$0")/.."
fail() { echo "test-package: $*" >&2; exit 1; }
[ "$(id -u)" -eq 0 ] || fail "it needs root, for a scratch root"

first=$(scripts/package.sh "$target" "$profile" 0.1.0-1)
kept=$(mktemp)
cp "$first" "$kept"
second=$(scripts/package.sh "$target" "$profile" 0.1.0-2)
mv "$kept" target/package/first.deb
cp "$second" target/package/second.deb

# Namespaces of its own: mounts and processes are gone when the script inside ends.
export packages=$PWD/target/package
exec unshare --mount --pid --fork --kill-child --propagation private bash -euo pipefail scripts/test-package-inside.sh
