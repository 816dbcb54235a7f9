# Quire's server: docs/INSTALLING.md says how it is built and run.
FROM rust:1.90-slim-bookworm AS build
# The base image says which release the packages are of.
# hadolint ignore=DL3008
RUN apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN cargo build --profile dist --locked --package quire-cli

FROM debian:bookworm-slim
# hadolint ignore=DL3008
RUN apt-get update && apt-get install --yes --no-install-recommends curl && rm -rf /var/lib/apt/lists/* \
    && groupadd --gid 999 quire && useradd --system --uid 999 --gid quire --home-dir /var/lib/quire --create-home quire
COPY --from=build /src/target/dist/quire /usr/bin/quire
COPY packaging/container.toml /etc/quire/quire.toml
# By number, so that a host can see that it is not root.
USER 999:999
VOLUME /var/lib/quire
EXPOSE 9200
STOPSIGNAL SIGTERM
# Any answer will do: without a token it is 401.
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s \
    CMD ["curl", "--silent", "--output", "/dev/null", "http://127.0.0.1:9200/"]
ENTRYPOINT ["quire", "serve", "--config", "/etc/quire/quire.toml"]
