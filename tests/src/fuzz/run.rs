//! Fuzzing on stable Rust: inputs of a corpus, mutated for a while from a seed, and each checked
//! for failures.
//!
//! Without help of the compiler the coverage of an input is not known. The [path](super::Way) that
//! a target reports takes its place: the error that it ended with, or roughly how much it read.

use super::mutate::mutate;
use super::{Target, Way};
use crate::sim::rng::Rng;
use std::any::Any;
use std::cell::RefCell;
use std::collections::HashSet;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The most time of one input. Most take less than a millisecond.
const INPUT_TIME_MAX: Duration = Duration::from_secs(20);
/// The most inputs kept in memory because they took a new path.
const KEPT_MAX: usize = 2_000;
/// The largest input that is written to the corpus, and the most of them in a run.
const CORPUS_BYTES_MAX: usize = 4 << 10;
const CORPUS_FILES_MAX: usize = 24;
/// Tries to shorten a failing input.
const REDUCE_MAX: usize = 400;

/// The settings of a run.
pub struct Settings {
    /// How long each target gets mutations, after its corpus.
    pub time: Duration,
    /// The seed of the mutations.
    pub seed: u64,
    /// Whether to keep inputs with a new path in the folder of the corpus.
    pub keep: bool,
    /// Seeds the bugs that leave checksums unchecked, until the returned value is dropped.
    pub seed_bugs: fn() -> Box<dyn Any>,
    /// The most bytes that this thread held at a time since the last call.
    pub peak_bytes: fn() -> usize,
}

/// The result of a run.
pub struct Report {
    /// Inputs run.
    pub executions: u64,
    /// The number of paths seen.
    pub ways: usize,
    /// The failure, and the file that the input was written to.
    pub failure: Option<String>,
}

/// Runs a target on its corpus, then on mutations of it until the time is up or it fails.
pub fn fuzz(target: &Target, settings: &Settings) -> Report {
    let mut fuzzing = Fuzzing {
        target,
        settings,
        inputs: Vec::new(),
        ways: HashSet::new(),
        executions: 0,
        saved: 0,
    };
    let failure = fuzzing.run().err();
    Report {
        executions: fuzzing.executions,
        ways: fuzzing.ways.len(),
        failure,
    }
}

struct Fuzzing<'a> {
    target: &'a Target,
    settings: &'a Settings,
    inputs: Vec<Vec<u8>>,
    ways: HashSet<Way>,
    executions: u64,
    /// Inputs written to the corpus.
    saved: usize,
}

impl Fuzzing<'_> {
    fn run(&mut self) -> Result<(), String> {
        let start = Instant::now();
        for input in (self.target.seeds)() {
            self.feed(input, "a seed made by code")?;
        }
        let mut files: Vec<_> = fs::read_dir(folder(self.target)).map_or(Vec::new(), |files| {
            files.map(|file| file.unwrap().path()).collect()
        });
        files.sort();
        for file in files {
            self.feed(fs::read(&file).unwrap(), &file.display().to_string())?;
        }
        let mut rng = Rng::new(self.settings.seed);
        while start.elapsed() < self.settings.time {
            let [first, second] =
                [(); 2].map(|()| rng.within(0..=self.inputs.len() as u64 - 1) as usize);
            let input = mutate(&self.inputs[first], &self.inputs[second], &mut rng);
            self.feed(input, "")?;
        }
        Ok(())
    }

    /// Runs one input, and keeps it if it takes a new path. `name` is its file, if it has one.
    fn feed(&mut self, input: Vec<u8>, name: &str) -> Result<(), String> {
        self.executions += 1;
        match check(self.target, self.settings, &input) {
            Ok(way) => {
                let new = self.ways.insert(way);
                if new
                    && self.settings.keep
                    && self.saved < CORPUS_FILES_MAX
                    && input.len() <= CORPUS_BYTES_MAX
                {
                    save(self.target, "way", &input);
                    self.saved += 1;
                }
                if !name.is_empty() || new && self.inputs.len() < KEPT_MAX {
                    self.inputs.push(input);
                }
                Ok(())
            }
            Err(failure) if name.is_empty() => {
                let short = reduce(self.target, self.settings, input);
                let file = save(self.target, "crash", &short);
                Err(format!("{failure}\ninput: {}", file.display()))
            }
            Err(failure) => Err(format!("{failure}\ninput: {name}")),
        }
    }
}

/// Runs one input. Returns its path, or the failure.
pub fn check(target: &Target, settings: &Settings, input: &[u8]) -> Result<Way, String> {
    let begun = Instant::now();
    (settings.peak_bytes)();
    let seeded = target.below_checksums(input).then(settings.seed_bugs);
    let way = catch_unwind(AssertUnwindSafe(|| (target.run)(input)));
    drop(seeded);
    let (peak, took) = ((settings.peak_bytes)(), begun.elapsed());
    match way {
        Err(_) => Err(LAST_PANIC.take()),
        Ok(_) if peak > target.bytes_max => Err(format!(
            "{peak} bytes were allocated, more than {}",
            target.bytes_max
        )),
        Ok(_) if took > INPUT_TIME_MAX => Err(format!("it took {took:?}")),
        Ok(way) => Ok(way),
    }
}

thread_local! {
    static LAST_PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// From now on, panics are not printed but kept for the report of the fuzzer on their thread.
pub fn keep_panics() {
    std::panic::set_hook(Box::new(|panic| {
        LAST_PANIC.set(panic.to_string());
    }));
}

/// Cuts pieces out of a failing input while it still fails.
fn reduce(target: &Target, settings: &Settings, mut input: Vec<u8>) -> Vec<u8> {
    let (mut tries, mut length) = (0, input.len() / 2);
    while length > 0 && tries < REDUCE_MAX {
        let mut start = 0;
        while start + length <= input.len() && tries < REDUCE_MAX {
            let shorter = [&input[..start], &input[start + length..]].concat();
            tries += 1;
            match check(target, settings, &shorter) {
                Ok(_) => start += length,
                Err(_) => input = shorter,
            }
        }
        length /= 2;
    }
    input
}

fn save(target: &Target, what: &str, input: &[u8]) -> PathBuf {
    let mut hasher = DefaultHasher::new();
    input.hash(&mut hasher);
    let file = folder(target).join(format!("{what}-{:016x}", hasher.finish()));
    fs::create_dir_all(folder(target)).unwrap();
    fs::write(&file, input).unwrap();
    file
}

fn folder(target: &Target) -> PathBuf {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus");
    corpus.join(target.name)
}
