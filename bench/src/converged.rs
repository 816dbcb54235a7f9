//! The live index beside its peers: every figure of an engine comes from a process of its own, in
//! rounds whose order turns, and answers are compared before anything is said of times.
//!
//! ```text
//! quire-bench converged --parts ids,ingest --peers quire,tantivy --count 1000000 --rounds 3
//! ```
//! The parent writes the documents to files, then starts for each part, engine and round a *task*:
//! itself again, or a peer's program. A task prints a [`Report`] as its last line.

mod add;
mod answers;
mod choice;
mod documents;
mod fresh;
mod ids;
mod ingest;
mod live;
mod opensearch;
mod patch;
mod quire;
mod serve;
#[cfg(feature = "peers")]
mod tantivy;

use crate::Result;
use crate::measure::{in_directory, median};
use crate::results::{Better, Results};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Part {
    /// The ids of documents with a value
    Ids,
    /// Loading generated adverts with every field indexed
    IngestAdverts,
    /// Loading papers of arXiv with every field indexed
    IngestPapers,
    /// Queries of adverts that change
    Live,
    /// The same kinds of queries over HTTP
    Serve,
    /// One field of wide documents updated
    Patch,
    /// Lag and latency beside a writer
    Fresh,
    /// An index of one more field
    Add,
    /// The planner's choice beside every way that can be forced
    Choice,
}

/// Who is measured.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
enum Engine {
    /// Quire with every field indexed
    Quire,
    /// Quire without an index
    QuireNone,
    Croaring,
    /// RocksDB with a key for each value and 65,536 documents, and a merge operator
    RocksdbClustered,
    /// RocksDB with a key for each value and document
    RocksdbKeys,
    Tantivy,
    /// Lucene; its near-real-time reader is made anew once a second
    Lucene,
    /// Lucene; its near-real-time reader is made anew for each query
    LuceneFresh,
    Opensearch,
}

impl Engine {
    fn text(self) -> &'static str {
        match self {
            Engine::Quire => "quire",
            Engine::QuireNone => "quire-none",
            Engine::Croaring => "croaring",
            Engine::RocksdbClustered => "rocksdb-clustered",
            Engine::RocksdbKeys => "rocksdb-keys",
            Engine::Tantivy => "tantivy",
            Engine::Lucene => "lucene",
            Engine::LuceneFresh => "lucene-fresh",
            Engine::Opensearch => "opensearch",
        }
    }
}

impl Part {
    /// Who can be measured in it.
    fn engines(self) -> &'static [Engine] {
        use Engine::{
            Croaring, Lucene, LuceneFresh, Opensearch, Quire, QuireNone, RocksdbClustered,
            RocksdbKeys, Tantivy,
        };
        match self {
            Part::Ids => &[Quire, Croaring, RocksdbClustered, RocksdbKeys, Tantivy],
            Part::IngestAdverts | Part::IngestPapers => {
                &[Quire, QuireNone, Tantivy, Lucene, Opensearch]
            }
            Part::Live => &[Quire, Lucene, LuceneFresh],
            Part::Serve => &[Quire, Opensearch],
            Part::Patch => &[Quire, Lucene, Opensearch],
            Part::Fresh | Part::Add | Part::Choice => &[Quire],
        }
    }

    fn text(self) -> &'static str {
        match self {
            Part::Ids => "ids",
            Part::IngestAdverts => "load adverts",
            Part::IngestPapers => "load papers",
            Part::Live => "live",
            Part::Serve => "over HTTP",
            Part::Patch => "update a field",
            Part::Fresh => "fresh",
            Part::Add => "add an index",
            Part::Choice => "planner",
        }
    }
}

/// The parts that need no file.
const PARTS: [Part; 8] = [
    Part::Ids,
    Part::IngestAdverts,
    Part::Live,
    Part::Serve,
    Part::Patch,
    Part::Fresh,
    Part::Add,
    Part::Choice,
];

const ENGINES: [Engine; 9] = [
    Engine::Quire,
    Engine::QuireNone,
    Engine::Croaring,
    Engine::RocksdbClustered,
    Engine::RocksdbKeys,
    Engine::Tantivy,
    Engine::Lucene,
    Engine::LuceneFresh,
    Engine::Opensearch,
];

/// What to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct Plan {
    /// Which parts; papers only if there is a file of them
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = PARTS)]
    parts: Vec<Part>,
    /// Which engines, of those that a part has
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = ENGINES)]
    peers: Vec<Engine>,
    /// How often everything is measured; the order of the engines is turned round each time
    #[arg(long, default_value_t = 1)]
    rounds: u32,
    #[command(flatten)]
    setup: Setup,
}

/// What a task is to know.
#[derive(Debug, Clone, clap::Args, Serialize, Deserialize)]
pub(crate) struct Setup {
    /// Documents
    #[arg(long, default_value_t = 1_000_000)]
    count: u64,
    /// Documents of the part `ids`; as many as elsewhere if it is not said
    #[arg(long)]
    ids: Option<u64>,
    /// Wide documents, in the part that updates them
    #[arg(long, default_value_t = 100_000)]
    wide: u64,
    /// Questions of each kind
    #[arg(long, default_value_t = 200)]
    questions: u64,
    /// Seconds for which a kind of question over HTTP, or beside a writer, is executed
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Updates in a second while questions are executed
    #[arg(long, default_value_t = 1000)]
    rate: u64,
    /// Updates in a second, in the part about freshness
    #[arg(long, default_value_t = 20_000)]
    full_rate: u64,
    /// Where the queries of the part about the planner begin
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Memory of an engine in MiB
    #[arg(long, value_name = "MIB", default_value_t = 1024)]
    memory_mib: u64,
    /// Papers as NDJSON
    #[arg(long, value_name = "FILE")]
    papers: Option<PathBuf>,
    /// The `quire` command
    #[arg(long, default_value = "../target/release/quire")]
    quire: PathBuf,
    /// The peers that run on the JVM, as Maven built them
    #[arg(long, default_value = "target/peers")]
    jars: PathBuf,
    /// The peers in C++
    #[arg(long, default_value = "target/kv-peers")]
    kv_peers: PathBuf,
    /// Where `peers/opensearch.sh` has installed OpenSearch
    #[arg(long, default_value = "target/opensearch")]
    opensearch: PathBuf,
    /// Where documents and databases are kept meanwhile: a directory that is made and removed
    #[arg(long, default_value = "target/bench-converged")]
    dir: PathBuf,
}

/// One engine measured once, in this process.
#[derive(Debug, clap::Args)]
pub(crate) struct Task {
    /// A [`Work`] as JSON
    work: String,
}

/// A task, as it is handed to a process.
#[derive(Debug, Serialize, Deserialize)]
struct Work {
    part: Part,
    engine: Engine,
    setup: Setup,
}

/// What a task found out.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Report {
    /// Name, unit, value.
    figures: Vec<(String, String, f64)>,
    /// By name of the question: what all engines must agree on.
    answers: BTreeMap<String, Vec<u64>>,
}

impl Report {
    fn add(&mut self, name: impl Into<String>, unit: &str, value: f64) {
        self.figures.push((name.into(), unit.to_owned(), value));
    }

    fn answer(&mut self, name: impl Into<String>, values: Vec<u64>) {
        self.answers.insert(name.into(), values);
    }
}

impl Setup {
    /// Where the engine under test keeps its files.
    fn engine_dir(&self) -> PathBuf {
        self.dir.join("engine")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn memory_bytes(&self) -> u64 {
        self.memory_mib << 20
    }

    /// A program of the peers on the JVM.
    fn java(&self, class: &str) -> Command {
        let mut java = Command::new("java");
        let jars = format!("{0}/peers-0.1.0.jar:{0}/libraries/*", self.jars.display());
        java.args(["-Xmx2g", "-XX:+UseSerialGC", "-cp", &jars]);
        java.arg(format!("quire.{class}"));
        java
    }
}

impl Task {
    pub(crate) fn run(&self) -> Result<()> {
        let Work {
            part,
            engine,
            setup,
        } = serde_json::from_str(&self.work)?;
        // As `quire serve` does: a page of 2 MiB is cleared for the first byte that is used of it.
        // Servers decide for themselves, and a process that they start would inherit it.
        if engine != Engine::Opensearch {
            rustix::thread::disable_transparent_huge_pages(true)?;
        }
        let report = match part {
            Part::Ids => ids::run(engine, &setup),
            Part::IngestAdverts | Part::IngestPapers => ingest::run(part, engine, &setup),
            Part::Live => live::run(&setup),
            Part::Serve => serve::run(engine, &setup),
            Part::Patch => patch::run(engine, &setup),
            Part::Fresh => fresh::run(&setup),
            Part::Add => add::run(&setup),
            Part::Choice => choice::run(&setup),
        }?;
        println!("{}", serde_json::to_string(&report)?);
        Ok(())
    }
}

/// What one engine reported of one part, round by round.
type Rounds = BTreeMap<Engine, Vec<Report>>;

impl Plan {
    pub(crate) fn run(&self, results: &Results) -> Result<()> {
        in_directory(&self.setup.dir, || {
            for part in &self.parts {
                self.prepare(*part)?;
                let rounds = self.measure(*part)?;
                compare(*part, &rounds)?;
                print(*part, &rounds, results);
            }
            Ok(())
        })
    }

    /// Writes the files that the engines read.
    fn prepare(&self, part: Part) -> Result<()> {
        match part {
            Part::IngestAdverts => ingest::prepare_adverts(&self.setup),
            Part::IngestPapers => ingest::prepare_papers(&self.setup),
            Part::Live => live::prepare(&self.setup),
            Part::Patch => patch::prepare(&self.setup),
            Part::Ids | Part::Serve | Part::Fresh | Part::Add | Part::Choice => Ok(()),
        }
    }

    fn measure(&self, part: Part) -> Result<Rounds> {
        let mut setup = self.setup.clone();
        if let (Part::Ids, Some(ids)) = (part, setup.ids) {
            setup.count = ids;
        }
        let known = part.engines().iter().copied();
        let mut engines: Vec<_> = known.filter(|one| self.peers.contains(one)).collect();
        let mut rounds = Rounds::new();
        for _ in 0..self.rounds {
            for engine in &engines {
                let report = task(part, *engine, &setup)?;
                rounds.entry(*engine).or_default().push(report);
            }
            engines.reverse();
        }
        Ok(rounds)
    }
}

/// Measures one engine in a process of its own.
fn task(part: Part, engine: Engine, setup: &Setup) -> Result<Report> {
    // What earlier tasks wrote is on disk before this one is timed.
    Command::new("sync").status()?;
    let mut command = match (part, engine) {
        (Part::Ids, Engine::RocksdbClustered | Engine::RocksdbKeys) => ids::rocksdb(engine, setup),
        (Part::IngestAdverts | Part::IngestPapers, Engine::Lucene) => ingest::lucene(setup),
        (Part::Live, Engine::Lucene | Engine::LuceneFresh) => live::lucene(engine, setup),
        (Part::Patch, Engine::Lucene) => patch::lucene(setup),
        _ => {
            let mut this = Command::new(std::env::current_exe()?);
            let setup = setup.clone();
            let work = Work {
                part,
                engine,
                setup,
            };
            this.arg("converged-task");
            this.arg(serde_json::to_string(&work)?);
            this
        }
    };
    std::fs::create_dir_all(setup.engine_dir())?;
    let output = command.stderr(Stdio::inherit()).output()?;
    std::fs::remove_dir_all(setup.engine_dir())?;
    let said = String::from_utf8(output.stdout)?;
    let last = said.lines().last().filter(|_| output.status.success());
    let last = last.ok_or_else(|| format!("{part:?} of {engine:?}: {}", output.status))?;
    eprintln!("{} of {}: {last}", part.text(), engine.text());
    Ok(serde_json::from_str(last)?)
}

/// Every answer that two engines gave is the same.
fn compare(part: Part, rounds: &Rounds) -> Result<()> {
    let mut known: BTreeMap<&str, (&Vec<u64>, Engine)> = BTreeMap::new();
    for (engine, reports) in rounds {
        for (question, answer) in reports.iter().flat_map(|report| &report.answers) {
            let (first, by) = *known.entry(question).or_insert((answer, *engine));
            if first != answer {
                let at = first.iter().zip(answer).position(|(a, b)| a != b);
                let what = format!(
                    "{}: {} and {} differ in '{question}', at {at:?}",
                    part.text(),
                    by.text(),
                    engine.text()
                );
                return Err(what.into());
            }
        }
    }
    Ok(())
}

/// Prints medians and spreads as a table in Markdown, and adds them to the results.
fn print(part: Part, rounds: &Rounds, results: &Results) {
    let mut names: Vec<(&str, &str)> = Vec::new();
    for (name, unit, _) in rounds.values().flatten().flat_map(|report| &report.figures) {
        if !names.contains(&(name, unit)) {
            names.push((name, unit));
        }
    }
    print!("\n| {} | unit |", part.text());
    for engine in rounds.keys() {
        print!(" {} |", engine.text());
    }
    println!("\n| --- | --- |{}", " ---: |".repeat(rounds.len()));
    for (name, unit) in names {
        let better = match unit.ends_with("/s") {
            true => Better::More,
            false => Better::Less,
        };
        print!("| {name} | {unit} |");
        let mut quire = f64::NAN;
        for (engine, reports) in rounds {
            let figures = reports.iter().flat_map(|report| &report.figures);
            let values = figures.filter(|figure| figure.0 == name && figure.1 == unit);
            let values: Vec<f64> = values.map(|figure| figure.2).collect();
            if values.is_empty() {
                print!(" |");
                continue;
            }
            results.add(
                &format!("{}, {name}", part.text()),
                unit,
                better,
                engine.text(),
                &values,
            );
            let middle = median(values.clone());
            print!(" {}", short(&values));
            match engine {
                Engine::Quire => quire = middle,
                _ if quire > 0.0 => print!(", {:.2} ×", middle / quire),
                _ => {}
            }
            print!(" |");
        }
        println!();
    }
}

/// The median with three digits, and the ends where there is more than one value.
fn short(values: &[f64]) -> String {
    let digits = |value: f64| match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    };
    let middle = digits(median(values.to_vec()));
    match values {
        [_] => middle,
        _ => {
            let least = values.iter().copied().fold(f64::INFINITY, f64::min);
            let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            format!("{middle} ({} to {})", digits(least), digits(most))
        }
    }
}
