//! A collection of a Quire server as a topic, through `_changes`.

use crate::change::{CHANGE_BYTES_MIN, Change, Cursor};
use crate::change_line;
use crate::collection_place::{check, past_the_end, place, resumed, too_many_partitions};
use crate::error::{Error, Result};
use crate::http::{Answer, Body, Http, segment};
use crate::sink::Failure;
use crate::topic::{Source, Topic};
use serde_json::Value;
use std::time::Duration;

/// The most changes of one answer, and the longest wait for one.
const LIMIT: usize = 10_000;
const WAIT_MAX: Duration = Duration::from_secs(30);

/// A collection of a server.
#[derive(Debug)]
pub struct ServerSource {
    http: Http,
    /// How the file of the pipe names it, which may be an alias.
    collection: String,
    /// What is read.
    reads: String,
}

impl ServerSource {
    /// The collection of this name, at a server of Quire.
    pub fn new(http: Http, collection: impl Into<String>) -> ServerSource {
        let collection = collection.into();
        ServerSource {
            http,
            reads: collection.clone(),
            collection,
        }
    }
}

/// Whether two addresses are of one server, as far as they say it.
fn is_same_server(one: &str, other: &str) -> bool {
    let plain = |url: &str| {
        let url = url.trim_end_matches('/').to_ascii_lowercase();
        url.replacen("://localhost", "://127.0.0.1", 1)
    };
    plain(one) == plain(other)
}

/// The name of the collection that the answer to `_stats` is about, and what is said of it.
fn of_stats(answer: &Value) -> Option<(&String, &Value)> {
    answer["indices"].as_object()?.iter().next()
}

impl ServerSource {
    fn get(&self, what: &str) -> Result<Answer> {
        let path = format!("/{}/{what}", segment(&self.reads));
        let answer = self.http.call("GET", &path, Body::Empty);
        answer.map_err(|failure| Error::SourceAway(failure.reason().to_owned()))
    }
}

impl Source for ServerSource {
    fn identity(&self) -> String {
        format!("{}/{}", self.http.url(), self.collection)
    }

    fn grows(&self) -> bool {
        true
    }

    fn count(&self) -> Result<Option<u64>> {
        let answer = self.get("_count")?;
        match answer.status {
            200 => Ok(answer.json()["count"].as_u64()),
            _ => Err(Error::SourceAway(answer.excerpt())),
        }
    }

    fn has(&self, key: &str) -> Result<Option<bool>> {
        let answer = self.get(&format!("_doc/{}", segment(key)))?;
        match answer.status {
            200 => Ok(Some(true)),
            404 => Ok(Some(false)),
            _ => Err(Error::SourceAway(answer.excerpt())),
        }
    }

    fn has_dense_positions(&self) -> bool {
        true
    }

    fn collection_at(&self, url: &str) -> Result<Option<String>> {
        if !is_same_server(self.http.url(), url) {
            return Ok(None);
        }
        let answer = self.get("_stats/docs")?;
        match answer.status {
            200 => Ok(of_stats(&answer.json()).map(|(name, _)| name.clone())),
            404 => Ok(None),
            _ => Err(Error::SourceAway(answer.excerpt())),
        }
    }

    fn of_collection(&self, name: &str) -> Option<Box<dyn Source>> {
        Some(Box::new(ServerSource {
            http: self.http.clone(),
            collection: self.collection.clone(),
            reads: name.to_owned(),
        }))
    }

    fn open(&self, place: Option<&Value>) -> Result<Box<dyn Topic>> {
        let mut topic = ServerTopic {
            http: self.http.clone(),
            path: format!("/{}", segment(&self.reads)),
            partitions: 0,
            is_checked: false,
            identity: None,
            last: None,
        };
        // The cursor of any answer says how many partitions there are.
        topic.partitions = topic.call("limit=1")?.seen.positions().len();
        topic.identity = topic.identity()?;
        if let Some(identity) = &topic.identity {
            check(place, identity)?;
        }
        Ok(Box::new(topic))
    }
}

struct ServerTopic {
    http: Http,
    path: String,
    /// How many there were when it was opened. All cursors of this reader are of that many.
    partitions: usize,
    /// What no other collection has; none of a server that does not say it.
    identity: Option<String>,
    /// Whether the first cursor was compared with the collection.
    is_checked: bool,
    /// The cursor after the changes that were read last, and how far the server saw each partition
    /// then. There is no change between the two.
    last: Option<(Cursor, Cursor)>,
}

/// An answer to a request for changes.
struct Read {
    changes: Vec<Change>,
    /// The cursor of its last line: how far the server saw each partition.
    seen: Cursor,
}

impl ServerTopic {
    fn call(&self, query: &str) -> Result<Read> {
        parse(&self.get(&format!("_changes?{query}"))?)
    }

    /// As [`call`](ServerTopic::call), of as many partitions as there were when it was opened.
    fn call_same(&self, query: &str) -> Result<Read> {
        let read = self.call(query)?;
        match read.seen.positions().len() == self.partitions {
            true => Ok(read),
            false => Err(Error::SourceSplit),
        }
    }

    fn get(&self, what: &str) -> Result<Answer> {
        let path = format!("{}/{what}", self.path);
        let answer = self.http.call("GET", &path, Body::Empty);
        let answer = answer.map_err(|failure| match failure {
            Failure::NoAnswer(why) | Failure::Busy(why) => Error::SourceAway(why),
            Failure::TooLarge(why) | Failure::Refused(why) | Failure::Final(why) => {
                Error::Source(why)
            }
        })?;
        match answer.status {
            200 => Ok(answer),
            408 | 429 | 500.. => Err(Error::SourceAway(answer.excerpt())),
            _ => Err(Error::Source(format!(
                "{}{path}: {}",
                self.http.url(),
                answer.excerpt()
            ))),
        }
    }

    /// Which collection has the name now.
    fn identity(&self) -> Result<Option<String>> {
        let stats = self.get("_stats/docs")?.json();
        let uuid = of_stats(&stats).and_then(|(_, stats)| stats["uuid"].as_str());
        Ok(uuid.map(str::to_owned))
    }

    /// Checks that each partition has a change at the last position that was read of it, or after
    /// that, or at least ends there: the newest change of a partition is never compacted away, but
    /// since a split it may be in another partition.
    fn check(&mut self, cursor: &Cursor) -> Result<()> {
        for (partition, position) in (0..).zip(cursor.positions()) {
            let Some(before) = position.checked_sub(1) else {
                continue;
            };
            let mut after = Cursor::new(vec![0; self.partitions]);
            after.advance(partition, before);
            let query = format!("limit=1&partition={partition}&after={after}");
            let read = self.call_same(&query)?;
            if read.changes.is_empty() && read.seen.position(partition) < *position {
                return Err(past_the_end(partition as usize));
            }
        }
        self.is_checked = true;
        Ok(())
    }

    /// Where the server goes on after a cursor.
    fn after(&self, cursor: &Cursor) -> Cursor {
        match &self.last {
            Some((at, seen)) if at == cursor => seen.clone(),
            _ => {
                let mut after = cursor.positions().to_vec();
                after.resize(self.partitions, 0);
                Cursor::new(after)
            }
        }
    }
}

/// Reads the changes of an answer, and the cursor in its last line.
fn parse(answer: &Answer) -> Result<Read> {
    let cut = || Error::SourceAway("the answer ends too early".to_owned());
    let text = std::str::from_utf8(&answer.body)
        .map_err(|_| Error::Source("the answer is not UTF-8".to_owned()))?;
    let text = text.strip_suffix('\n').unwrap_or(text);
    let (lines, last) = match text.rsplit_once('\n') {
        Some((lines, last)) => (lines, last),
        None => ("", text),
    };
    let last: Value = serde_json::from_str(last).map_err(|_| cut())?;
    let seen = last["cursor"].as_str().and_then(Cursor::parse);
    let seen = seen.ok_or_else(cut)?;
    let lines = lines.split('\n').filter(|line| !line.is_empty());
    let changes = lines.map(|line| change_line::read(line).map_err(Error::Source));
    Ok(Read {
        changes: changes.collect::<Result<_>>()?,
        seen,
    })
}

impl Topic for ServerTopic {
    fn read(&mut self, cursor: &Cursor, bytes_max: usize, wait: Duration) -> Result<Vec<Change>> {
        if cursor.positions().len() > self.partitions {
            return Err(too_many_partitions());
        }
        if !self.is_checked {
            self.check(cursor)?;
        }
        let after = self.after(cursor);
        let wait = wait.min(WAIT_MAX).as_millis();
        // The server cuts an answer at 4 MiB.
        let limit = bytes_max.div_ceil(CHANGE_BYTES_MIN).clamp(1, LIMIT);
        let query = format!("limit={limit}&wait_ms={wait}&after={after}");
        let Read { changes, seen } = self.call_same(&query)?;
        // They are of that collection if the name still stands for it.
        if (!changes.is_empty() || seen != after)
            && let Some(now) = self.identity()?
        {
            check(self.place().as_ref(), &now)?;
        }
        let (mut at, mut furthest) = (cursor.clone(), after);
        for change in &changes {
            at.advance(change.partition, change.position);
        }
        for (partition, position) in (0..).zip(seen.positions()) {
            furthest.advance(partition, *position);
        }
        self.last = Some((at, furthest));
        Ok(changes)
    }

    fn resumed(&self, cursor: Cursor, place: Option<&Value>) -> Result<Cursor> {
        match self.identity {
            Some(_) => {
                let spread = |cursor: &Cursor| {
                    match self.call(&format!("limit=0&after={cursor}")) {
                        Ok(read) => {
                            let is_of_now = read.seen.positions().len() == self.partitions;
                            // Changes would be passed over.
                            let is_good = is_of_now && read.changes.is_empty();
                            Ok(is_good.then_some(read.seen))
                        }
                        // It never had as many partitions, or merges none.
                        Err(Error::Source(_)) => Ok(None),
                        Err(error) => Err(error),
                    }
                };
                resumed(cursor, place, self.partitions, &spread)
            }
            // A server that does not say it splits nothing, and no place is stored.
            None => Ok(cursor),
        }
    }

    fn place(&self) -> Option<Value> {
        let identity = self.identity.as_deref()?;
        Some(place(identity, self.partitions))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_server_are_told_as_far_as_they_say_it() {
        let here = "http://127.0.0.1:9200";
        for same in [here, "http://127.0.0.1:9200/", "HTTP://LOCALHOST:9200"] {
            assert!(is_same_server(here, same), "{same}");
        }
        for other in [
            "http://127.0.0.1:9201",
            "https://127.0.0.1:9200",
            "http://a:9200",
        ] {
            assert!(!is_same_server(here, other), "{other}");
        }
    }
}
