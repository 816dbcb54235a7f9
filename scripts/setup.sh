#!/bin/sh
# Installs what the build needs, and what the given purpose needs:
#
#   build (default)   cargo, a C compiler and its headers (for the allocator)
#   dist              curl, which sends requests to the program that `make dist` builds by what it executes
#   packages          an index of packages for apt, which the demonstration loads
#   test              what tests run beside the engine: Python with venv, Node.js with npm, a JDK with Maven,
#                     Go, curl, openssl, PostgreSQL, MariaDB, memcached and libmemcached's tools
#   pipeline          MariaDB, the source of `make demo-pipeline`
#   torture           strace, ext4 and xfs on loop devices; without root only what needs none of them
#   memcached         the peer of `make bench-memcached`
#   snapshot          a JDK and Maven, which build the peers of `make bench-snapshot`
#   kv                the peers of `make bench-kv`, and what builds them
#   converged         RocksDB, a peer of `make bench-converged`, and what builds it
#   wide              RocksDB, btrfs and nbdkit, for `make bench-wide`, and what builds them
#   docs              Python and mdbook; mdbook is built from crates.io into the directory QUIRE_TOOLS
#
# On Debian-like systems, as root, it installs what is missing; otherwise it says what to install.
set -eu

say() { printf 'setup: %s\n' "$*" >&2; }

is_root() { [ "$(id -u)" -eq 0 ]; }

apt() { DEBIAN_FRONTEND=noninteractive apt-get -q -y "$@" >&2; }

# Whether apt knows any packages yet. A pipe to `head` would do, but for apt's complaint when it closes.
has_index() { [ -n "$(apt-cache dumpavail 2>/dev/null | sed -n '1p')" ]; }

# Installs packages, each after a space, or says who needs them and ends.
install_or_say() {
    [ -n "$2" ] || return 0
    if is_root && command -v apt-get >/dev/null 2>&1; then
        say "installing$2"
        has_index || apt update
        # shellcheck disable=SC2086 # a list of words
        apt install --no-install-recommends $2
    else
        say "$1$2; on Debian: sudo apt-get install$2"
        exit 1
    fi
}

build_tools() {
    if ! command -v cargo >/dev/null 2>&1; then
        say "cargo is not installed; install Rust 1.90 or later: https://rustup.rs"
        exit 1
    fi
    # A compiler without the headers of the C library is of no use.
    if printf '#include <stdlib.h>\nint main(void) { return 0; }\n' | cc -x c -o /dev/null - 2>/dev/null; then
        return
    fi
    if is_root && command -v apt-get >/dev/null 2>&1; then
        say "installing a C compiler"
        has_index || apt update
        apt install --no-install-recommends gcc libc6-dev
    else
        say "no working C compiler (cc); install one, on Debian: sudo apt-get install gcc libc6-dev"
        exit 1
    fi
}

package_index() {
    command -v apt-cache >/dev/null 2>&1 || return 0
    has_index && return 0
    if is_root; then
        say "fetching the package index, for the demonstration"
        apt update || say "no package index; the demonstration uses the sources of crates instead"
    else
        say "apt has no package index (sudo apt-get update); the demonstration uses the sources of crates instead"
    fi
}

test_tools() {
    missing=""
    command -v curl >/dev/null 2>&1 || missing="$missing curl"
    command -v openssl >/dev/null 2>&1 || missing="$missing openssl"
    # Debian's python3 has the module venv, but not what it needs to make one.
    python3 -c 'import venv, ensurepip' 2>/dev/null || missing="$missing python3 python3-venv"
    command -v memcached >/dev/null 2>&1 || missing="$missing memcached"
    command -v memccat >/dev/null 2>&1 || missing="$missing libmemcached-tools"
    command -v node >/dev/null 2>&1 || missing="$missing nodejs"
    command -v npm >/dev/null 2>&1 || missing="$missing npm"
    command -v javac >/dev/null 2>&1 || missing="$missing default-jdk-headless"
    command -v mvn >/dev/null 2>&1 || missing="$missing maven"
    command -v go >/dev/null 2>&1 || missing="$missing golang-go"
    # Debian has the server's programs beside the path.
    [ -n "$(ls /usr/lib/postgresql/*/bin/initdb 2>/dev/null)" ] || command -v initdb >/dev/null 2>&1 ||
        missing="$missing postgresql"
    has_mariadb || missing="$missing mariadb-server"
    install_or_say "the tests need" "$missing"
}

# Debian has the server beside the path of users.
has_mariadb() { PATH="$PATH:/usr/sbin" command -v mariadbd >/dev/null 2>&1; }

pipeline_tools() {
    missing=""
    command -v curl >/dev/null 2>&1 || missing="$missing curl"
    has_mariadb || missing="$missing mariadb-server"
    install_or_say "the demonstration needs" "$missing"
}

memcached_peer() {
    missing=""
    command -v memcached >/dev/null 2>&1 || missing=" memcached"
    install_or_say "the benchmark needs" "$missing"
}

jvm_peers() {
    missing=""
    command -v javac >/dev/null 2>&1 || missing="$missing default-jdk-headless"
    command -v mvn >/dev/null 2>&1 || missing="$missing maven"
    install_or_say "the benchmark needs" "$missing"
}

kv_peers() {
    missing=""
    command -v g++ >/dev/null 2>&1 || missing="$missing g++"
    for peer in "$@"; do
        printf '#include <%s>\n' "${peer#*:}" | g++ -std=c++17 -E -x c++ -o /dev/null - 2>/dev/null ||
            missing="$missing lib${peer%%:*}-dev"
    done
    install_or_say "the benchmark needs" "$missing"
}

site_tools() {
    missing=""
    command -v python3 >/dev/null 2>&1 || missing=" python3"
    install_or_say "the documentation needs" "$missing"
    command -v mdbook >/dev/null 2>&1 && return
    tools=${QUIRE_TOOLS:-target/tools}
    [ -x "$tools/bin/mdbook" ] && return
    say "building mdbook into $tools; this takes some minutes, once"
    cargo install --quiet --locked --root "$tools" --version 0.5.4 mdbook
}

torture_tools() {
    missing=""
    command -v strace >/dev/null 2>&1 || missing="$missing strace"
    if is_root; then
        command -v mkfs.ext4 >/dev/null 2>&1 || missing="$missing e2fsprogs"
        command -v xfs_io >/dev/null 2>&1 && command -v mkfs.xfs >/dev/null 2>&1 || missing="$missing xfsprogs"
        command -v losetup >/dev/null 2>&1 && command -v mount >/dev/null 2>&1 || missing="$missing mount util-linux"
    fi
    [ -n "$missing" ] || return 0
    if is_root && command -v apt-get >/dev/null 2>&1; then
        say "installing$missing"
        has_index || apt update
        # shellcheck disable=SC2086 # a list of words
        apt install --no-install-recommends $missing || say "not installed:$missing; what needs it is skipped"
    else
        say "install$missing to have all of it (on Debian: sudo apt-get install$missing); what needs it is skipped"
    fi
}

case "${1-build}" in
    build) build_tools ;;
    dist)
        build_tools
        command -v curl >/dev/null 2>&1 || install_or_say "the build needs" " curl"
        ;;
    test) build_tools; test_tools ;;
    pipeline) build_tools; pipeline_tools ;;
    torture) build_tools; torture_tools ;;
    packages) package_index ;;
    memcached) memcached_peer ;;
    snapshot) build_tools; jvm_peers ;;
    kv) build_tools; kv_peers leveldb:leveldb/db.h rocksdb:rocksdb/db.h kyotocabinet:kchashdb.h lmdb:lmdb.h ;;
    converged) build_tools; kv_peers rocksdb:rocksdb/db.h ;;
    wide)
        build_tools
        kv_peers rocksdb:rocksdb/db.h
        command -v mkfs.btrfs >/dev/null 2>&1 || install_or_say "the benchmark needs" " btrfs-progs"
        # Disks that seek.
        { command -v nbdfuse && [ -f /usr/include/nbdkit-plugin.h ]; } >/dev/null 2>&1 ||
            install_or_say "the benchmark needs" " nbdkit nbdkit-plugin-dev libnbd-bin fuse3"
        ;;
    docs) build_tools; site_tools ;;
    *) say "usage: scripts/setup.sh [build|dist|packages|test|pipeline|torture|memcached|snapshot|kv|converged|wide|docs]"; exit 2 ;;
esac
