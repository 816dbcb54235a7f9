#!/bin/sh
# Makes the Debian package of the server, with its manual and completions: scripts/package.sh TARGET [PROFILE] [VERSION]
# TARGET is cargo's directory for output, PROFILE the one to build (default: dist). Prints the path of the package.
# With QUIRE_BUILT in the environment the program that is there is packaged.
set -eu

target=$1
profile=${2:-dist}
version=${3:-}
cd "$(dirname "$0")/.."
tools=$PWD/target/tools

if [ ! -x "$tools/bin/cargo-deb" ]; then
    echo "package: building cargo-deb into $tools; this takes some minutes, once" >&2
    # It runs for seconds: optimising it would take longer than it saves.
    export CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16
    cargo install --quiet --locked --root "$tools" --no-default-features --features gzip --version 3.8.0 cargo-deb
    unset CARGO_PROFILE_RELEASE_OPT_LEVEL CARGO_PROFILE_RELEASE_LTO CARGO_PROFILE_RELEASE_CODEGEN_UNITS
fi
[ -n "${QUIRE_BUILT:-}" ] || cargo build --locked --profile "$profile" --package quire-cli >&2
# Cargo puts `test` beside `dev`, and cargo-deb knows only the latter.
case $profile in
    dev | test) built=$target/debug packaged=dev fast=--fast ;;
    *) built=$target/$profile packaged=$profile fast= ;;
esac

rm -rf target/package
mkdir -p target/package
"$built/quire" manual target/package/man >&2
"$built/quire" completions bash > target/package/quire.bash
"$built/quire" completions zsh > target/package/_quire
"$built/quire" completions fish > target/package/quire.fish

# shellcheck disable=SC2086 # none or one word
PATH=$tools/bin:$PATH cargo deb --quiet $fast --locked --no-build --no-strip --profile "$packaged" --package quire-cli \
    ${version:+--deb-version "$version"} --output target/package/ >&2
ls -t "$PWD"/target/package/*.deb | head -n 1
