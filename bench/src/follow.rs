//! A follower beside its leader, both the `quire` command, on this machine: how far it is behind,
//! and how fast it catches up.
//!
//! The leader holds generated documents and takes replacements of them at a fixed rate, in bulk
//! requests, under `sync`. Then, in rounds:
//!
//! 1. *Lag*: a small document is put at the leader, and the follower is queried until it has
//!    it: the time from the leader's acknowledgement to the first answer that has it is one sample.
//!    Then the next.
//! 2. *Catching up*: the follower is stopped for some seconds and started again while the leader
//!    goes on; measured is from its first connection until it has all. Its rate is what it took in
//!    that time, what was written meanwhile included.
//!
//! In the end every document and version of the two is compared.

use crate::http::Client;
use crate::measure::{Latencies, in_directory, spread};
use crate::results::{Better, Results};
use crate::server::Server;
use crate::{Result, adverts};
use quiredb::Database;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What takes longer is taken as hung.
const PATIENCE: Duration = Duration::from_secs(300);

/// How often the follower is queried for a document that it does not have yet.
const QUERY_EVERY: Duration = Duration::from_micros(500);

/// A follower that is at most this many seconds behind has caught up.
const LEVEL: f64 = 0.2;

/// What to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct Plan {
    /// Documents in the database
    #[arg(long, default_value_t = 200_000)]
    count: u64,
    /// Documents replaced in a second
    #[arg(long, default_value_t = 20_000)]
    rate: u64,
    /// Documents in a bulk request
    #[arg(long, default_value_t = 500)]
    batch: u64,
    /// Rounds
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Seconds of a round in which the lag is sampled
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Seconds that the follower is away
    #[arg(long, default_value_t = 10)]
    away: u64,
    /// The `quire` command
    #[arg(long, default_value = "../target/release/quire")]
    quire: PathBuf,
    /// Where the databases are kept meanwhile: a directory that is made and removed
    #[arg(long, default_value = "target/bench-follow")]
    dir: PathBuf,
}

/// The figures of a server.
fn stats(server: &Server) -> Result<Value> {
    Client::connect(server.address)?.json("GET", "/_quire/stats", b"")
}

/// One round.
struct Round {
    written_per_second: f64,
    samples: f64,
    p50_millis: f64,
    p99_millis: f64,
    worst_millis: f64,
    leader_cpu: f64,
    follower_cpu: f64,
    caught_up_per_second: f64,
    backlog: f64,
    catch_up_seconds: f64,
    started_over: bool,
}

impl Plan {
    pub(crate) fn run(&self, results: &Results) -> Result<()> {
        in_directory(&self.dir, || self.measure(results))
    }

    fn measure(&self, results: &Results) -> Result<()> {
        let leader_dir = self.dir.join("leader");
        let mut command = Command::new(&self.quire);
        let leader = Server::start_quire(command.args(["serve", "--create"]).arg(&leader_dir), "listening")?;
        let mut client = Client::connect(leader.address)?;
        let settings = br#"{"settings":{"number_of_shards":2,"quire.index":"none"}}"#;
        for name in ["adverts", "marks"] {
            client.json("PUT", &format!("/{name}"), settings)?;
        }
        for from in (0..self.count).step_by(self.batch.max(1) as usize) {
            replace(&mut client, from..(from + self.batch).min(self.count), 0)?;
        }
        let (stop, written) = (AtomicBool::new(false), AtomicU64::new(0));
        let rounds = std::thread::scope(|scope| {
            let writer = scope.spawn(|| self.write(&mut client, &stop, &written));
            let rounds = (0..self.rounds).map(|_| self.round(&leader, &written));
            let rounds: Result<Vec<Round>> = rounds.collect();
            stop.store(true, Ordering::Relaxed);
            writer.join().map_err(|_| "the writer panicked")??;
            rounds
        })?;
        self.report(results, &rounds);
        let follower = self.follow(&leader)?;
        wait_until_level(&follower)?;
        follower.stop()?;
        leader.stop()?;
        self.compare(&leader_dir)
    }

    fn follow(&self, leader: &Server) -> Result<Server> {
        let from = format!("http://{}", leader.address);
        let dir = self.dir.join("follower");
        let mut command = Command::new(&self.quire);
        command.arg("follow").arg(dir).args(["--from", &from]);
        Server::start_quire(&mut command, "listening")
    }

    /// Replaces documents at the fixed rate until it is told to stop.
    fn write(&self, client: &mut Client, stop: &AtomicBool, written: &AtomicU64) -> Result<()> {
        let (begun, mut done, mut random) = (Instant::now(), 0, adverts::Random::new(7));
        while !stop.load(Ordering::Relaxed) {
            let first = random.below(self.count.saturating_sub(self.batch).max(1));
            done += self.batch;
            replace(client, first..first + self.batch, done)?;
            written.fetch_add(self.batch, Ordering::Relaxed);
            let due = Duration::from_secs_f64(done as f64 / self.rate as f64);
            std::thread::sleep(due.saturating_sub(begun.elapsed()));
        }
        Ok(())
    }

    fn round(&self, leader: &Server, written: &AtomicU64) -> Result<Round> {
        let follower = self.follow(leader)?;
        wait_until_level(&follower)?;
        let cpu = |server: &Server| server.cpu_seconds();
        let (begun, before) = (Instant::now(), written.load(Ordering::Relaxed));
        let (leader_before, follower_before) = (cpu(leader)?, cpu(&follower)?);
        let mut lags = Latencies::default();
        let (mut to, mut from) = (
            Client::connect(leader.address)?,
            Client::connect(follower.address)?,
        );
        let mut mark = 0;
        while begun.elapsed() < Duration::from_secs(self.seconds) {
            mark += 1;
            let document = format!("{{\"mark\":{mark}}}");
            let answer = to.json("PUT", "/marks/_doc/mark", document.as_bytes())?;
            let version = answer["_version"].as_u64();
            lags.time(|| -> Result<()> {
                loop {
                    let (_, found) = from.request("GET", "/marks/_doc/mark", b"")?;
                    let found: Value = serde_json::from_slice(&found)?;
                    if found["_version"].as_u64() >= version {
                        return Ok(());
                    }
                    std::thread::sleep(QUERY_EVERY);
                }
            })?;
            // Samples do not follow the rhythm of what they measure.
            std::thread::sleep(Duration::from_micros(mark * 37 % 5_000));
        }
        let wall = begun.elapsed().as_secs_f64();
        let written_per_second = (written.load(Ordering::Relaxed) - before) as f64 / wall;
        let leader_cpu = (cpu(leader)? - leader_before) / wall;
        let follower_cpu = (cpu(&follower)? - follower_before) / wall;
        let samples = lags.len() as f64;
        let [p50, p99, worst] = lags.micros([0.5, 0.99, 1.0]);
        follower.stop()?;
        std::thread::sleep(Duration::from_secs(self.away));
        let follower = self.follow(leader)?;
        let (first, begun) = first_look(&follower)?;
        let backlog = records(&stats(leader)?) - records(&first);
        let last = wait_until_level(&follower)?;
        let took = begun.elapsed().as_secs_f64();
        let taken = records(&last) - records(&first);
        let started_over = last["following"]["copies"].as_u64() > Some(0);
        follower.stop()?;
        let round = Round {
            written_per_second,
            samples,
            p50_millis: p50 / 1e3,
            p99_millis: p99 / 1e3,
            worst_millis: worst / 1e3,
            leader_cpu,
            follower_cpu,
            caught_up_per_second: taken / took,
            backlog,
            catch_up_seconds: took,
            started_over,
        };
        eprintln!(
            "{} lags: p99 {:.1} ms; caught up {taken} in {took:.2} s",
            samples, round.p99_millis
        );
        Ok(round)
    }

    fn report(&self, results: &Results, rounds: &[Round]) {
        println!(
            "| a follower at {} updates a second | median (least to most) |\n| --- | ---: |",
            self.rate
        );
        let row = |what: &str, of: &dyn Fn(&Round) -> f64| {
            println!("| {what} | {} |", spread(rounds.iter().map(of).collect()));
        };
        row("updates a second at the leader", &|round| {
            round.written_per_second
        });
        row("samples of the lag", &|round| round.samples);
        row("lag p50, ms", &|round| round.p50_millis);
        row("lag p99, ms", &|round| round.p99_millis);
        row("lag worst, ms", &|round| round.worst_millis);
        row("CPU of the leader, cores", &|round| round.leader_cpu);
        row("CPU of the follower, cores", &|round| round.follower_cpu);
        row("behind after the pause, records", &|round| round.backlog);
        row("catching up, s", &|round| round.catch_up_seconds);
        row("caught up, records a second", &|round| {
            round.caught_up_per_second
        });
        row("of the live rate", &|round| {
            round.caught_up_per_second / round.written_per_second
        });
        let add = |name, unit, better, of: &dyn Fn(&Round) -> f64| {
            let values: Vec<_> = rounds.iter().map(of).collect();
            results.add(name, unit, better, "quire", &values);
        };
        let (less, more) = (Better::Less, Better::More);
        add("updates at the leader", "updates/s", more, &|round| {
            round.written_per_second
        });
        add("samples of the lag in a round", "samples", more, &|round| {
            round.samples
        });
        add("lag, p50", "ms", less, &|round| round.p50_millis);
        add("lag, p99", "ms", less, &|round| round.p99_millis);
        results.aim("lag, p99", "ms", less, 1000.0);
        add("lag, worst", "ms", less, &|round| round.worst_millis);
        add("leader", "cores", less, &|round| round.leader_cpu);
        add("follower", "cores", less, &|round| round.follower_cpu);
        let behind = format!("behind after {} s away", self.away);
        add(&behind, "records", less, &|round| round.backlog);
        add("caught up in", "s", less, &|round| round.catch_up_seconds);
        add("caught up", "records/s", more, &|round| {
            round.caught_up_per_second
        });
        add("caught up, of the live rate", "ratio", more, &|round| {
            round.caught_up_per_second / round.written_per_second
        });
        results.aim("caught up, of the live rate", "ratio", more, 5.0);
        let over = rounds.iter().filter(|round| round.started_over).count();
        println!(
            "\nstarted over from a copy: {over} of {} times",
            rounds.len()
        );
    }

    /// Compares every document and version.
    fn compare(&self, leader: &Path) -> Result<()> {
        let copies = std::fs::read_dir(self.dir.join("follower"))?;
        let mut copies = copies.filter_map(|entry| Some(entry.ok()?.path()));
        let copy = copies
            .find(|path| path.is_dir())
            .ok_or("the follower has no copy")?;
        let (leader, copy) = (Database::open(leader)?, Database::open(copy)?);
        let mut compared = 0;
        for name in leader.collections() {
            let theirs = copy.collection(&name)?.scan(..)?;
            let mut theirs = theirs.map(|found| found.map_err(crate::Error::from));
            for ours in leader.collection(&name)?.scan(..)? {
                let ours = ours?;
                let same = theirs
                    .next()
                    .transpose()?
                    .is_some_and(|theirs| theirs == ours);
                if !same {
                    return Err(format!("{} of {name} is another at the follower", ours.key).into());
                }
                compared += 1;
            }
            if theirs.next().is_some() {
                return Err(format!("the follower has more in {name}").into());
            }
        }
        println!("compared: {compared} documents and their versions");
        leader.close()?;
        Ok(copy.close()?)
    }
}

/// Replaces adverts by others under their keys.
fn replace(client: &mut Client, numbers: std::ops::Range<u64>, version: u64) -> Result<()> {
    let (mut body, mut text) = (String::new(), String::new());
    for number in numbers {
        body.push_str("{\"index\":{\"_id\":\"");
        body.push_str(&adverts::key(number));
        body.push_str("\"}}\n");
        text.clear();
        adverts::write(number | version << 24, &mut text);
        // Without its key, which the line before has.
        let (_, rest) = text.split_once(',').ok_or("an advert without fields")?;
        body.push('{');
        body.push_str(rest);
        body.push('\n');
    }
    let answer = client.json("POST", "/adverts/_bulk?filter_path=errors", body.as_bytes())?;
    match answer["errors"].as_bool() {
        Some(false) => Ok(()),
        _ => Err(format!("a bulk request failed: {answer}").into()),
    }
}

/// All records of a database, as of its statistics.
fn records(stats: &Value) -> f64 {
    let collections = stats["collections"].as_array().into_iter().flatten();
    let positions = collections.flat_map(|one| one["positions"].as_array().into_iter().flatten());
    positions.filter_map(Value::as_f64).sum()
}

/// The first statistics after the follower had connected, and when.
fn first_look(follower: &Server) -> Result<(Value, Instant)> {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        let stats = stats(follower)?;
        if stats["following"]["connects"].as_u64() > Some(0) {
            return Ok((stats, Instant::now()));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Err("the follower does not connect".into())
}

/// Waits until the follower is level: known to have all that the leader had a moment ago, and after
/// this was called.
fn wait_until_level(follower: &Server) -> Result<Value> {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        let stats = stats(follower)?;
        let behind = stats["following"]["seconds_behind"].as_f64();
        if behind.is_some_and(|behind| behind < begun.elapsed().as_secs_f64().min(LEVEL)) {
            return Ok(stats);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Err("the follower does not catch up".into())
}
