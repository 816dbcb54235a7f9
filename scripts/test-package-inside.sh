# The cycle of the package, inside the mount namespace that test-package.sh makes.
root=$(mktemp -d)
mount -t tmpfs scratch "$root"
mkdir "$root/upper" "$root/work" "$root/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$root/upper,workdir=$root/work" "$root/root"
root=$root/root
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
cp "$packages/first.deb" "$packages/second.deb" "$root/tmp/"

fail() { echo "test-package: $*" >&2; exit 1; }
inside() { chroot "$root" "$@"; }
# Runs the command of the unit as its user would.
start() {
    local command
    command=$(sed -n 's/^ExecStart=//p' "$root/lib/systemd/system/quire.service" "$root/usr/lib/systemd/system/quire.service" \
        2>/dev/null | head -n 1)
    # shellcheck disable=SC2086 # words
    chroot "$root" setpriv --reuid quire --regid quire --clear-groups $command --listen 127.0.0.1:0 > "$root/tmp/started" &
    server=$!
    for _ in $(seq 200); do
        url=$(sed -n 's/^listening on //p' "$root/tmp/started")
        [ -n "$url" ] && return
        kill -0 "$server" || fail "the server ended"
        sleep 0.1
    done
    fail "the server did not start"
}
stop() {
    kill -TERM "$server"
    wait "$server" || fail "the server ended with an error"
}
expect() { grep -q "$1" <<< "$2" || fail "expected $1 in: $2"; }

inside dpkg --install /tmp/first.deb
inside man -w quire-serve > /dev/null
inside systemd-analyze verify /lib/systemd/system/quire.service
inside test -f /usr/share/bash-completion/completions/quire
expect quire "$(inside stat -c %U /var/lib/quire/db)"
start
expect '"result":"created"' "$(curl -s -X PUT "$url/papers/_doc/1?refresh=true" -H 'Content-Type: application/json' \
    -d '{"title":"log-structured merge trees"}')"
expect '"value":1' "$(curl -s "$url/papers/_search")"
stop

echo '# changed by hand' >> "$root/etc/quire/quire.toml"
inside dpkg --install /tmp/second.deb
grep -q 'changed by hand' "$root/etc/quire/quire.toml" || fail "an upgrade replaced the configuration"
expect 0.1.0-2 "$(inside dpkg-query --show quire)"
start
expect 'log-structured' "$(curl -s "$url/papers/_doc/1")"
stop

inside dpkg --remove quire
[ ! -e "$root/usr/bin/quire" ] || fail "the program is still there"
[ -e "$root/etc/quire/quire.toml" ] || fail "a removal took the configuration"
inside dpkg --purge quire
[ ! -e "$root/etc/quire/quire.toml" ] || fail "a purge left the configuration"
[ -e "$root/var/lib/quire/db/CATALOG" ] || fail "a purge took the database"
echo "the package was installed, started, queried, upgraded, removed and purged"
