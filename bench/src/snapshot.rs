//! Counts by value: a frozen partition beside Lucene, SQLite and H2, on YoctoDB's published
//! micro-benchmark.
//!
//! `SELECT COUNT(id) FROM test WHERE f = ?` with f = md5(id % 10), and the same of two fields, `AND
//! g = ?` with g = md5(id % 7). Quire has the documents in one file or in many, in several layouts;
//! its peers have one index. Each engine is measured by a process of its own, in rounds whose
//! order turns; each builds its files anew, warms up for as long as it is measured, and answers on
//! one thread. All answers of all engines are compared.

pub(crate) mod cars;
mod engines;
pub(crate) mod flat;
mod layout;
pub(crate) mod market;
mod queries;
pub(crate) mod rows;

use crate::Result;
use crate::measure::{in_directory, spread};
use crate::results::{Better, Results};
use engines::{Frozen, Sqlite};
use layout::Layout;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Different values of f and of g.
const VALUES: [u64; 2] = [10, 7];

/// Quire first: the others are measured against it.
const ENGINES: [&str; 4] = ["quire", "lucene", "sqlite", "h2"];

/// What to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct Plan {
    /// Documents
    #[arg(long, default_value_t = 1_000_000)]
    count: u64,
    /// Which documents are in which file of Quire
    #[arg(long, value_delimiter = ',', default_value = "one")]
    layout: Vec<Layout>,
    /// Measure all layouts
    #[arg(long)]
    all_layouts: bool,
    /// Files, in the layouts that have no number of their own
    #[arg(long, default_value_t = 1024)]
    files: u64,
    /// Rounds
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Seconds for which each kind of query runs
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Only these engines
    #[arg(long, value_delimiter = ',', default_values_t = ENGINES.map(String::from))]
    engines: Vec<String>,
    /// The peers that run on the JVM, as Maven built them
    #[arg(long, default_value = "target/peers")]
    peers: PathBuf,
    /// Where files are kept meanwhile: a directory that is made and removed
    #[arg(long, default_value = "target/bench-snapshot")]
    dir: PathBuf,
}

/// One engine, measured once by this process.
#[derive(Debug, clap::Args)]
pub(crate) struct Task {
    engine: String,
    count: u64,
    layout: Layout,
    files: u64,
    dir: PathBuf,
    seconds: f64,
}

/// What one engine gave for one kind of query; a line of JSON.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Measured {
    engine: String,
    query: String,
    queries: u64,
    mean_micros: f64,
    cpu_micros: f64,
    p50_micros: f64,
    p99_micros: f64,
    build_cpu_seconds: f64,
    disk_bytes: u64,
    answers: Vec<u64>,
}

/// Documents that can be counted.
trait Engine: Sized {
    /// A query that is ready to be executed.
    type Question;
    /// Builds them below a directory.
    fn build(dir: &Path, documents: &Documents) -> Result<Self>;
    /// The query for the number of documents with this value of f and, if given, this value of g.
    fn question(f: &str, g: Option<&str>) -> Result<Self::Question>;
    /// Answers a question.
    fn count(&self, question: &Self::Question) -> Result<u64>;
}

/// The documents: `count` of them. The value of f, and of g, is chosen by the number of the
/// document modulo the number of values.
#[derive(Debug)]
struct Documents {
    count: u64,
    layout: Layout,
    /// Files, in the layouts that have no number of their own.
    files: u64,
    f: Vec<String>,
    g: Vec<String>,
}

impl Documents {
    fn new(task: &Task) -> Documents {
        let [f, g] = VALUES.map(|values| (0..values).map(md5_hex).collect());
        Documents {
            count: task.count,
            layout: task.layout,
            files: task.files,
            f,
            g,
        }
    }

    /// The numbers of the documents of each file.
    fn files(&self) -> Vec<Vec<u64>> {
        self.layout.files(self.count, self.files)
    }

    /// The values of f and g of a document.
    fn row(&self, id: u64) -> (u64, &str, &str) {
        let value = |values: &'_ [String]| (id % values.len() as u64) as usize;
        (id, &self.f[value(&self.f)], &self.g[value(&self.g)])
    }

    /// The values of f and g of each, in order.
    fn rows(&self) -> impl Iterator<Item = (u64, &str, &str)> {
        let (f, g) = (self.f.iter().cycle(), self.g.iter().cycle());
        (0..self.count)
            .zip(f.zip(g))
            .map(|(id, (f, g))| (id, f.as_str(), g.as_str()))
    }
}

fn md5_hex(number: u64) -> String {
    use md5::{Digest, Md5};
    let digest = Md5::digest(number.to_string());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Task {
    pub(crate) fn run(&self) -> Result<()> {
        let documents = Documents::new(self);
        let measured = match self.engine.as_str() {
            "quire" => queries::measure::<Frozen>("quire", &self.dir, &documents, self.seconds)?,
            "sqlite" => queries::measure::<Sqlite>("sqlite", &self.dir, &documents, self.seconds)?,
            other => return Err(format!("no engine {other}").into()),
        };
        for measured in measured {
            println!("{}", serde_json::to_string(&measured)?);
        }
        Ok(())
    }
}

impl Plan {
    pub(crate) fn run(&self, results: &Results) -> Result<()> {
        let layouts = match self.all_layouts {
            true => Layout::ALL.to_vec(),
            false => self.layout.clone(),
        };
        layouts
            .into_iter()
            .try_for_each(|layout| in_directory(&self.dir, || self.measure(layout, results)))
    }

    fn measure(&self, layout: Layout, results: &Results) -> Result<()> {
        // By kind of query and engine, round after round.
        let mut all: BTreeMap<(String, String), Vec<Measured>> = BTreeMap::new();
        for round in 0..self.rounds {
            let mut engines = self.engines.clone();
            let turn = round % engines.len().max(1);
            engines.rotate_left(turn);
            for engine in engines {
                for measured in self.engine(&engine, layout)? {
                    eprintln!("round {round}: {}", serde_json::to_string(&measured)?);
                    let key = (measured.query.clone(), engine.clone());
                    all.entry(key).or_default().push(measured);
                }
            }
        }
        self.compare(&all)?;
        println!("\nLayout {}.", layout.name());
        self.table(&all);
        // The figures that are compared from version to version are of one file.
        if layout == Layout::One {
            self.add_to(results, &all);
        }
        Ok(())
    }

    /// Measures an engine once, by a process of its own.
    fn engine(&self, engine: &str, layout: Layout) -> Result<Vec<Measured>> {
        let dir = self.dir.join(engine);
        let mut command = match engine {
            "lucene" | "h2" => {
                let mut java = Command::new("java");
                let jars = format!("{0}/peers-0.1.0.jar:{0}/libraries/*", self.peers.display());
                java.args(["-cp", &jars, "quire.Main", engine]);
                java.arg(self.count.to_string()).arg(&dir);
                java.arg(self.seconds.to_string());
                java
            }
            _ => {
                let mut this = Command::new(std::env::current_exe()?);
                this.arg("snapshot-task").arg(engine);
                this.arg(self.count.to_string()).arg(layout.name());
                this.arg(self.files.to_string()).arg(&dir);
                this.arg(self.seconds.to_string());
                this
            }
        };
        let output = command.stderr(Stdio::inherit()).output()?;
        if !output.status.success() {
            return Err(format!("{engine}: {}", output.status).into());
        }
        std::fs::remove_dir_all(&dir)?;
        let lines = std::str::from_utf8(&output.stdout)?.lines();
        lines.map(|line| Ok(serde_json::from_str(line)?)).collect()
    }

    fn compare(&self, all: &BTreeMap<(String, String), Vec<Measured>>) -> Result<()> {
        let mut expected: BTreeMap<&str, &Measured> = BTreeMap::new();
        for ((query, _), rounds) in all {
            for measured in rounds {
                let first = expected.entry(query).or_insert(measured);
                if first.answers != measured.answers {
                    let (a, b) = (&first.engine, &measured.engine);
                    return Err(format!("{query}: {a} and {b} answer differently").into());
                }
            }
        }
        Ok(())
    }

    fn add_to(&self, results: &Results, all: &BTreeMap<(String, String), Vec<Measured>>) {
        let less = Better::Less;
        for ((query, engine), rounds) in all {
            let add = |name: &str, unit, of: fn(&Measured) -> f64| {
                let values: Vec<_> = rounds.iter().map(of).collect();
                results.add(name, unit, less, engine, &values);
            };
            add(&format!("{query}, mean"), "µs", |one| one.mean_micros);
            add(&format!("{query}, p50"), "µs", |one| one.p50_micros);
            add(&format!("{query}, p99"), "µs", |one| one.p99_micros);
            add("built", "CPU s", |one| one.build_cpu_seconds);
            add("on disk", "MB", |one| one.disk_bytes as f64 / 1e6);
            let quire = all.get(&(query.clone(), "quire".to_owned()));
            if let (Some(quire), "lucene") = (quire, engine.as_str()) {
                let pairs = rounds.iter().zip(quire);
                let ratios: Vec<_> = pairs
                    .map(|(lucene, quire)| lucene.mean_micros / quire.mean_micros)
                    .collect();
                let name = format!("{query}, Lucene's mean, of Quire's");
                results.add(&name, "ratio", Better::More, "quire", &ratios);
            }
        }
    }

    fn table(&self, all: &BTreeMap<(String, String), Vec<Measured>>) {
        println!(
            "{} documents, {} rounds; all answers agree.\n",
            self.count, self.rounds
        );
        println!(
            "| count by | engine | mean, µs | p50, µs | p99, µs | CPU, µs | times Quire's mean \
             | built in CPU s | MB on disk |"
        );
        println!("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
        for ((query, engine), rounds) in all {
            let of = |figure: fn(&Measured) -> f64| rounds.iter().map(figure).collect::<Vec<_>>();
            let quire = all.get(&(query.clone(), ENGINES[0].to_owned()));
            let ratios = quire.map(|quire| {
                let pairs = rounds.iter().zip(quire);
                spread(
                    pairs
                        .map(|(peer, quire)| peer.mean_micros / quire.mean_micros)
                        .collect(),
                )
            });
            println!(
                "| {query} | {engine} | {} | {} | {} | {} | {} | {} | {} |",
                spread(of(|measured| measured.mean_micros)),
                spread(of(|measured| measured.p50_micros)),
                spread(of(|measured| measured.p99_micros)),
                spread(of(|measured| measured.cpu_micros)),
                ratios.unwrap_or_default(),
                spread(of(|measured| measured.build_cpu_seconds)),
                spread(of(|measured| measured.disk_bytes as f64 / 1e6)),
            );
        }
    }
}
