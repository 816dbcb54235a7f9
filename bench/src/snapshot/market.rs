//! Car adverts in many partitions: a folder of frozen files beside one index of Lucene, in several
//! layouts.
//!
//! The queries of each kind are executed several times by one thread, then by two at once. The last
//! repetition is measured: the latency of each query, and the CPU time of all. Queries are prepared
//! before they are executed, except those of one kind, and planned and answered again each time.
//! Cold runs begin with no page of the files in the system's cache: files are opened, then
//! questions are answered once.
//! Answers are compared: counts, and a number that stands for the hits, their order and their
//! payloads.

use super::cars::{self, Car, FIELDS, KINDS, MADE_ANEW, Question, SORTED, questions};
use super::layout::{Layout, region_of};
use crate::Result;
use crate::cache::evict_files;
use crate::measure::{Watch, disk_bytes, in_directory, spread, thread_cpu_nanos};
use crate::results::{Better, Results};
use quire_frozen::{
    Access, FieldSpec, FolderOptions, FrozenBuilder, FrozenFolder, FrozenOptions, OpenOptions,
    Snapshot,
};
use quiredb::query::{Options, Prepared, Value, field, find};
use quiredb::{Env, OsEnv, ValueRef};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

/// The number of files that are replaced, one at a time.
const REPLACED: usize = 64;

/// The questions of a cold run.
const COLD_QUESTIONS: usize = 20;

/// The numbers of threads that execute queries at once.
const THREADS: [usize; 2] = [1, 2];

/// What to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct Plan {
    /// Adverts
    #[arg(long, default_value_t = 1_000_000)]
    count: u64,
    /// Files, in the layouts that have no number of their own
    #[arg(long, default_value_t = 1024)]
    files: u64,
    /// Which adverts are in which file
    #[arg(long, value_delimiter = ',', default_value = "region")]
    layout: Vec<Layout>,
    /// Measure all layouts
    #[arg(long)]
    all_layouts: bool,
    /// Only these engines
    #[arg(long, value_delimiter = ',', default_values_t = ["quire", "lucene"].map(String::from))]
    engines: Vec<String>,
    /// Memory for merged fields, in MiB: the curve of latency by memory
    #[arg(long, value_delimiter = ',', default_value = "64")]
    merged_mib: Vec<u64>,
    /// Only these kinds of questions, by their numbers from 0
    #[arg(long, value_delimiter = ',', default_value = "0,1,2,3,4")]
    kinds: Vec<usize>,
    /// Questions of each kind
    #[arg(long, default_value_t = 200)]
    questions: u64,
    /// How often each is executed; the last time counts
    #[arg(long, default_value_t = 5)]
    repeats: u64,
    /// Rounds, each of which builds everything anew
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// The peers that run on the JVM, as Maven built them
    #[arg(long, default_value = "target/peers")]
    peers: PathBuf,
    /// Where files are kept meanwhile: a directory that is made and removed
    #[arg(long, default_value = "target/bench-market")]
    dir: PathBuf,
}

/// Quire, measured once by this process.
#[derive(Debug, clap::Args)]
pub(crate) struct Task {
    count: u64,
    files: u64,
    layout: Layout,
    merged_mib: u64,
    questions: u64,
    repeats: u64,
    dir: PathBuf,
    /// Numbers of kinds of questions
    #[arg(value_delimiter = ',', default_value = "0,1,2,3,4")]
    kinds: Vec<usize>,
}

/// What one engine gave for one kind of question; a line of JSON.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Measured {
    engine: String,
    kind: usize,
    threads: usize,
    cpu_micros: f64,
    p50_micros: f64,
    p95_micros: f64,
    p99_micros: f64,
    build_cpu_seconds: f64,
    disk_bytes: u64,
    answers: Vec<u64>,
}

/// What a cold run of one kind of question took by the clock; a line of JSON.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Cold {
    kind: usize,
    /// Opening the files and the first answer.
    cold_first_millis: f64,
    /// Each of the next answers, on average.
    cold_millis: f64,
}

/// A line of JSON that an engine printed.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Line {
    Warm(Measured),
    Cold(Cold),
}

/// What the rounds gave, by engine.
#[derive(Debug, Default)]
struct Seen {
    /// By kind, number of threads, engine.
    warm: BTreeMap<(usize, usize, String), Vec<Measured>>,
    /// By kind, engine.
    cold: BTreeMap<(usize, String), Vec<Cold>>,
}

/// The adverts in files.
struct Market {
    folder: FrozenFolder,
}

/// The files of a task, built anew unless they are there.
fn build(task: &Task) -> Result<()> {
    if task.dir.join("0000.quire").is_file() {
        return Ok(());
    }
    std::fs::create_dir_all(&task.dir)?;
    let env: Arc<dyn Env> = OsEnv::new()?;
    let files = task.layout.files(task.count, task.files);
    let next = AtomicUsize::new(0);
    // As many files at once as there are threads.
    std::thread::scope(|scope| {
        let work = || {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(ids) = files.get(number) else {
                    return Ok(());
                };
                build_file(&env, task, number, ids)?;
            }
        };
        let running = THREADS.map(|_| scope.spawn(work));
        running.into_iter().try_for_each(|one| {
            let done: Result<()> = one.join().map_err(|_| "a thread panicked")?;
            done
        })
    })
}

fn build_file(env: &Arc<dyn Env>, task: &Task, number: usize, ids: &[u64]) -> Result<()> {
    let specs = FIELDS.map(|(name, _)| FieldSpec {
        sortable: SORTED.contains(&name) || name == "id",
        filterable: name != "id",
        ..FieldSpec::full(name)
    });
    let options = FrozenOptions {
        documents: false,
        ..FrozenOptions::default()
    };
    let path = task.dir.join(format!("{number:04}.quire"));
    let mut builder = FrozenBuilder::create(Arc::clone(env), &path, &specs, options)?;
    let (mut car, regions) = (Car::default(), task.layout.regions(task.files));
    for id in ids {
        car.make(*id, region_of(*id, regions, task.count));
        for (at, (value, (_, is_number))) in car.values().zip(FIELDS).enumerate() {
            match is_number {
                true => builder.set(at, ValueRef::Int(value.parse()?))?,
                false => builder.set(at, ValueRef::String(value))?,
            }
        }
        builder.end(car.payload.as_bytes())?;
    }
    builder.finish()?;
    Ok(())
}

impl Market {
    fn open(dir: &Path, merged_mib: u64) -> Result<Market> {
        let env: Arc<dyn Env> = OsEnv::new()?;
        let files = OpenOptions {
            access: Access::Map,
            verify: false,
        };
        let options = FolderOptions {
            files,
            merged_bytes_max: merged_mib << 20,
            ..FolderOptions::default()
        };
        let folder = FrozenFolder::open(env, dir, options)?;
        Ok(Market { folder })
    }

    /// Says what opening the files takes, and looking at them again.
    fn time_opening(dir: &Path, merged_mib: u64) -> Result<()> {
        let begun = Instant::now();
        let Market { folder } = Market::open(dir, merged_mib)?;
        let files = folder.snapshot().files().len();
        eprintln!("opened {files} files in {:?}", begun.elapsed());
        let begun = Instant::now();
        folder.refresh()?;
        eprintln!("looked at them again in {:?}", begun.elapsed());
        let taken = reopen(&folder, dir)?;
        eprintln!("opened one that was replaced in {taken:?}");
        Ok(())
    }

    /// A count, or a number that stands for the hits, their order and their payloads.
    fn answer(&self, query: &Prepared) -> Result<u64> {
        self.folder
            .with_snapshot(|snapshot| Market::answer_of(snapshot, query))
    }

    fn answer_of(snapshot: &Snapshot, query: &Prepared) -> Result<u64> {
        let answer = snapshot.query(query, &Options::default())?;
        if let Some(count) = answer.count {
            return Ok(count);
        }
        let mut number = 0_u64;
        for hit in answer.hits {
            let mut hash = 0;
            snapshot.payload(hit, &mut |payload| hash = hash_of(payload))?;
            number = (number.wrapping_mul(1_000_003) + hash) & 0xffff_ffff_ffff;
        }
        Ok(number)
    }
}

/// How long opening a file that was replaced takes, the median of some.
fn reopen(folder: &FrozenFolder, dir: &Path) -> Result<Duration> {
    let mut taken = Vec::new();
    for region in 0..folder.snapshot().files().len().min(REPLACED) {
        let name = format!("{region:04}.quire");
        let (path, copy) = (dir.join(&name), dir.join("copy"));
        std::fs::copy(&path, &copy)?;
        std::fs::rename(&copy, &path)?;
        // The old file is held until after the measurement: its last holder frees its blocks.
        let before = folder.snapshot();
        let begun = Instant::now();
        if !folder.refresh_file(&name)? {
            return Err("a file that was replaced was not seen to be".into());
        }
        taken.push(begun.elapsed());
        drop(before);
    }
    taken.sort_unstable();
    Ok(taken.get(taken.len() / 2).copied().unwrap_or_default())
}

/// A number of 32 bits that stands for some bytes, each of which is looked at; the other engines
/// make it alike. Eight bytes at a time: what is measured is not how fast payloads are compared.
pub(crate) fn hash_of(payload: &[u8]) -> u64 {
    let (words, rest) = payload.as_chunks();
    let words = words.iter().map(|word| u64::from_le_bytes(*word));
    let hash = words.chain(rest.iter().map(|byte| u64::from(*byte)));
    hash.fold(0_u64, |hash, word| {
        (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }) >> 32
}

fn prepared(question: &Question) -> Result<Prepared> {
    prepared_of(question, question.region)
}

/// The query of a question, about a region as the documents have it.
pub(crate) fn prepared_of(question: &Question, region: impl Into<Value>) -> Result<Prepared> {
    let Question {
        marks,
        price: [low, high],
        colour,
        years: [from, to],
        ..
    } = question;
    let mark = marks.first().map_or("", String::as_str);
    let priced = || {
        let price = field("price").between(*low, *high);
        field("mark").eq(mark).and(price)
    };
    let newest = |filter| find(filter).order_by(field("added").descending()).limit(10);
    let query = match question.kind {
        0 | MADE_ANEW => find(field("region").eq(region)).limit(0).with_count(),
        1 => newest(priced()),
        2 => newest(priced().and(field("region").eq(region))),
        _ => {
            let marks = field("mark").is_in(marks.iter().map(String::as_str));
            let years = field("year").between(*from, *to);
            let filter = marks.and(field("colour").ne(colour.as_str())).and(years);
            find(filter).limit(0).with_count()
        }
    };
    Ok(query.prepare()?)
}

impl Task {
    pub(crate) fn run(&self) -> Result<()> {
        let watch = Watch::start()?;
        build(self)?;
        let (build_seconds, build_cpu_seconds) = watch.stop()?;
        eprintln!("built in {build_seconds:.1?} s, {build_cpu_seconds:.1} s of CPU");
        let disk_bytes = disk_bytes(&self.dir)?;
        let questions = questions(self.questions, self.layout.regions(self.files));
        Market::time_opening(&self.dir, self.merged_mib)?;
        self.first_queries(&questions)?;
        for kind in &self.kinds {
            println!("{}", serde_json::to_string(&self.cold(*kind, &questions)?)?);
        }
        let market = Market::open(&self.dir, self.merged_mib)?;
        for kind in self.kinds.iter().copied() {
            let of_kind = questions.iter().filter(|question| question.kind == kind);
            let of_kind: Vec<_> = of_kind.collect();
            for threads in THREADS {
                let together = Barrier::new(threads);
                let timed = std::thread::scope(|scope| {
                    let execute = || self.execute(&market, &of_kind, &together);
                    let running: Vec<_> = (0..threads).map(|_| scope.spawn(execute)).collect();
                    let timed = running.into_iter();
                    let timed = timed.map(|one| one.join().map_err(|_| "a thread panicked")?);
                    timed.collect::<Result<Vec<_>>>()
                })?;
                let mut micros: Vec<_> = timed.iter().flat_map(|one| &one.micros).collect();
                micros.sort_by(|a, b| a.total_cmp(b));
                let at = |part: f64| {
                    let index = (micros.len() as f64 * part) as usize;
                    micros.get(index).map_or(f64::NAN, |micros| **micros)
                };
                let cpu_nanos: u64 = timed.iter().map(|one| one.cpu_nanos).sum();
                let measured = Measured {
                    engine: "quire".to_owned(),
                    kind,
                    threads,
                    cpu_micros: cpu_nanos as f64 / 1e3 / micros.len().max(1) as f64,
                    p50_micros: at(0.5),
                    p95_micros: at(0.95),
                    p99_micros: at(0.99),
                    build_cpu_seconds,
                    disk_bytes,
                    answers: timed
                        .into_iter()
                        .next()
                        .map_or(Vec::new(), |one| one.answers),
                };
                println!("{}", serde_json::to_string(&measured)?);
            }
        }
        Ok(())
    }

    /// What the first query of each kind takes when the files were just opened, and the second.
    fn first_queries(&self, questions: &[Question]) -> Result<()> {
        for (kind, name) in KINDS.iter().enumerate() {
            let market = Market::open(&self.dir, self.merged_mib)?;
            let mut of_kind = questions.iter().filter(|question| question.kind == kind);
            let Some(question) = of_kind.next() else {
                continue;
            };
            let query = prepared(question)?;
            let mut micros = Vec::new();
            for _ in 0..2 {
                let before = thread_cpu_nanos();
                market.answer(&query)?;
                micros.push((thread_cpu_nanos() - before) / 1000);
            }
            eprintln!("{name}: first and second query take {micros:?} µs of CPU");
        }
        Ok(())
    }

    /// A cold run.
    fn cold(&self, kind: usize, questions: &[Question]) -> Result<Cold> {
        evict_files(&self.dir)?;
        let of_kind = questions.iter().filter(|question| question.kind == kind);
        let begun = Instant::now();
        let market = Market::open(&self.dir, self.merged_mib)?;
        let mut answered = Vec::new();
        for question in of_kind.take(COLD_QUESTIONS) {
            market.answer(&prepared(question)?)?;
            answered.push(begun.elapsed().as_secs_f64() * 1e3);
        }
        let [first, .., last] = answered[..] else {
            return Err(format!("fewer than 2 questions of {}", KINDS[kind]).into());
        };
        Ok(Cold {
            kind,
            cold_first_millis: first,
            cold_millis: (last - first) / (answered.len() - 1) as f64,
        })
    }

    /// Executes all queries several times. All threads begin the last time but one together, and
    /// the last time counts: a thread that waited for the others goes on with cold caches.
    fn execute(
        &self,
        market: &Market,
        questions: &[&Question],
        together: &Barrier,
    ) -> Result<Timed> {
        let mut timed = Timed::default();
        let ready = questions.iter().map(|question| prepared(question));
        let ready: Vec<_> = ready.collect::<Result<_>>()?;
        for repeat in 0..self.repeats {
            timed.micros.clear();
            timed.answers.clear();
            if repeat + 2 == self.repeats.max(2) {
                together.wait();
            }
            let before = thread_cpu_nanos();
            for (question, ready) in questions.iter().zip(&ready) {
                let begun = Instant::now();
                timed.answers.push(match question.kind {
                    MADE_ANEW => market.answer(&prepared(question)?)?,
                    _ => market.answer(ready)?,
                });
                timed.micros.push(begun.elapsed().as_nanos() as f64 / 1e3);
            }
            timed.cpu_nanos = thread_cpu_nanos() - before;
        }
        Ok(timed)
    }
}

/// What one thread measured.
#[derive(Debug, Default)]
struct Timed {
    micros: Vec<f64>,
    cpu_nanos: u64,
    answers: Vec<u64>,
}

/// Adds the figures of every kind of query, thread count and engine.
fn add_to(results: &Results, all: &BTreeMap<(usize, usize, String), Vec<Measured>>) {
    for ((kind, threads, engine), rounds) in all {
        let plural = if *threads == 1 { "" } else { "s" };
        let name = format!("{}, {threads} thread{plural}", KINDS[*kind]);
        let add = |name: &str, unit, of: fn(&Measured) -> f64| {
            let values: Vec<_> = rounds.iter().map(of).collect();
            results.add(name, unit, Better::Less, engine, &values);
        };
        add(&format!("{name}, p50"), "µs", |one| one.p50_micros);
        add(&format!("{name}, p95"), "µs", |one| one.p95_micros);
        add(&format!("{name}, p99"), "µs", |one| one.p99_micros);
        add(&name, "CPU µs", |one| one.cpu_micros);
        add("built", "CPU s", |one| one.build_cpu_seconds);
        add("on disk", "MB", |one| one.disk_bytes as f64 / 1e6);
        let quire = all.get(&(*kind, *threads, "quire".to_owned()));
        if let (Some(quire), "lucene") = (quire, engine.as_str()) {
            let pairs = rounds.iter().zip(quire);
            let ratios: Vec<_> = pairs
                .map(|(lucene, quire)| lucene.cpu_micros / quire.cpu_micros)
                .collect();
            let name = format!("{name}, Lucene's CPU, of Quire's");
            results.add(&name, "ratio", Better::More, "quire", &ratios);
            let aims = [4.0, 4.0, 20.0, 6.0, 3.0];
            results.aim(&name, "ratio", Better::More, aims[*kind]);
        }
    }
}

fn cold_table(all: &BTreeMap<(usize, String), Vec<Cold>>) {
    println!("\n| cold | engine | opened and first, ms | the next, ms each |");
    println!("| --- | --- | ---: | ---: |");
    for ((kind, engine), rounds) in all {
        let of = |figure: fn(&Cold) -> f64| spread(rounds.iter().map(figure).collect());
        let (first, next) = (of(|one| one.cold_first_millis), of(|one| one.cold_millis));
        println!("| {} | {engine} | {first} | {next} |", KINDS[*kind]);
    }
}

impl Plan {
    pub(crate) fn run(&self, results: &Results) -> Result<()> {
        let layouts = match self.all_layouts {
            true => Layout::ALL.to_vec(),
            false => self.layout.clone(),
        };
        for layout in layouts {
            for (place, merged_mib) in self.merged_mib.iter().enumerate() {
                // Lucene has no such limit: once is enough.
                let engines: Vec<_> = self.engines.iter().map(String::as_str).collect();
                let engines = engines
                    .into_iter()
                    .filter(|engine| place == 0 || *engine == "quire");
                let engines: Vec<_> = engines.collect();
                in_directory(&self.dir, || {
                    self.measure(layout, *merged_mib, &engines, results)
                })?;
            }
        }
        Ok(())
    }

    fn measure(
        &self,
        layout: Layout,
        merged_mib: u64,
        engines: &[&str],
        results: &Results,
    ) -> Result<()> {
        let [adverts, questions_file] =
            ["adverts.tsv", "questions.tsv"].map(|name| self.dir.join(name));
        let mut out = BufWriter::new(File::create(&adverts)?);
        cars::write(&mut out, layout, self.count, self.files)?;
        out.flush()?;
        let mut out = BufWriter::new(File::create(&questions_file)?);
        for question in questions(self.questions, layout.regions(self.files)) {
            question.write(&mut out)?;
        }
        out.flush()?;
        let mut seen = Seen::default();
        for round in 0..self.rounds {
            let mut engines = engines.to_vec();
            let turn = round % engines.len().max(1);
            engines.rotate_left(turn);
            for engine in engines {
                let dir = self.dir.join(engine);
                let mut command = match engine {
                    "lucene" => {
                        let mut java = Command::new("java");
                        let jars =
                            format!("{0}/peers-0.1.0.jar:{0}/libraries/*", self.peers.display());
                        java.args(["-Xmx2g", "-cp", &jars, "quire.Cars"]);
                        java.args([&adverts, &questions_file, &dir]);
                        java.arg(self.repeats.to_string());
                        java.args(FIELDS.map(|(name, is_number)| {
                            format!("{name}:{}", if is_number { "number" } else { "text" })
                        }));
                        java
                    }
                    _ => {
                        let mut this = Command::new(std::env::current_exe()?);
                        this.arg("snapshot-cars-task");
                        this.arg(self.count.to_string()).arg(self.files.to_string());
                        this.arg(layout.name()).arg(merged_mib.to_string());
                        this.arg(self.questions.to_string());
                        this.arg(self.repeats.to_string()).arg(&dir);
                        let kinds = self.kinds.iter().map(usize::to_string);
                        this.arg(kinds.collect::<Vec<_>>().join(","));
                        this
                    }
                };
                let output = command.stderr(Stdio::inherit()).output()?;
                if !output.status.success() {
                    return Err(format!("{engine}: {}", output.status).into());
                }
                std::fs::remove_dir_all(&dir)?;
                for line in std::str::from_utf8(&output.stdout)?.lines() {
                    let engine = engine.to_owned();
                    match serde_json::from_str(line)? {
                        Line::Warm(measured) => {
                            let key = (measured.kind, measured.threads, engine);
                            seen.warm.entry(key).or_default().push(measured);
                        }
                        Line::Cold(cold) => {
                            let key = (cold.kind, engine);
                            seen.cold.entry(key).or_default().push(cold);
                        }
                    }
                }
            }
        }
        println!(
            "\nLayout {}, {merged_mib} MiB for merged fields.",
            layout.name()
        );
        self.table(&seen.warm)?;
        cold_table(&seen.cold);
        // The figures that are compared from version to version are of one layout.
        if layout == Layout::Region && merged_mib == 64 {
            add_to(results, &seen.warm);
        }
        Ok(())
    }

    fn table(&self, all: &BTreeMap<(usize, usize, String), Vec<Measured>>) -> Result<()> {
        println!("{} adverts, {} rounds.\n", self.count, self.rounds);
        println!(
            "| | threads | engine | p50, µs | p95, µs | p99, µs | CPU, µs | times Quire's CPU \
             | built in CPU s | MB on disk |"
        );
        println!("| --- | --- | --- {}|", "| ---: ".repeat(7));
        for ((kind, threads, engine), rounds) in all {
            let quire = all.get(&(*kind, *threads, "quire".to_owned()));
            let quire = quire.unwrap_or(rounds);
            let pairs = || rounds.iter().zip(quire);
            if let Some((one, _)) = pairs().find(|(one, quire)| one.answers != quire.answers) {
                let at = one
                    .answers
                    .iter()
                    .zip(&quire[0].answers)
                    .position(|(a, b)| a != b);
                return Err(format!("{}: answers differ at {at:?}", KINDS[*kind]).into());
            }
            let of = |figure: fn(&Measured) -> f64| spread(rounds.iter().map(figure).collect());
            println!(
                "| {} | {threads} | {engine} | {} | {} | {} | {} | {} | {} | {} |",
                KINDS[*kind],
                of(|one| one.p50_micros),
                of(|one| one.p95_micros),
                of(|one| one.p99_micros),
                of(|one| one.cpu_micros),
                spread(
                    pairs()
                        .map(|(one, quire)| one.cpu_micros / quire.cpu_micros)
                        .collect()
                ),
                of(|one| one.build_cpu_seconds),
                of(|one| one.disk_bytes as f64 / 1e6),
            );
        }
        Ok(())
    }
}
