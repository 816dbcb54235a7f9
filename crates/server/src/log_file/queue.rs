//! The queue of lines, and the thread that writes them.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use quiredb::Env;
use serde::Serialize;
use serde_json::{Map, Value};

use super::rotated::{LogFileOptions, RotatedFile};

/// Lines that wait to be written.
const QUEUE_MAX: usize = 8192;

/// Bytes that are written together.
const BATCH_BYTES: usize = 256 << 10;

/// A log can't be begun.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the log {path}: {reason}", path = .path.display())]
pub struct LogFileError {
    path: PathBuf,
    reason: String,
}

/// A log of lines of JSON. A clone is another handle to the same.
#[derive(Clone)]
pub(crate) struct LogFile {
    env: Arc<dyn Env>,
    queue: SyncSender<Message>,
    counts: Arc<Counts>,
}

enum Message {
    Line(Vec<u8>),
    /// All before it is to be durable.
    Flush(SyncSender<()>),
}

#[derive(Debug, Default)]
struct Counts {
    written: AtomicU64,
    lost: AtomicU64,
}

impl std::fmt::Debug for LogFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogFile")
            .field("counts", &self.counts)
            .finish()
    }
}

impl LogFile {
    /// Begins to write, after what is in the file.
    ///
    /// # Errors
    /// If the file can't be opened, or the thread not be started.
    pub(crate) fn open(
        env: Arc<dyn Env>,
        options: LogFileOptions,
    ) -> Result<LogFile, LogFileError> {
        let path = options.path.clone();
        let failed = |error: &dyn std::error::Error| LogFileError {
            path: path.clone(),
            reason: match error.source() {
                Some(source) => format!("{error}: {source}"),
                None => error.to_string(),
            },
        };
        let file = RotatedFile::open(Arc::clone(&env), options.clone());
        let file = file.map_err(|error| failed(&error))?;
        let (queue, lines) = sync_channel(QUEUE_MAX);
        let counts = Arc::new(Counts::default());
        let mut writer = Writer {
            env: Arc::clone(&env),
            options,
            file: Some(file),
            counts: Arc::clone(&counts),
        };
        std::thread::Builder::new()
            .name("log-file".to_owned())
            .spawn(move || writer.run(&lines))
            .map_err(|error| failed(&error))?;
        Ok(LogFile { env, queue, counts })
    }

    /// Writes the members of an event, and the time, as a line, later. Never waits.
    pub(crate) fn note(&self, event: &impl Serialize) {
        let mut line = Map::new();
        line.insert("time_micros".to_owned(), self.env.now_micros().into());
        if let Ok(Value::Object(members)) = serde_json::to_value(event) {
            line.extend(members);
        }
        let line = format!("{}\n", Value::Object(line)).into_bytes();
        if self.queue.try_send(Message::Line(line)).is_err() {
            self.counts.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until all events before are written, or could not be.
    pub(crate) fn flush(&self) {
        let (done, written) = sync_channel(1);
        if self.queue.send(Message::Flush(done)).is_ok() {
            // An error says that the thread has ended.
            let _ = written.recv();
        }
    }

    /// Lines written since the server began, and lines lost.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (
            self.counts.written.load(Ordering::Relaxed),
            self.counts.lost.load(Ordering::Relaxed),
        )
    }
}

/// What the thread has.
struct Writer {
    env: Arc<dyn Env>,
    options: LogFileOptions,
    /// None after an error: it is opened again for the next lines.
    file: Option<RotatedFile>,
    counts: Arc<Counts>,
}

impl Writer {
    /// Writes until every handle of the log is gone.
    fn run(&mut self, queue: &Receiver<Message>) {
        while let Ok(first) = queue.recv() {
            let (mut lines, mut count) = (Vec::new(), 0);
            let mut flushed = Vec::new();
            let mut next = Some(first);
            while let Some(message) = next {
                match message {
                    Message::Line(line) => {
                        lines.extend_from_slice(&line);
                        count += 1;
                    }
                    Message::Flush(done) => flushed.push(done),
                }
                next = match lines.len() < BATCH_BYTES {
                    true => queue.try_recv().ok(),
                    false => None,
                };
            }
            if count > 0 {
                self.write(&lines, count);
            }
            for done in flushed {
                // An error says that nobody waits any more.
                let _ = done.send(());
            }
        }
    }

    fn write(&mut self, lines: &[u8], count: u64) {
        let mut file = match self.file.take() {
            Some(file) => Ok(file),
            None => RotatedFile::open(Arc::clone(&self.env), self.options.clone()),
        };
        let written = match &mut file {
            Ok(file) => file.append(lines),
            Err(_) => Ok(()),
        };
        match (file, written) {
            (Ok(file), Ok(())) => {
                self.file = Some(file);
                self.counts.written.fetch_add(count, Ordering::Relaxed);
            }
            (Err(error), _) | (_, Err(error)) => {
                self.counts.lost.fetch_add(count, Ordering::Relaxed);
                let path = self.options.path.display();
                tracing::warn!(%error, %path, lines = count, "a log can't be written");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quiredb::OsEnv;
    use serde_json::json;

    #[test]
    fn lines_are_written_in_order_and_old_files_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let env: Arc<dyn Env> = OsEnv::new().unwrap();
        let path = dir.path().join("audit.log");
        let options = LogFileOptions {
            bytes_max: 1000,
            files_max: 3,
            ..LogFileOptions::new(&path)
        };
        let log = LogFile::open(Arc::clone(&env), options.clone()).unwrap();
        for status in 0..100 {
            log.note(&json!({"status": status}));
            log.flush();
        }
        assert_eq!(log.counts(), (100, 0));
        let names = env.list(dir.path()).unwrap();
        assert_eq!(names, ["audit.log", "audit.log.1", "audit.log.2"]);
        let mut statuses = Vec::new();
        for name in names.iter().rev() {
            let bytes = env.read(&dir.path().join(name), 1000).unwrap();
            for line in String::from_utf8(bytes).unwrap().lines() {
                let line: Value = serde_json::from_str(line).unwrap();
                statuses.push(line["status"].as_u64().unwrap());
            }
        }
        let first = statuses[0];
        assert!(first > 0 && statuses == (first..100).collect::<Vec<_>>());

        // What is there is kept when the server begins again.
        drop(log);
        let before = env.read(&path, 1000).unwrap();
        let log = LogFile::open(Arc::clone(&env), options).unwrap();
        log.note(&json!({"status": 1}));
        log.flush();
        let after = env.read(&path, 2000).unwrap();
        assert!(after.starts_with(&before) || env.read(&path, 2000).unwrap().len() < before.len());
    }

    #[test]
    fn what_cannot_be_written_is_counted_and_delays_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("gone/audit.log");
        let env: Arc<dyn Env> = OsEnv::new().unwrap();
        assert!(LogFile::open(Arc::clone(&env), LogFileOptions::new(&path)).is_err());
        env.create_dir_all(path.parent().unwrap()).unwrap();
        let options = LogFileOptions {
            bytes_max: 1,
            ..LogFileOptions::new(&path)
        };
        let log = LogFile::open(Arc::clone(&env), options).unwrap();
        log.note(&json!({"status": 1}));
        log.flush();
        env.remove_dir_all(path.parent().unwrap()).unwrap();
        log.note(&json!({"status": 1}));
        log.flush();
        assert_eq!(log.counts(), (1, 1));
        env.create_dir_all(path.parent().unwrap()).unwrap();
        log.note(&json!({"status": 1}));
        log.flush();
        assert_eq!(log.counts(), (2, 1));
    }
}
