//! `quire load`, fed with documents until it is killed or has enough.

use super::book::{Book, Outcome};
use super::client::Style;
use super::content;
use super::process::{Killed, Quire, text_of};
use super::random::Random;
use super::trouble::{Result, While, failed};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::thread;
use std::time::Instant;

#[derive(Debug)]
pub(crate) struct Loader {
    number: u64,
    style: Style,
    random: Random,
    pub(crate) book: Book,
    n: u64,
    /// Bytes of documents sent.
    pub(crate) bytes: u64,
}

/// A line of input and what it holds.
struct Line {
    key: String,
    n: u64,
}

impl Loader {
    pub(crate) fn new(number: u64, partitions: u32, style: Style, random: &mut Random) -> Loader {
        Loader {
            number,
            style,
            random: Random::new(random.any()),
            book: Book::new(number, partitions),
            n: 0,
            bytes: 0,
        }
    }

    /// Loads until `strike` returns, which gets the process, or up to `bytes_max` of documents.
    /// Returns how it ended; `None` if by SIGKILL.
    ///
    /// # Errors
    /// It ended by another signal, or its output makes no sense.
    pub(crate) fn load(
        &mut self,
        quire: &Quire,
        database: &Path,
        arguments: &[&str],
        bytes_max: u64,
        strike: impl FnOnce(&mut Killed) -> Result<()>,
    ) -> Result<Option<ExitStatus>> {
        let mut words = vec!["load", text_of(database)?, "docs", "-", "--json"];
        words.extend_from_slice(arguments);
        let child = quire
            .command(&words)?
            .stdin(Stdio::piped())
            .spawn()
            .during("start quire load")?;
        let mut child = Killed(child);
        let (stdin, stdout) = (child.0.stdin.take(), child.0.stdout.take());
        let (number, style, first) = (self.number, self.style, self.n + 1);
        let mut random = Random::new(self.random.any());
        let (struck, fed, told) = thread::scope(|threads| {
            let feeder = threads.spawn(move || {
                let (mut fed, mut bytes) = (Vec::new(), 0);
                let Some(mut stdin) = stdin else {
                    return (fed, bytes);
                };
                while bytes < bytes_max {
                    let mut lines = String::new();
                    for _ in 0..1 + random.below(100) {
                        let key = content::key(number, random.below(style.keys));
                        let n = first + fed.len() as u64;
                        let members =
                            content::members(number, n, 1 + random.below(style.words_max) as usize);
                        lines.push_str(&format!("{{\"_id\":\"{key}\",{members}}}\n"));
                        fed.push(Line { key, n });
                    }
                    bytes += lines.len() as u64;
                    // A process that has ended takes no more; it may have taken some of this.
                    if stdin.write_all(lines.as_bytes()).is_err() {
                        break;
                    }
                }
                (fed, bytes)
            });
            let listener = threads.spawn(move || {
                // The number of documents acknowledged, and when.
                let mut told: Vec<(u64, Instant)> = Vec::new();
                for line in stdout
                    .map(BufReader::new)
                    .into_iter()
                    .flat_map(BufRead::lines)
                {
                    // The last line may be cut short.
                    let line = line
                        .ok()
                        .and_then(|line| serde_json::from_str::<Value>(&line).ok());
                    let count = line.and_then(|line| line["acknowledged"].as_u64());
                    told.extend(count.map(|count| (count, Instant::now())));
                }
                told
            });
            let struck = strike(&mut child);
            if struck.is_err() {
                let _ = child.0.kill();
            }
            (struck, feeder.join(), listener.join())
        });
        struck?;
        let status = child.0.wait().during("wait for quire load")?;
        let (Ok((fed, bytes)), Ok(told)) = (fed, told) else {
            return failed("a thread of the loader panicked");
        };
        self.n += fed.len() as u64;
        self.bytes += bytes;
        let mut told = told.into_iter().peekable();
        for (at, line) in fed.iter().enumerate() {
            let number = self.book.request(&line.key, Some(line.n), line.n);
            // The first report of this document.
            while told.next_if(|(count, _)| *count <= at as u64).is_some() {}
            if let Some((_, when)) = told.peek() {
                self.book.answered(number, Outcome::Done(None), *when)?;
            }
        }
        if told.any(|(count, _)| count > fed.len() as u64) {
            return failed(format!(
                "more was acknowledged than {} documents",
                fed.len()
            ));
        }
        match status.signal() {
            None => Ok(Some(status)),
            Some(9) => Ok(None),
            Some(signal) => failed(format!("quire load ended by signal {signal}")),
        }
    }
}
