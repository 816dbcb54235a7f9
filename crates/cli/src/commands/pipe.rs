//! `quire pipe`: ships the changes of a source to search clusters, servers and files.

mod dashboard;
mod lanes;
mod listen;

use crate::error::{Error, Result};
use crate::message::print_message;
use crate::output::Output;
use crate::size::{count, counted};
use crate::{Context, database};
use dashboard::Dashboard;
use lanes::Lanes;
use parking_lot::Mutex;
use quire_ship::{
    CollectionSource, Failure, PipeConfig, Progress, Retried, Server, ShipOptions, SinkConfig,
    Source, Target, retry, ship, status,
};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Keep search clusters, servers and files in step with a source
#[derive(Debug, clap::Args)]
#[command(after_help = "\
FILE is TOML: a [source] (a collection of a server or a directory, or files), and a [[sink]] for
each place that the changes go to. Positions are kept in FILE.state, so a run goes on where the last
one was, however that ended.

  [source]
  url = \"http://127.0.0.1:9200\"
  collection = \"tracks\"

  [[sink]]
  name = \"search\"
  kind = \"opensearch\"               # elasticsearch, quire, kafka, ndjson, parquet
  url = \"http://127.0.0.1:9201\"
  index = \"tracks\"

Examples:
  quire pipe check tracks.toml       what it says, and whether the servers answer
  quire pipe run tracks.toml         until interrupted
  quire pipe run tracks.toml --once  until all sinks are level
  quire pipe status tracks.toml      the stored positions
  quire pipe retry tracks.toml       sends again what sinks refused")]
pub(crate) struct Pipe {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Say what a file means, and whether its servers answer
    Check {
        /// The file of the pipe
        file: PathBuf,
    },
    /// Ship until interrupted
    Run {
        /// The file of the pipe
        file: PathBuf,
        /// End when every sink has all that the source has
        #[arg(long)]
        once: bool,
        /// The seconds between two lines of progress
        #[arg(long, value_name = "SECONDS", default_value_t = 1,
            value_parser = clap::value_parser!(u64).range(1..=3600))]
        every: u64,
        /// Serve /metrics (Prometheus) and /health on this address
        #[arg(long, value_name = "HOST:PORT")]
        listen: Option<String>,
    },
    /// Send dead letters again: documents that a sink refused, after what was wrong is mended
    Retry {
        /// The file of the pipe
        file: PathBuf,
        /// Only those of this sink
        #[arg(long, value_name = "NAME")]
        sink: Option<String>,
    },
    /// Show the stored position of each sink
    Status {
        /// The file of the pipe
        file: PathBuf,
    },
}

impl Pipe {
    pub(super) fn run(self, context: &mut Context) -> Result<()> {
        match self.what {
            What::Check { file } => check(context, &file),
            What::Run {
                file,
                once,
                every,
                listen,
            } => run(context, &file, once, Duration::from_secs(every), listen),
            What::Retry { file, sink } => retry_letters(context, &file, sink.as_deref()),
            What::Status { file } => show_status(context, &file),
        }
    }
}

/// The error of a pipe: a wrong file is a wrong use.
pub(super) fn failed(error: quire_ship::Error) -> Error {
    match error {
        quire_ship::Error::Config(why) => Error::Usage(why),
        error => Error::Failed(crate::error::causes(&error)),
    }
}

pub(super) fn read(context: &Context, file: &Path) -> Result<PipeConfig> {
    PipeConfig::read(&*context.env, file).map_err(failed)
}

fn check(context: &mut Context, file: &Path) -> Result<()> {
    let config = read(context, file)?;
    let mut is_reachable = true;
    let opened = open_source(context, &config)?;
    let source = opened.source();
    let mut rows = vec![(
        "source".to_owned(),
        source.identity(),
        source.open(None).map(drop),
    )];
    for sink in &config.sinks {
        let (what, end) = match sink_server(context, sink)? {
            Ok(what) => (what, Ok(())),
            Err(error) => (sink.url.clone().unwrap_or_default(), Err(error)),
        };
        rows.push((format!("sink {}", sink.name), what, end));
    }
    for (part, what, end) in rows {
        let why = end.err().map(|error| error.to_string());
        is_reachable &= why.is_none();
        let lines = match (part.as_str(), &why) {
            ("source", None) => source.describe().map_err(failed)?,
            _ => Vec::new(),
        };
        if context.out.is_json() {
            let line = json!({"part": part, "what": what, "ok": why.is_none(), "error": why,
                "documents": lines});
            context.out.json_line(&line)?;
        } else {
            let why = why.map_or_else(|| "ok".to_owned(), |why| format!("FAILS: {why}"));
            context.out.line(format_args!("{part}: {what}: {why}"))?;
            for line in lines {
                context.out.line(format_args!("  {line}"))?;
            }
        }
    }
    if !context.out.is_json() {
        let state = config.state();
        context.out.line(format_args!(
            "positions and dead letters: {}",
            state.display()
        ))?;
    }
    match is_reachable {
        true => Ok(()),
        false => Err(Error::Reported),
    }
}

/// What a sink is, if it answers.
fn sink_server(
    context: &Context,
    sink: &SinkConfig,
) -> Result<std::result::Result<String, quire_ship::Error>> {
    if let Some(directory) = &sink.directory {
        return Ok(Ok(format!("files in {}", directory.display())));
    }
    let away = |failure: Failure| quire_ship::Error::Sink {
        sink: sink.name.clone(),
        reason: failure.reason().to_owned(),
    };
    #[cfg(feature = "kafka")]
    if sink.kind == "kafka" {
        return Ok(kafka_sink(context, sink)?.describe().map_err(away));
    }
    let http = sink.http(&*context.env).map_err(failed)?;
    let index = sink.index.as_deref().unwrap_or_default();
    let found = Server::of(&http).map(|server| {
        let (flavor, version) = (server.flavor, server.version);
        format!("{}/{index}, {flavor} {version}", http.url())
    });
    Ok(found.map_err(away))
}

#[cfg(feature = "kafka")]
fn kafka_sink(context: &Context, sink: &SinkConfig) -> Result<quire_kafka::KafkaSink> {
    let options = quire_kafka::KafkaSinkOptions::new(&*context.env, sink);
    let options = options.map_err(failed)?;
    quire_kafka::KafkaSink::new(context.env.clone(), options).map_err(failed)
}

/// A sink to ship to.
fn target(context: &Context, sink: &SinkConfig) -> Result<Target> {
    if sink.kind != "kafka" {
        return sink.target(&context.env).map_err(failed);
    }
    #[cfg(feature = "kafka")]
    return Ok(sink.target_of(Arc::new(kafka_sink(context, sink)?)));
    #[cfg(not(feature = "kafka"))]
    Err(Error::Usage(
        "this program was built without the sink kafka".to_owned(),
    ))
}

/// A source, with what keeps it open.
pub(super) enum Opened {
    There(Box<dyn Source>),
    Directory {
        source: Box<dyn Source>,
        _database: quiredb::Database,
    },
}

impl Opened {
    /// The source.
    pub(super) fn source(&self) -> &dyn Source {
        match self {
            Opened::There(source) | Opened::Directory { source, .. } => &**source,
        }
    }
}

pub(super) fn open_source(context: &Context, config: &PipeConfig) -> Result<Opened> {
    if let Some(kind) = config.source.kind.as_ref().filter(|kind| *kind != "http") {
        let source = named_source(context, config, kind)?;
        let source = config.source.mapped(&*context.env, source);
        return source.map(Opened::There).map_err(failed);
    }
    let source = config.source.open(&context.env).map_err(failed)?;
    let (directory, collection) = (&config.source.directory, &config.source.collection);
    match (source, directory, collection) {
        (Some(source), ..) => config
            .source
            .mapped(&*context.env, source)
            .map(Opened::There)
            .map_err(failed),
        (None, Some(directory), Some(name)) => {
            let database = database::open_existing(context, directory)?;
            let collection = database::collection(&database, directory, name)?;
            let identity = format!("{}/{name}", directory.display());
            let source = Box::new(CollectionSource::new(collection, identity, false));
            Ok(Opened::Directory {
                source: config
                    .source
                    .mapped(&*context.env, source)
                    .map_err(failed)?,
                _database: database,
            })
        }
        (None, ..) => Err(Error::Usage("[source] names nothing to read".to_owned())),
    }
}

/// A source of a type that a crate of its own reads.
fn named_source(context: &Context, config: &PipeConfig, kind: &str) -> Result<Box<dyn Source>> {
    match kind {
        #[cfg(feature = "mysql")]
        "mysql" => {
            let options = quire_mysql::MysqlOptions::new(&*context.env, &config.source);
            let options = options.map_err(failed)?;
            let source = quire_mysql::MysqlSource::new(context.env.clone(), options);
            Ok(Box::new(source))
        }
        #[cfg(feature = "postgres")]
        "postgres" => {
            let options = quire_postgres::PostgresOptions::new(&*context.env, &config.source);
            let options = options.map_err(failed)?;
            let source = quire_postgres::PostgresSource::new(context.env.clone(), options);
            Ok(Box::new(source))
        }
        #[cfg(feature = "kafka")]
        "kafka" => {
            let options = quire_kafka::KafkaOptions::new(&*context.env, &config.source);
            let options = options.map_err(failed)?;
            Ok(Box::new(quire_kafka::KafkaSource::new(options)))
        }
        _ => Err(Error::Usage(format!(
            "this program was built without the source {kind}"
        ))),
    }
}

fn run(
    context: &mut Context,
    file: &Path,
    once: bool,
    every: Duration,
    listen: Option<String>,
) -> Result<()> {
    let config = read(context, file)?;
    if let (Some(directory), false) = (&config.source.directory, once) {
        return Err(Error::Usage(format!(
            "a directory is read as it is now: give --once; or serve it (`quire serve {}`) and \
             give its url and collection as the source, to follow its changes",
            directory.display()
        )));
    }
    let opened = open_source(context, &config)?;
    let source = opened.source();
    for sink in &config.sinks {
        if sink.is_read_by(&*context.env, source).map_err(failed)? {
            return Err(Error::Usage(format!(
                "sink {:?} is the collection that [source] reads. Such a file is for `quire \
                 reindex` only",
                sink.name
            )));
        }
    }
    let targets = config.sinks.iter().map(|sink| target(context, sink));
    let targets: Vec<Target> = targets.collect::<Result<_>>()?;
    let options = ShipOptions {
        state: config.state(),
        once,
        report_every: every,
    };
    let names = || targets.iter().map(|target| target.name.as_str());
    let lanes = Arc::new(Lanes::new(names()));
    if let Some(address) = listen.as_ref().or(config.listen.as_ref()) {
        let bound = listen::listen(address, Arc::clone(&lanes))?;
        if context.out.is_json() {
            let event = json!({"event": "listening", "address": bound.to_string()});
            context.out.json_line(&event)?;
            context.out.flush()?;
        } else {
            print_message(format_args!("metrics: http://{bound}/metrics"));
        }
    }
    let dashboard = match context.out.is_json() {
        true => None,
        false => Dashboard::start(&source.identity(), names()),
    };
    let env = context.env.clone();
    let out = Mutex::new(&mut context.out);
    let observe = |progress: &Progress| {
        lanes.set(progress);
        report(&mut out.lock(), dashboard.as_ref(), progress);
    };
    let ends = ship(&env, source, &targets, &options, &observe, &|| false).map_err(failed)?;
    if let Some(dashboard) = &dashboard {
        dashboard.finish();
    }
    let mut last = None;
    for (end, sink) in ends.into_iter().zip(names()) {
        match end {
            Ok(progress) => print_end(&mut context.out, &progress)?,
            Err(error) => {
                if !lanes.has_failed(sink) {
                    print_message(format_args!("quire: {}", crate::error::causes(&error)));
                }
                last = Some(Error::Reported);
            }
        }
    }
    last.map_or(Ok(()), Err)
}

/// Shows progress: an event on standard output with `--json`, else on the dashboard if there is
/// one, else a line on standard error.
fn report(out: &mut Output, dashboard: Option<&Dashboard>, progress: &Progress) {
    if out.is_json() {
        let event = if progress.failed.is_some() {
            "failed"
        } else {
            "progress"
        };
        // An output that is closed ends the command when the result is printed.
        let _ = out.json_line(&json!({"event": event, "progress": progress}));
        let _ = out.flush();
    }
    if let Some(dashboard) = dashboard {
        dashboard.show(progress);
    }
    match (&progress.failed, dashboard) {
        (Some(why), Some(dashboard)) => dashboard.print(&format!("quire: {why}")),
        (Some(why), None) => print_message(format_args!("quire: {why}")),
        (None, None) if !out.is_json() => print_message(as_line(progress)),
        (None, _) => {}
    }
}

/// Progress as a line.
pub(super) fn as_line(progress: &Progress) -> String {
    let mut line = format!(
        "{}: {} changes, {}/s, {:.1} MB/s",
        progress.sink,
        count(progress.changes),
        count(progress.changes_per_second.round().max(0.0) as u64),
        progress.bytes_per_second / 1e6,
    );
    match (
        progress.is_level,
        progress.lag_changes,
        progress.lag_seconds,
    ) {
        (true, ..) => line.push_str(", level"),
        (false, Some(changes), _) if changes > 0 => {
            line.push_str(&format!(", {} behind", count(changes)));
        }
        (false, _, Some(seconds)) => line.push_str(&format!(", {seconds:.1} s behind")),
        (false, _, None) => {}
    }
    line.push_str(&format!(
        ", {} x {} kB",
        progress.concurrency,
        progress.bulk_bytes / 1000
    ));
    if progress.retries > 0 {
        line.push_str(&format!(", {} retries", count(progress.retries)));
    }
    if progress.dead_letters > 0 {
        line.push_str(&format!(", {} refused", count(progress.dead_letters)));
    }
    if let Some(why) = &progress.waiting_for {
        line.push_str(&format!("; waiting: {why}"));
    }
    line
}

fn print_end(out: &mut Output, progress: &Progress) -> Result<()> {
    if out.is_json() {
        return out.json_line(&json!({"event": "level", "progress": progress}));
    }
    out.line(format_args!(
        "{}: level after {}; {} were there already, {} refused",
        progress.sink,
        counted(progress.changes, "change", "changes"),
        count(progress.had),
        count(progress.dead_letters)
    ))?;
    if !progress.curve.is_empty() {
        let best = progress.best;
        out.line(format_args!(
            "  best found: {} at once of {} kB; measured:",
            best.concurrency,
            best.bulk_bytes / 1000
        ))?;
        for setting in &progress.curve {
            out.line(format_args!(
                "  {:>2} x {:>6} kB  {:>7.1} MB/s",
                setting.concurrency,
                setting.bulk_bytes / 1000,
                setting.bytes_per_second / 1e6
            ))?;
        }
    }
    Ok(())
}

/// Sends the dead letters of all sinks again, or of the one named.
fn retry_letters(context: &mut Context, file: &Path, only: Option<&str>) -> Result<()> {
    let config = read(context, file)?;
    let is_named = |sink: &&SinkConfig| only.is_none_or(|name| sink.name == name);
    let sinks: Vec<&SinkConfig> = config.sinks.iter().filter(is_named).collect();
    if let (Some(name), true) = (only, sinks.is_empty()) {
        return Err(Error::Usage(format!("no sink is named {name:?}")));
    }
    let mut refused = 0;
    for sink in sinks {
        let Some(retried) = retry_of(context, &config, sink)? else {
            continue;
        };
        refused += retried.refused;
        if context.out.is_json() {
            let line = json!({"event": "retried", "sink": sink.name, "sent": retried.sent,
                "had": retried.had, "refused": retried.refused});
            context.out.json_line(&line)?;
            continue;
        }
        context.out.line(format_args!(
            "{}: sent {}; {} were there in a later version, {} refused again",
            sink.name,
            counted(retried.sent, "dead letter", "dead letters"),
            count(retried.had),
            count(retried.refused)
        ))?;
    }
    match refused {
        0 => Ok(()),
        _ => Err(Error::Reported),
    }
}

/// What became of the dead letters of a sink; none if it can have none that are sent again.
fn retry_of(
    context: &mut Context,
    config: &PipeConfig,
    sink: &SinkConfig,
) -> Result<Option<Retried>> {
    if sink.index.is_none() {
        return Ok(None);
    }
    let (env, target) = (context.env.clone(), target(context, sink)?);
    let out = Mutex::new(&mut context.out);
    let observe = |progress: &Progress| {
        report(&mut out.lock(), None, progress);
    };
    let retried = retry(&env, &target, &config.state(), &observe, &|| false);
    retried.map(Some).map_err(failed)
}

fn show_status(context: &mut Context, file: &Path) -> Result<()> {
    let config = read(context, file)?;
    let now = context.env.now_micros();
    for sink in &config.sinks {
        let stored = status(&*context.env, &config.state(), &sink.name).map_err(failed)?;
        if context.out.is_json() {
            context
                .out
                .json_line(&json!({"sink": sink.name, "stored": stored}))?;
            continue;
        }
        match stored {
            None => context.out.line(format_args!("{}: not begun", sink.name))?,
            Some(stored) => {
                let cursor = stored.cursor().to_string();
                let at = if cursor.is_empty() {
                    "the begin"
                } else {
                    &cursor
                };
                context.out.line(format_args!(
                    "{}: {} shipped, {} refused, at {at} of {}, stored {} s ago",
                    sink.name,
                    counted(stored.changes, "change", "changes"),
                    count(stored.dead_letters),
                    stored.source,
                    (now - stored.stored_micros).max(0) / 1_000_000
                ))?;
            }
        }
    }
    Ok(())
}
