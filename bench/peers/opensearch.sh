#!/usr/bin/env bash
# One node of OpenSearch on loopback, from the distribution on Maven Central: a peer of `make bench-converged`.
#
#   opensearch.sh install HOME             fetches it: 3.6.0 with Java 21 or later, else 2.19.6
#   opensearch.sh run HOME DATA PORT       runs in the foreground, as the user `nobody`: it refuses to run as root
#
# OPENSEARCH_HEAP (1g) is its memory.
set -euo pipefail

say() { printf 'opensearch: %s\n' "$*" >&2; }

# The newest JDK, and its major version.
for release in "${JAVA_HOME:-/nowhere}"/release /usr/lib/jvm/*/release; do
    [ -f "$release" ] || continue
    found=$(sed -n 's/^JAVA_VERSION="\([0-9]*\).*/\1/p' "$release")
    if [ "$found" -gt "${major:-0}" ]; then major=$found java_home=$(dirname "$release"); fi
done
[ -n "${java_home:-}" ] || { say "no JDK; on Debian: sudo apt-get install default-jdk-headless"; exit 1; }
if [ "$major" -ge 21 ]; then version=3.6.0; else version=2.19.6; fi

case "${1-}" in
    install)
        mkdir -p "$2"
        home=$(cd "$2" && pwd)
        [ -f "$home/opensearch-$version/ready" ] && exit 0
        say "fetching OpenSearch $version"
        artifact=org.opensearch.distribution.integ-test-zip:opensearch:$version:zip
        mvn -q -B org.apache.maven.plugins:maven-dependency-plugin:3.6.0:copy -Dartifact="$artifact" -DoutputDirectory="$home/fetched" >&2
        rm -rf "$home/opensearch-$version"
        python3 -m zipfile -e "$home"/fetched/*.zip "$home"
        rm -r "$home/fetched"
        chmod -R a+rX "$home/opensearch-$version"
        touch "$home/opensearch-$version/ready"
        ;;
    run)
        home=$(cd "$2" && pwd)/opensearch-$version
        mkdir -p "$3"
        data=$(cd "$3" && pwd)
        mkdir -p "$data/config" "$data/logs" "$data/tmp"
        cp -r "$home"/config/* "$data/config/"
        cat > "$data/config/opensearch.yml" <<END
cluster.name: bench
node.name: bench
path.data: $data/data
path.logs: $data/logs
network.host: 127.0.0.1
http.port: $4
transport.port: $(($4 + 100))
discovery.type: single-node
cluster.routing.allocation.disk.threshold_enabled: false
END
        printf '%s\n' 'appender.console.type = Console' 'appender.console.name = console' 'appender.console.layout.type = PatternLayout' \
            'rootLogger.level = warn' 'rootLogger.appenderRef.console.ref = console' > "$data/config/log4j2.properties"
        heap=${OPENSEARCH_HEAP:-1g}
        options=(-Xms"$heap" -Xmx"$heap" -Xss1m -Djava.awt.headless=true -Dfile.encoding=UTF-8 -Djna.nosys=true -XX:-OmitStackTraceInFastThrow
            -Dio.netty.noUnsafe=true -Dio.netty.noKeySetOptimization=true -Dio.netty.recycler.maxCapacityPerThread=0
            -Dio.netty.allocator.numDirectArenas=0 -Djava.locale.providers=SPI,CLDR -Dlog4j.shutdownHookEnabled=false -Dlog4j2.disable.jmx=true
            -Djava.io.tmpdir="$data/tmp" -Djna.tmpdir="$data/tmp")
        if [ "$major" -ge 20 ]; then options+=(--add-modules=jdk.incubator.vector); fi
        if [ "$major" -ge 21 ]; then
            options+=(-javaagent:"$home/agent/opensearch-agent.jar" -Dorg.apache.lucene.store.MMapDirectory.sharedArenaMaxPermits=1
                --add-opens=java.base/java.nio=ALL-UNNAMED)
        elif [ "$major" -ge 18 ]; then
            options+=(-Djava.security.manager=allow)
        fi
        as=()
        if [ "$(id -u)" -eq 0 ]; then
            chown -R nobody "$data"
            as=(setpriv --reuid=nobody --regid=nogroup --clear-groups)
        fi
        cd "$home"
        LIBFFI_TMPDIR="$data/tmp" exec ${as[@]+"${as[@]}"} "$java_home/bin/java" "${options[@]}" -Dopensearch.path.home="$home" \
            -Dopensearch.path.conf="$data/config" -Dopensearch.distribution.flavor=oss -Dopensearch.distribution.type=zip \
            -Dopensearch.bundled_jdk=false -cp "$home/lib/*" org.opensearch.bootstrap.OpenSearch
        ;;
    *) say "usage: $0 install HOME | run HOME DATA PORT"; exit 2 ;;
esac
