//! `quire serve`: serves a database over HTTP, and the memcached protocol, until a signal.

use crate::error::{Error, Result};
use crate::frozen_path::{FrozenPath, attach_all, open_all};
use crate::logging::{LogFormat, LogLevel, LogOptions};
use crate::signals::Signals;
use crate::size::{Size, counted};
use crate::{Context, database, files, frozen_path, limit, millis};
use quire_server::{
    Audit, Compat, Limit, Listeners, LogFileOptions, MemcachedOptions, ServerOptions, SlowLog, Tls,
    TlsFiles, Tokens, refresh_frozen,
};
use quiredb::{ErrorKind, FrozenCollection};
use std::collections::BTreeSet;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

/// 128 random bits in base64 have this length.
const TOKEN_CHARS_LEAST: usize = 22;

/// Connections of each port, unless another number is given.
const CONNECTIONS_MAX: u32 = 1024;

/// A longer file is not a token.
const TOKEN_BYTES_MAX: u64 = 64 << 10;

/// Serve a database over HTTP (the document part of the OpenSearch REST API) and memcached
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  quire serve ./db
  quire serve ./new --create                                   a new database
  quire serve ./db --listen 127.0.0.1:0                        on a free port, which is printed
  quire serve ./db --listen 0.0.0.0:9200 --token-file token    for other machines
  quire serve ./db --listen 0.0.0.0:9200 --tokens tokens       with named tokens (quire token)
  quire serve ./db --memcached 127.0.0.1:11211                 also to clients of memcached
  quire serve ./db --tokens tokens --check                     what would stop it, if anything
  quire serve ./db --tls-cert cert.pem --tls-key key.pem       with TLS on every port
  quire serve ./db --frozen jobs-2025=./jobs-2025.quire        a frozen file beside collections
  quire serve --config quire.toml                              with the options of a file
  quire serve ./db --print-config > quire.toml                 which this prints

  curl http://127.0.0.1:9200/papers/_doc/2101.00001

When it answers requests, it prints `listening on http://ADDRESS` on standard output, and with
--memcached `memcached on ADDRESS`, with --listen-metrics `metrics on URL`. With --json it prints an
object with the members \"listening\", \"memcached\" and \"metrics\".
After an interrupt (Ctrl-C) or SIGTERM it finishes the requests in flight, makes everything durable
and stops. A second signal stops it at once. Certificates that have changed are read again, and new
frozen files opened, within seconds, and at SIGHUP at once.")]
pub(crate) struct Serve {
    /// The directory of the database
    db: PathBuf,
    /// Take options from this file: TOML, its members are these options by their long names and
    /// `db`. What the command line gives wins
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print the configuration file that these options amount to, and serve nothing
    #[arg(long)]
    print_config: bool,
    /// Make the database if the directory is absent or empty. Without it that is an error: the
    /// directory may be the mount point of a disk that is not there
    #[arg(long)]
    create: bool,
    /// Check the options, the tokens, the certificates and that the database opens, and serve
    /// nothing
    #[arg(long)]
    check: bool,
    /// Serve the frozen file, or the folder of frozen files, at PATH under NAME beside the
    /// collections, to be searched and read; repeat it for several
    #[arg(long, value_name = "NAME=PATH", value_parser = frozen_path::parse)]
    frozen: Vec<FrozenPath>,
    #[command(flatten)]
    serving: Serving,
}

/// Where and how a server listens.
#[derive(Debug, clap::Args)]
pub(super) struct Serving {
    /// The address to listen on; port 0 takes a free one
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        default_value = "127.0.0.1:9200",
        value_parser = address
    )]
    listen: SocketAddr,
    /// A file with the token that clients must send (Authorization: Bearer …); required for an
    /// address that is open to other machines
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// A file of named tokens with roles, as `quire token create` makes it; a change of it holds at
    /// once
    #[arg(long, value_name = "FILE")]
    tokens: Option<PathBuf>,
    /// Note in this file who was admitted and refused, and who changed what: lines of JSON. Files
    /// of 16 MiB, FILE.1 to FILE.7 before it
    #[arg(long, value_name = "FILE")]
    audit: Option<PathBuf>,
    /// Note in this file what took long, who sent it, and how searches were executed: lines of
    /// JSON, 20 a second at most. Files of 16 MiB, FILE.1 to FILE.7 before it
    #[arg(long, value_name = "FILE")]
    slow_log: Option<PathBuf>,
    /// What is slow, until the answer begins
    #[arg(
        long,
        value_name = "TIME",
        default_value = "500ms",
        requires = "slow_log",
        value_parser = millis::parse
    )]
    slow_request: Duration,
    /// Connections of each port open at once; each takes up to 16 KiB while it is idle, and one of
    /// HTTP/2 counts as two. For one more another is closed
    #[arg(
        long,
        value_name = "N",
        default_value_t = CONNECTIONS_MAX,
        value_parser = connections
    )]
    connections: u32,
    /// What each client address may take: requests a second, bytes a second, requests and searches
    /// running at once, open connections. As
    /// requests=1000,bytes=50MiB,running=32,searches=2,connections=100, or some of these
    /// [default: anything]
    #[arg(long, value_name = "LIMITS", value_parser = limit::of_address)]
    limit_address: Option<Limit>,
    /// What each token may take, as requests=1000,bytes=50MiB,running=32,searches=2, or some of
    /// these [default: anything]
    #[arg(long, value_name = "LIMITS", value_parser = limit::of_token)]
    limit_token: Option<Limit>,
    /// The certificate of this server (PEM), then those of its issuers: every port speaks TLS
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The private key of the certificate (PEM, not encrypted)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Clients must have a certificate that one of these has signed (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_client_ca: Option<PathBuf>,
    /// Serve the memcached protocol too, on this address; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = address)]
    memcached: Option<SocketAddr>,
    /// The collection of all memcached keys; without it a key is collection:key
    #[arg(long, value_name = "NAME", requires = "memcached")]
    memcached_collection: Option<String>,
    /// The field whose text is the memcached value; without it the value is the document as JSON
    #[arg(long, value_name = "NAME", requires = "memcached")]
    memcached_field: Option<String>,
    /// Serve /metrics and /_cluster/health on this address too, without a token, to everybody who
    /// can connect; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = address)]
    listen_metrics: Option<SocketAddr>,
    /// The product that the server says it is: elasticsearch lets clients of Elasticsearch 7 and 8
    /// work
    #[arg(
        long,
        value_name = "opensearch|elasticsearch",
        default_value = "opensearch"
    )]
    compat: Compat,
    /// Memory that the database may use [default: 256MiB]
    #[arg(long, value_name = "SIZE")]
    pub(super) memory: Option<Size>,
    /// Let clients make backups in this directory: `quire backup http://ADDRESS:PORT NAME`
    #[arg(long, value_name = "DIR")]
    backup_dir: Option<PathBuf>,
    /// The least important events to log, on standard error
    #[arg(long, value_name = "LEVEL", value_enum, default_value_t = LogLevel::Info)]
    log_level: LogLevel,
    /// How events are logged
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
    /// Log nothing but warnings and errors
    #[arg(long)]
    quiet: bool,
}

impl Serve {
    pub(super) fn logging(&self) -> LogOptions {
        self.serving.logging()
    }

    pub(super) fn run(self, context: &mut Context) -> Result<()> {
        let options = self.serving.options(context)?;
        if self.check {
            return self.report_check(context);
        }
        let (audit, slow_log) = (options.audit.clone(), options.slow_log.clone());
        let runtime = runtime()?;
        let database =
            database::open_to_serve(context, &self.db, self.serving.memory, self.create)?;
        let frozen = attach_all(&database, &self.frozen)?;
        let served = runtime.block_on(async {
            let (listeners, stop) = self.serving.listen(context, &options, frozen).await?;
            quire_server::serve(database.clone(), listeners, options, stop)
                .await
                .map_err(|error| Error::Failed(crate::error::causes(&error)))
        });
        if let Some(audit) = audit {
            audit.flush();
        }
        if let Some(slow_log) = slow_log {
            slow_log.flush();
        }
        let closed = database
            .close()
            .map_err(Error::engine("cannot close the database"));
        served.and(closed)?;
        tracing::info!("stopped; everything is durable");
        Ok(())
    }

    /// Opens the database as a server would, and says what was found. The options were read before.
    ///
    /// # Errors
    /// If the database can't be served. That a server has it open is none.
    fn report_check(&self, context: &mut Context) -> Result<()> {
        let shown = self.db.display();
        let found = if self.create && !context.env.exists(&self.db).unwrap_or(true) {
            open_all(context, &self.frozen)?;
            format!("there is no database at {shown}, and --create would make it")
        } else {
            match database::open_existing_with(context, &self.db, self.serving.memory) {
                Ok(database) => {
                    let count = database.collections().len() as u64;
                    let frozen = attach_all(&database, &self.frozen)?.len() as u64;
                    database
                        .close()
                        .map_err(Error::engine("cannot close the database"))?;
                    let collections = counted(count, "collection", "collections");
                    let frozen = match frozen {
                        0 => String::new(),
                        count => format!(" and {}", counted(count, "frozen one", "frozen ones")),
                    };
                    format!("the database at {shown} opens, with {collections}{frozen}")
                }
                Err(Error::Engine { source, .. }) if source.kind() == ErrorKind::Locked => {
                    open_all(context, &self.frozen)?;
                    format!("the database at {shown} is open in another process")
                }
                Err(error) => return Err(error),
            }
        };
        match context.out.is_json() {
            true => context
                .out
                .json_line(&serde_json::json!({"checked": true, "database": found})),
            false => context
                .out
                .line(format_args!("the options can be used; {found}")),
        }
    }
}

/// Starts the threads of a server, which has small pages of memory and as many file descriptors as
/// it may from then on.
pub(super) fn runtime() -> Result<Runtime> {
    use_small_pages();
    use_all_descriptors();
    // One can do a short read while another one drives connections.
    let threads = thread::available_parallelism().map_or(2, |cores| cores.get().max(2));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_all()
        .build();
    runtime.map_err(|error| Error::Failed(format!("cannot start the server's threads: {error}")))
}

/// Turns huge pages off for this process. The allocator would have them: then a thread that uses a
/// few kilobytes takes 2 MiB.
fn use_small_pages() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::thread::disable_transparent_huge_pages(true) {
        tracing::debug!(%error, "huge pages can't be turned off");
    }
}

/// Raises the soft limit of file descriptors to the hard one: the soft one is 1,024 as a rule, less
/// than the connections of two ports.
fn use_all_descriptors() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return;
    }
    let all = Rlimit {
        current: maximum,
        maximum,
    };
    if let Err(error) = setrlimit(Resource::Nofile, all) {
        tracing::debug!(%error, "the limit of file descriptors can't be raised");
    }
}

impl Serving {
    /// What the server logs, and how.
    pub(super) fn logging(&self) -> LogOptions {
        let level = match self.quiet {
            true => self.log_level.min(LogLevel::Warn),
            false => self.log_level,
        };
        LogOptions {
            level,
            format: self.log_format,
        }
    }

    /// The options of the server.
    ///
    /// # Errors
    /// If an address is open to other machines and there is no token, or it can't be read.
    pub(super) fn options(&self, context: &Context) -> Result<ServerOptions> {
        let token = self.token_file.as_deref().map(read_token).transpose()?;
        if let Some(token) = &token {
            warn_of_short(token);
        }
        let open = |path: &PathBuf| Tokens::open(context.env.clone(), path);
        let tokens = self.tokens.as_ref().map(open).transpose();
        let tokens = tokens.map_err(|error| {
            Error::Failed(format!(
                "{error}; `quire token create` makes a file of tokens"
            ))
        })?;
        let is_open = |address: &SocketAddr| !address.ip().to_canonical().is_loopback();
        let mut addresses = [Some(self.listen), self.memcached].into_iter().flatten();
        if let Some(address) = addresses.find(is_open)
            && token.is_none()
            && tokens.is_none()
        {
            return Err(Error::Usage(format!(
                "{address} is open to other machines; give a token that clients must send, with \
                 --token-file FILE or --tokens FILE, or listen on 127.0.0.1"
            )));
        }
        let memcached = self.memcached.map(|listen| MemcachedOptions {
            listen,
            collection: self.memcached_collection.clone(),
            field: self.memcached_field.clone(),
        });
        Ok(ServerOptions {
            listen: self.listen,
            metrics_listen: self.listen_metrics,
            token,
            tokens,
            audit: self.audit(context)?,
            slow_log: self.slow_log(context)?,
            tls: self.tls(context)?,
            address_limit: self.limit_address,
            token_limit: self.limit_token,
            backup_dir: self.backup_dir.clone(),
            connections_max: self.connections as usize,
            memcached,
            compat: self.compat,
            ..ServerOptions::default()
        })
    }

    fn audit(&self, context: &Context) -> Result<Option<Audit>> {
        let open = |path: &PathBuf| Audit::open(context.env.clone(), LogFileOptions::new(path));
        let audit = self.audit.as_ref().map(open).transpose();
        audit.map_err(|error| Error::Failed(error.to_string()))
    }

    fn slow_log(&self, context: &Context) -> Result<Option<SlowLog>> {
        let open = |path: &PathBuf| {
            let options = LogFileOptions::new(path);
            SlowLog::open(context.env.clone(), options, self.slow_request)
        };
        let log = self.slow_log.as_ref().map(open).transpose();
        log.map_err(|error| Error::Failed(error.to_string()))
    }

    /// The certificates of the server, if it is to speak TLS.
    fn tls(&self, context: &Context) -> Result<Option<Tls>> {
        let (Some(certificate), Some(key)) = (self.tls_cert.clone(), self.tls_key.clone()) else {
            return Ok(None);
        };
        let files = TlsFiles {
            certificate,
            key,
            client_ca: self.tls_client_ca.clone(),
        };
        let tls = Tls::open(context.env.clone(), files);
        tls.map(Some)
            .map_err(|error| Error::Failed(error.to_string()))
    }

    /// Listens, and prints the addresses; at SIGHUP certificates are read again, and files of
    /// `frozen` that are new are opened. The future that it returns ends with the first signal.
    ///
    /// # Errors
    /// If the system refuses an address.
    pub(super) async fn listen(
        &self,
        context: &mut Context,
        options: &ServerOptions,
        frozen: Vec<FrozenCollection>,
    ) -> Result<(Listeners, impl Future<Output = ()> + use<>)> {
        let (http, address) = listen(self.listen)?;
        let memcached = match self.memcached {
            Some(address) => Some(listen(address)?),
            None => None,
        };
        let (memcached, memcached_address) = memcached.unzip();
        let metrics = match self.listen_metrics {
            Some(address) => Some(listen(address)?),
            None => None,
        };
        let (metrics, metrics_address) = metrics.unzip();
        // Before the addresses are printed: a caller may send a signal as soon as it has them.
        let signals = Signals::new()?;
        let stop = first(signals);
        if options.tls.is_some() || !frozen.is_empty() {
            reload_on_hangup(options.tls.clone(), frozen)?;
        }
        let scheme = match &options.tls {
            Some(_) => "https",
            None => "http",
        };
        if context.out.is_json() {
            let memcached = memcached_address
                .map(|address| format!(",\"memcached\":\"{address}\""))
                .unwrap_or_default();
            let metrics = metrics_address
                .map(|address| format!(",\"metrics\":\"{scheme}://{address}\""))
                .unwrap_or_default();
            context.out.line(format_args!(
                "{{\"listening\":\"{scheme}://{address}\"{memcached}{metrics}}}"
            ))?;
        } else {
            context
                .out
                .line(format_args!("listening on {scheme}://{address}"))?;
            if let Some(address) = memcached_address {
                context.out.line(format_args!("memcached on {address}"))?;
            }
            if let Some(address) = metrics_address {
                let line = format_args!("metrics on {scheme}://{address}/metrics");
                context.out.line(line)?;
            }
        }
        context.out.flush()?;
        let listeners = Listeners {
            http,
            memcached,
            metrics,
        };
        Ok((listeners, stop))
    }
}

/// The token in a file, without the white space around it.
pub(crate) fn read_token(path: &Path) -> Result<String> {
    let failed = |error: &dyn std::fmt::Display| {
        Error::Failed(format!(
            "cannot read the token file {}: {error}",
            path.display()
        ))
    };
    let token = files::read_text(path, TOKEN_BYTES_MAX).map_err(|error| failed(&error))?;
    match token.trim() {
        "" => Err(failed(&"it is empty")),
        token => Ok(token.to_owned()),
    }
}

/// Warns of a token that could be found by trying.
fn warn_of_short(token: &str) {
    if token.len() < TOKEN_CHARS_LEAST {
        tracing::warn!(
            "the token has {} characters, so it may be guessed; `quire token create` makes tokens \
             of 192 random bits",
            token.len()
        );
    }
}

/// An address to listen on. The host may be a name, such as `localhost`.
fn address(text: &str) -> std::result::Result<SocketAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let found = text.to_socket_addrs();
    let found = found.map_err(|error| format!("{error}; give ADDRESS:PORT"))?;
    // The same address each time: of IPv4, where the name has one.
    let found = found.min_by_key(|address| (address.is_ipv6(), *address));
    found.ok_or_else(|| "the name has no address".to_owned())
}

/// A number of connections.
fn connections(text: &str) -> std::result::Result<u32, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| format!("`{text}` is no number over zero"))
}

/// Listens on an address. Returns the address with the port that the system chose.
fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr)> {
    let failed = |error| cannot_listen(address, &error);
    let listener = quire_server::listen(address).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, address))
}

fn cannot_listen(address: SocketAddr, error: &std::io::Error) -> Error {
    Error::Failed(format!(
        "cannot listen on {address}: {error}; port 0, as in {}, takes a free port",
        SocketAddr::new(address.ip(), 0)
    ))
}

/// Reads the certificates again at each SIGHUP, and opens frozen files that are new. If they can't
/// be used, those before stay.
fn reload_on_hangup(tls: Option<Tls>, frozen: Vec<FrozenCollection>) -> Result<()> {
    let hangup = signal(SignalKind::hangup());
    let mut hangup =
        hangup.map_err(|error| Error::Failed(format!("cannot wait for signals: {error}")))?;
    tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            let (tls, frozen) = (tls.clone(), frozen.clone());
            let reload = move || {
                match tls.map(|tls| tls.reload()) {
                    Some(Ok(())) => tracing::info!("the certificates were read again"),
                    Some(Err(error)) => {
                        tracing::warn!("{error}; the certificates stay as they were");
                    }
                    None => {}
                }
                for collection in &frozen {
                    refresh_frozen(collection, &BTreeSet::new());
                }
            };
            // An error says that the task panicked: then nothing has changed.
            let _ = tokio::task::spawn_blocking(reload).await;
        }
    });
    Ok(())
}

/// Ends with the first signal; the second one ends the process.
async fn first(mut signals: Signals) {
    signals.next().await;
    tracing::info!("stopping; a second signal stops it at once");
    tokio::spawn(async move {
        signals.next().await;
        std::process::exit(1);
    });
}
