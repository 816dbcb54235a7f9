//! Histories as text: a script that a person can read, write and make shorter.
//!
//! One thing a line. What follows a `#` is a comment. Settings come first; those left out are as of
//! [`History::default`].
//!
//! ```text
//! seed 7
//! volumes 2
//! partitions 3
//! memory-bytes 16777216
//! segment-bytes 1048576
//! replay-bytes-max 20000
//! zstd-level 3            # 0 for the default codec
//! dictionary-bytes 1024
//! segment-age-secs 60
//! index all               # or: none
//!
//! write alpha sync: put 3 bytes 200; patch 4 shape 5; delete 6 if-absent
//! # a durability is sync, async(N) or none; a condition is if-absent, if-current or if-stale
//! write beta async(5): put 1 bytes 0 if-stale
//! create beta partitions 2
//! alter beta index all    # or: none
//! split beta              # each partition in two
//! merge beta              # each two partitions
//! sync alpha              # and so: flush, compact, drop, check, view, rebuild
//! sync wide               # and others of the wide collection: see `wide`
//! look at views
//! verify
//! verify rotten seed 5
//! backup
//! restore seed 5
//! repair
//! follow
//! run due                 # or: run all
//! advance 200             # milliseconds
//! reopen close            # or: reopen drop
//! crash seed 99
//! crash in 12 steps seed 5
//! fail in 3 steps io      # or: full; and then, if from there on: lasting
//! fail read in 3 reads io # or: short; and then, if from there on: lasting
//! fail syncs
//! rot seed 5
//! vanish 2                # a volume, counted from 1
//! slow 500                # microseconds a call
//! fill 300                # bytes of room left
//! fill volume 2 300
//! heal
//! ```

use super::document::KEYS;
use super::history::{Action, Condition, End, History, Name, Op, VOLUMES_MAX, Write};
use super::wide;
use quiredb::Durability;
use std::fmt;
use std::str::FromStr;

/// An error in a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError {
    /// Counted from 1.
    pub line: usize,
    /// What the script has there, and what it should have.
    pub what: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

impl std::error::Error for ParseError {}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}", self.seed)?;
        writeln!(f, "volumes {}", self.volumes)?;
        writeln!(f, "partitions {}", self.partitions)?;
        writeln!(f, "memory-bytes {}", self.memory_bytes)?;
        writeln!(f, "segment-bytes {}", self.segment_bytes)?;
        writeln!(f, "replay-bytes-max {}", self.replay_bytes_max)?;
        writeln!(f, "zstd-level {}", self.zstd_level)?;
        writeln!(f, "dictionary-bytes {}", self.dictionary_bytes)?;
        writeln!(f, "segment-age-secs {}", self.segment_age_secs)?;
        writeln!(f, "index {}", index_word(self.index))?;
        writeln!(f)?;
        self.ops.iter().try_for_each(|op| writeln!(f, "{op}"))
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::Write {
                name,
                durability,
                writes,
            } => {
                write!(f, "write {name} {durability}:")?;
                for (index, write) in writes.iter().enumerate() {
                    write!(f, "{} {write}", if index > 0 { ";" } else { "" })?;
                }
                Ok(())
            }
            Op::Wide(op) => write!(f, "{op}"),
            Op::Sync(name) => write!(f, "sync {name}"),
            Op::Flush(name) => write!(f, "flush {name}"),
            Op::Compact(name) => write!(f, "compact {name}"),
            Op::Index(name, all) => write!(f, "alter {name} index {}", index_word(*all)),
            Op::Split(name) => write!(f, "split {name}"),
            Op::Merge(name) => write!(f, "merge {name}"),
            Op::Create(name, partitions) => write!(f, "create {name} partitions {partitions}"),
            Op::Drop(name) => write!(f, "drop {name}"),
            Op::Check(name) => write!(f, "check {name}"),
            Op::View(name) => write!(f, "view {name}"),
            Op::LookAtViews => f.write_str("look at views"),
            Op::Verify => f.write_str("verify"),
            Op::VerifyRotten { seed } => write!(f, "verify rotten seed {seed}"),
            Op::Rebuild(name) => write!(f, "rebuild {name}"),
            Op::Backup => f.write_str("backup"),
            Op::Restore { seed } => write!(f, "restore seed {seed}"),
            Op::Repair => f.write_str("repair"),
            Op::Follow => f.write_str("follow"),
            Op::RunDue => f.write_str("run due"),
            Op::RunAll => f.write_str("run all"),
            Op::Advance(millis) => write!(f, "advance {millis}"),
            Op::Reopen(End::Close) => f.write_str("reopen close"),
            Op::Reopen(End::Drop) => f.write_str("reopen drop"),
            Op::Crash { seed } => write!(f, "crash seed {seed}"),
            Op::CrashIn { steps, seed } => write!(f, "crash in {steps} steps seed {seed}"),
            Op::FailIn {
                steps,
                full,
                lasting,
            } => {
                let fault = if *full { "full" } else { "io" };
                let lasting = if *lasting { " lasting" } else { "" };
                write!(f, "fail in {steps} steps {fault}{lasting}")
            }
            Op::FailReadIn {
                reads,
                short,
                lasting,
            } => {
                let fault = if *short { "short" } else { "io" };
                let lasting = if *lasting { " lasting" } else { "" };
                write!(f, "fail read in {reads} reads {fault}{lasting}")
            }
            Op::FailSyncs => f.write_str("fail syncs"),
            Op::Rot { seed } => write!(f, "rot seed {seed}"),
            Op::Vanish(volume) => write!(f, "vanish {volume}"),
            Op::Slow(micros) => write!(f, "slow {micros}"),
            Op::Fill(spare) => write!(f, "fill {spare}"),
            Op::FillVolume(volume, spare) => write!(f, "fill volume {volume} {spare}"),
            Op::Heal => f.write_str("heal"),
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.action {
            Action::Put { bytes } => write!(f, "put {} bytes {bytes}", self.key)?,
            Action::Patch { shape } => write!(f, "patch {} shape {shape}", self.key)?,
            Action::Delete => write!(f, "delete {}", self.key)?,
        }
        match self.condition {
            Condition::Always => Ok(()),
            Condition::IfAbsent => f.write_str(" if-absent"),
            Condition::IfCurrent => f.write_str(" if-current"),
            Condition::IfStale => f.write_str(" if-stale"),
            Condition::External { step } => write!(f, " external {step}"),
            Condition::ExternalOrEqual { step } => write!(f, " external-or-equal {step}"),
        }
    }
}

fn index_word(all: bool) -> &'static str {
    match all {
        true => "all",
        false => "none",
    }
}

impl FromStr for History {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<History, ParseError> {
        let mut history = History::default();
        for (index, line) in text.lines().enumerate() {
            parse_line(&mut history, line).map_err(|what| ParseError {
                line: index + 1,
                what,
            })?;
        }
        Ok(history)
    }
}

fn parse_line(history: &mut History, line: &str) -> Result<(), String> {
    let line = line.split('#').next().unwrap_or_default();
    // Marks are separate words.
    let line = line.replace(':', " : ").replace(';', " ; ");
    let mut words = Words(line.split_whitespace().collect());
    let Some(first) = words.next() else {
        return Ok(());
    };
    let setting = match first {
        "seed" => &mut history.seed,
        "memory-bytes" => &mut history.memory_bytes,
        "segment-bytes" => &mut history.segment_bytes,
        "replay-bytes-max" => &mut history.replay_bytes_max,
        "zstd-level" => &mut history.zstd_level,
        "dictionary-bytes" => &mut history.dictionary_bytes,
        "segment-age-secs" => &mut history.segment_age_secs,
        "index" => {
            history.index = words.index()?;
            return words.end();
        }
        "partitions" => {
            history.partitions = words.partitions()?;
            return words.end();
        }
        "volumes" => {
            history.volumes = words.number("a number of volumes")?;
            if history.volumes == 0 || history.volumes > VOLUMES_MAX {
                return Err(format!("expected 1 to {VOLUMES_MAX} volumes"));
            }
            return words.end();
        }
        op => {
            history.ops.push(parse_op(op, &mut words)?);
            return words.end();
        }
    };
    *setting = words.number("a number")?;
    words.end()
}

fn parse_op(op: &str, words: &mut Words<'_>) -> Result<Op, String> {
    if words.take(wide::NAME) {
        return wide::parse(op, words).map(Op::Wide);
    }
    Ok(match op {
        "write" => {
            let name = words.name()?;
            let word = words.next().unwrap_or_default();
            let durability: Durability = word.parse()?;
            words.expect(":")?;
            let mut writes = vec![parse_write(words)?];
            while words.take(";") {
                writes.push(parse_write(words)?);
            }
            Op::Write {
                name,
                durability,
                writes,
            }
        }
        "sync" => Op::Sync(words.name()?),
        "flush" => Op::Flush(words.name()?),
        "compact" => Op::Compact(words.name()?),
        "drop" => Op::Drop(words.name()?),
        "check" => Op::Check(words.name()?),
        "view" => Op::View(words.name()?),
        "split" => Op::Split(words.name()?),
        "merge" => Op::Merge(words.name()?),
        "alter" => {
            let name = words.name()?;
            words.expect("index")?;
            Op::Index(name, words.index()?)
        }
        "create" => {
            let name = words.name()?;
            words.expect("partitions")?;
            Op::Create(name, words.partitions()?)
        }
        "look" => {
            words.expect("at")?;
            words.expect("views")?;
            Op::LookAtViews
        }
        "verify" if words.take("rotten") => Op::VerifyRotten {
            seed: words.seed()?,
        },
        "verify" => Op::Verify,
        "rebuild" => Op::Rebuild(words.name()?),
        "backup" => Op::Backup,
        "restore" => Op::Restore {
            seed: words.seed()?,
        },
        "repair" => Op::Repair,
        "follow" => Op::Follow,
        "run" => words.choice(&[("due", Op::RunDue), ("all", Op::RunAll)])?,
        "advance" => Op::Advance(words.number("milliseconds")?),
        "reopen" => words.choice(&[
            ("close", Op::Reopen(End::Close)),
            ("drop", Op::Reopen(End::Drop)),
        ])?,
        "crash" if words.take("in") => {
            let steps = words.steps()?;
            Op::CrashIn {
                steps,
                seed: words.seed()?,
            }
        }
        "crash" => Op::Crash {
            seed: words.seed()?,
        },
        "fail" if words.take("in") => Op::FailIn {
            steps: words.steps()?,
            full: words.choice(&[("io", false), ("full", true)])?,
            lasting: words.take("lasting"),
        },
        "fail" if words.take("read") => {
            words.expect("in")?;
            let reads = words.number("a number of reads")?;
            words.expect("reads")?;
            Op::FailReadIn {
                reads,
                short: words.choice(&[("io", false), ("short", true)])?,
                lasting: words.take("lasting"),
            }
        }
        "rot" => Op::Rot {
            seed: words.seed()?,
        },
        "vanish" => Op::Vanish(words.volume()?),
        "slow" => Op::Slow(words.number("microseconds")?),
        "fail" => {
            words.expect("syncs")?;
            Op::FailSyncs
        }
        "fill" if words.take("volume") => {
            let volume = words.volume()?;
            Op::FillVolume(volume, words.number("a number of bytes")?)
        }
        "fill" => Op::Fill(words.number("a number of bytes")?),
        "heal" => Op::Heal,
        other => {
            return Err(format!(
                "expected a setting or an operation, found {other:?}"
            ));
        }
    })
}

pub(super) fn parse_write(words: &mut Words<'_>) -> Result<Write, String> {
    let action = words.next().unwrap_or_default();
    let key = words.number("the number of a key")?;
    if key >= KEYS {
        return Err(format!("expected the number of a key, below {KEYS}"));
    }
    let action = match action {
        "put" => {
            words.expect("bytes")?;
            Action::Put {
                bytes: words.number("a number of bytes")?,
            }
        }
        "patch" => {
            words.expect("shape")?;
            Action::Patch {
                shape: words.number("a shape")?,
            }
        }
        "delete" => Action::Delete,
        other => return Err(format!("expected put, patch or delete, found {other:?}")),
    };
    let condition = match () {
        () if words.take("if-absent") => Condition::IfAbsent,
        () if words.take("if-current") => Condition::IfCurrent,
        () if words.take("if-stale") => Condition::IfStale,
        () if words.take("external") => Condition::External {
            step: words.number("a step")?,
        },
        () if words.take("external-or-equal") => Condition::ExternalOrEqual {
            step: words.number("a step")?,
        },
        () => Condition::Always,
    };
    Ok(Write {
        key,
        action,
        condition,
    })
}

/// The remaining words of a line.
pub(super) struct Words<'a>(std::collections::VecDeque<&'a str>);

impl<'a> Words<'a> {
    pub(super) fn next(&mut self) -> Option<&'a str> {
        self.0.pop_front()
    }

    /// Takes the next word if it is this one.
    pub(super) fn take(&mut self, word: &str) -> bool {
        let found = self.0.front() == Some(&word);
        if found {
            self.0.pop_front();
        }
        found
    }

    pub(super) fn expect(&mut self, word: &str) -> Result<(), String> {
        match self.next() {
            Some(found) if found == word => Ok(()),
            found => Err(expected(&format!("{word:?}"), found)),
        }
    }

    fn number<T: FromStr>(&mut self, what: &str) -> Result<T, String> {
        let word = self.next();
        word.and_then(|word| word.parse().ok())
            .ok_or_else(|| expected(what, word))
    }

    fn index(&mut self) -> Result<bool, String> {
        self.choice(&[("all", true), ("none", false)])
    }

    fn partitions(&mut self) -> Result<u32, String> {
        match self.number("a number of partitions")? {
            0 => Err("expected at least one partition".to_string()),
            partitions => Ok(partitions),
        }
    }

    fn volume(&mut self) -> Result<u32, String> {
        let volume = self.number("a volume")?;
        match (1..=VOLUMES_MAX).contains(&volume) {
            true => Ok(volume),
            false => Err(format!("expected a volume from 1 to {VOLUMES_MAX}")),
        }
    }

    fn steps(&mut self) -> Result<u32, String> {
        let steps = self.number("a number of steps")?;
        self.expect("steps")?;
        Ok(steps)
    }

    fn seed(&mut self) -> Result<u64, String> {
        self.expect("seed")?;
        self.number("a seed")
    }

    fn name(&mut self) -> Result<Name, String> {
        self.choice(&Name::ALL.map(|name| (name.as_str(), name)))
    }

    pub(super) fn choice<T: Clone>(&mut self, choices: &[(&str, T)]) -> Result<T, String> {
        let word = self.next();
        let choice = choices.iter().find(|(name, _)| Some(*name) == word);
        choice.map(|(_, value)| value.clone()).ok_or_else(|| {
            let names: Vec<_> = choices.iter().map(|(name, _)| *name).collect();
            expected(&names.join(" or "), word)
        })
    }

    fn end(&mut self) -> Result<(), String> {
        match self.next() {
            None => Ok(()),
            found => Err(expected("the end of the line", found)),
        }
    }
}

fn expected(what: &str, found: Option<&str>) -> String {
    match found {
        Some(found) => format!("expected {what}, found {found:?}"),
        None => format!("expected {what}, found the end of the line"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::generate::{Profile, generate};

    #[test]
    fn a_generated_history_is_the_same_when_read_back() {
        for profile in Profile::ALL {
            for seed in 0..500 {
                let history = generate(seed, profile);
                let text = history.to_string();
                assert_eq!(text.parse::<History>().as_ref(), Ok(&history), "{text}");
            }
        }
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line_and_what_should_stand_there() {
        for (text, line, word) in [
            ("seed", 1, "end of the line"),
            ("seed 1\nvolumes 4", 2, "1 to 3"),
            ("partitions 0", 1, "at least one"),
            ("index some", 1, "all or none"),
            ("alter alpha all", 1, "\"index\""),
            ("write gamma sync: delete 1", 1, "alpha or beta"),
            ("write alpha fast: delete 1", 1, "durability"),
            ("write alpha sync", 1, "\":\""),
            ("write alpha sync: put 1", 1, "\"bytes\""),
            ("write alpha sync: put 24 bytes 1", 1, "below 24"),
            (
                "write alpha sync: delete 1 2",
                1,
                "end of the line, found \"2\"",
            ),
            ("# nothing\n\ncrash in 3 seed 4", 3, "\"steps\""),
            ("fail in 3 steps lasting", 1, "io or full"),
            ("fill volume 0 3", 1, "1 to 3"),
            ("view wide", 1, "no operation \"view\""),
            ("move wide text to beta", 1, "default or texts or links"),
            (
                "write wide sync: delete 1 external 2",
                1,
                "external versions",
            ),
            ("jump", 1, "jump"),
        ] {
            let error = text.parse::<History>().unwrap_err();
            assert_eq!(error.line, line, "{text}: {error}");
            assert!(error.what.contains(word), "{text}: {error}");
        }
    }
}
