//! A client of a server. It writes and reads its own documents, one request after the other, and
//! checks each answer.

use super::book::{Book, Held, Outcome};
use super::content;
use super::random::Random;
use super::trouble::{Result, Trouble, While, failed};
use crate::http::Connection;
use serde_json::Value;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

/// The errors that a server may answer with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Allowed {
    /// None: the machine has no faults.
    Nothing,
    /// Writes may be refused because the disk is full.
    Full,
    /// Any error: the disk fails.
    Errors,
}

/// What a client writes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Style {
    /// The number of its keys.
    pub(crate) keys: u64,
    /// The most words of a text.
    pub(crate) words_max: u64,
    /// The most documents of a batch.
    pub(crate) batch_max: u64,
}

#[derive(Debug)]
pub(crate) struct Client {
    number: u64,
    style: Style,
    random: Random,
    pub(crate) book: Book,
    n: u64,
    batches: u64,
    pub(crate) told: Told,
}

/// The totals of the answers so far.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Told {
    pub(crate) writes: u64,
    pub(crate) reads: u64,
    /// Writes refused because the disk is full.
    pub(crate) full: u64,
    /// Requests answered with another error.
    pub(crate) errors: u64,
    /// Bytes of documents sent.
    pub(crate) bytes: u64,
}

/// Whether a client continues.
type Goes = std::ops::ControlFlow<()>;
const ON: Goes = Goes::Continue(());
const END: Goes = Goes::Break(());

impl Client {
    pub(crate) fn new(number: u64, partitions: u32, style: Style, random: &mut Random) -> Client {
        Client {
            number,
            style,
            random: Random::new(random.any()),
            book: Book::new(number, partitions),
            n: 0,
            batches: 0,
            told: Told::default(),
        }
    }

    /// Writes and reads until it is stopped, or the server is gone.
    ///
    /// # Errors
    /// A wrong answer, or an error that is not allowed.
    pub(crate) fn work(
        &mut self,
        server: SocketAddr,
        allowed: Allowed,
        over: &AtomicBool,
    ) -> Result<()> {
        let Ok(mut connection) = Connection::open(server) else {
            return Ok(());
        };
        while !over.load(Ordering::Relaxed) {
            let goes = match self.random.below(20) {
                0..6 => self.read(&mut connection, allowed)?,
                6..10 => self.bulk(&mut connection, allowed)?,
                _ => self.write(&mut connection, allowed)?,
            };
            if goes.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn any_key(&mut self) -> String {
        content::key(self.number, self.random.below(self.style.keys))
    }

    /// A new document, or a deletion.
    fn document(&mut self) -> (Option<u64>, String) {
        if self.random.one_in(8) {
            return (None, String::new());
        }
        self.n += 1;
        let words = 1 + self.random.below(self.style.words_max) as usize;
        let members = content::members(self.number, self.n, words);
        self.told.bytes += members.len() as u64;
        (Some(self.n), format!("{{{members}}}"))
    }

    /// One document, put or deleted.
    fn write(&mut self, connection: &mut Connection, allowed: Allowed) -> Result<Goes> {
        let (key, (n, body)) = (self.any_key(), self.document());
        self.batches += 1;
        let number = self.book.request(&key, n, self.batches);
        let method = if n.is_some() { "PUT" } else { "DELETE" };
        let path = format!("/docs/_doc/{key}");
        let Some((status, answer)) = send(connection, method, &path, body.as_bytes())? else {
            return Ok(END);
        };
        self.judge(number, status, &answer, allowed)?;
        Ok(ON)
    }

    /// A batch of documents with different keys.
    fn bulk(&mut self, connection: &mut Connection, allowed: Allowed) -> Result<Goes> {
        self.batches += 1;
        let count = (1 + self.random.below(self.style.batch_max)).min(self.style.keys);
        let first = self.random.below(self.style.keys);
        let (mut body, mut numbers) = (String::new(), Vec::new());
        for at in first..first + count {
            let key = content::key(self.number, at % self.style.keys);
            let (n, document) = self.document();
            numbers.push(self.book.request(&key, n, self.batches));
            match n {
                Some(_) => body.push_str(&format!(
                    "{{\"index\":{{\"_id\":\"{key}\"}}}}\n{document}\n"
                )),
                None => body.push_str(&format!("{{\"delete\":{{\"_id\":\"{key}\"}}}}\n")),
            }
        }
        let Some((status, answer)) = send(connection, "POST", "/docs/_bulk", body.as_bytes())?
        else {
            return Ok(END);
        };
        let Some(items) = answer["items"].as_array().filter(|_| status == 200) else {
            // Refused as a whole; a part of it may have been applied.
            self.told.errors += 1;
            return match allowed {
                Allowed::Nothing => failed(format!("a bulk was answered with {status} {answer}")),
                _ => Ok(ON),
            };
        };
        if items.len() != numbers.len() {
            return failed(format!(
                "{} items were answered with {}",
                numbers.len(),
                items.len()
            ));
        }
        for (number, item) in numbers.into_iter().zip(items) {
            let item = item
                .get("index")
                .or_else(|| item.get("delete"))
                .unwrap_or(&Value::Null);
            let status = item["status"].as_u64().unwrap_or_default() as u16;
            self.judge(number, status, item, allowed)?;
        }
        Ok(ON)
    }

    /// Notes the outcome of a write.
    fn judge(
        &mut self,
        number: usize,
        status: u16,
        answer: &Value,
        allowed: Allowed,
    ) -> Result<()> {
        self.told.writes += 1;
        let error = answer["error"]["type"].as_str();
        match (status, error) {
            (200 | 201, None) => self
                .book
                .answer(number, Outcome::Done(answer["_version"].as_u64())),
            // There was nothing to delete.
            (404, None) => self.book.answer(number, Outcome::Done(None)),
            (429, _) if allowed != Allowed::Nothing => {
                self.told.full += 1;
                self.book.answer(number, Outcome::Refused)
            }
            (500..=599, _) if allowed == Allowed::Errors => {
                self.told.errors += 1;
                if error == Some("cluster_block_exception") {
                    self.book.is_read_only(number);
                }
                Ok(())
            }
            _ => failed(format!("a write was answered with {status} {answer}")),
        }
    }

    /// Reads one of the keys of the client.
    fn read(&mut self, connection: &mut Connection, allowed: Allowed) -> Result<Goes> {
        let key = self.any_key();
        let path = format!("/docs/_doc/{key}");
        let Some((status, answer)) = send(connection, "GET", &path, b"")? else {
            return Ok(END);
        };
        self.told.reads += 1;
        match status {
            200 | 404 if answer.get("error").is_none() => {
                let found = held(&key, &answer)?;
                self.book.check_read(&key, found)?;
                Ok(ON)
            }
            // A get may have to open a file first, and meet a call that reports a full disk.
            429 | 500..=599 if allowed == Allowed::Errors => {
                self.told.errors += 1;
                Ok(ON)
            }
            _ => failed(format!("a get was answered with {status} {answer}")),
        }
    }

    /// Reads all keys of the client from a server on a machine without faults.
    ///
    /// # Errors
    /// A wrong answer, or an error.
    pub(crate) fn read_all(&mut self, server: SocketAddr) -> Result<()> {
        let mut connection = Connection::open(server).during("connect to the server")?;
        for first in (0..self.style.keys).step_by(500) {
            let most = self.style.keys.min(first + 500);
            let keys: Vec<_> = (first..most)
                .map(|at| content::key(self.number, at))
                .collect();
            let body = serde_json::json!({"ids": keys}).to_string();
            let (status, answer) =
                match send(&mut connection, "POST", "/docs/_mget", body.as_bytes())? {
                    Some(answer) => answer,
                    None => return failed("the server closed the connection"),
                };
            let found = answer["docs"].as_array().filter(|_| status == 200);
            let Some(found) = found.filter(|found| found.len() == keys.len()) else {
                return failed(format!("a multi-get was answered with {status} {answer}"));
            };
            for (key, found) in keys.iter().zip(found) {
                if found.get("error").is_some() {
                    return failed(format!("{key}: {found}"));
                }
                self.book.check_read(key, held(key, found)?)?;
                self.told.reads += 1;
            }
        }
        Ok(())
    }
}

/// The document in the answer to a get.
///
/// # Errors
/// It is another document, or not whole.
pub(crate) fn held(key: &str, answer: &Value) -> Result<Option<Held>> {
    if answer["_id"].as_str() != Some(key) {
        return failed(format!("{key} was requested and answered with {answer}"));
    }
    if answer["found"].as_bool() == Some(false) {
        return Ok(None);
    }
    let source = answer["_source"].to_string();
    let document: content::Document<'_> = serde_json::from_str(&source).during(key)?;
    document.check(key)?;
    let version = answer["_version"]
        .as_u64()
        .ok_or_else(|| Trouble::Failed(format!("{key} has no version")))?;
    Ok(Some(Held {
        n: document.n,
        version,
    }))
}

/// Sends a request; `None` if the server is gone.
fn send(
    connection: &mut Connection,
    method: &str,
    path: &str,
    body: &[u8],
) -> Result<Option<(u16, Value)>> {
    match connection.request(method, path, body) {
        Ok((status, body)) => {
            let answer =
                serde_json::from_slice(&body).during(format!("{method} {path}: {status}"))?;
            Ok(Some((status, answer)))
        }
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
            ) =>
        {
            failed(format!("{method} {path} was not answered: {error}"))
        }
        Err(_) => Ok(None),
    }
}
