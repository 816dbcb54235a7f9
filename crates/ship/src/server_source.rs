//! A collection of a Quire server as a topic, through `_changes`.

use crate::change::{CHANGE_BYTES_MIN, Change, Cursor};
use crate::change_line;
use crate::collection_source::{check, past_the_end, place};
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
        };
        // The cursor of any answer says how many partitions there are.
        topic.call("limit=1")?;
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
    partitions: usize,
    /// What no other collection has; none of a server that does not say it.
    identity: Option<String>,
    /// Whether the first cursor was compared with the collection.
    is_checked: bool,
}

impl ServerTopic {
    fn call(&mut self, query: &str) -> Result<Vec<Change>> {
        let answer = self.get(&format!("_changes?{query}"))?;
        self.parse(&answer)
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
    /// that: the newest change of a partition is never compacted away.
    fn check(&mut self, cursor: &Cursor) -> Result<()> {
        for (partition, position) in cursor.positions().iter().enumerate() {
            let Some(before) = position.checked_sub(1) else {
                continue;
            };
            let mut after = vec![0; self.partitions];
            if let Some(place) = after.get_mut(partition) {
                *place = before;
            }
            let after = Cursor::new(after);
            let query = format!("limit=1&partition={partition}&after={after}");
            if self.call(&query)?.is_empty() {
                return Err(past_the_end(partition));
            }
        }
        self.is_checked = true;
        Ok(())
    }

    /// Reads the changes, and the number of partitions of the cursor in the last line.
    fn parse(&mut self, answer: &Answer) -> Result<Vec<Change>> {
        let cut = || Error::SourceAway("the answer ends too early".to_owned());
        let text = std::str::from_utf8(&answer.body)
            .map_err(|_| Error::Source("the answer is not UTF-8".to_owned()))?;
        let text = text.strip_suffix('\n').unwrap_or(text);
        let (lines, last) = match text.rsplit_once('\n') {
            Some((lines, last)) => (lines, last),
            None => ("", text),
        };
        let last: serde_json::Value = serde_json::from_str(last).map_err(|_| cut())?;
        let cursor = last["cursor"].as_str().and_then(Cursor::parse);
        let cursor = cursor.ok_or_else(cut)?;
        self.partitions = cursor.positions().len();
        let lines = lines.split('\n').filter(|line| !line.is_empty());
        lines
            .map(|line| change_line::read(line).map_err(Error::Source))
            .collect()
    }
}

impl Topic for ServerTopic {
    fn read(&mut self, cursor: &Cursor, bytes_max: usize, wait: Duration) -> Result<Vec<Change>> {
        if cursor.positions().len() > self.partitions {
            return Err(Error::Source(
                "the stored position has more partitions than the collection".to_owned(),
            ));
        }
        if !self.is_checked {
            self.check(cursor)?;
        }
        let mut after = cursor.positions().to_vec();
        after.resize(self.partitions, 0);
        let after = Cursor::new(after);
        let wait = wait.min(WAIT_MAX).as_millis();
        // The server cuts an answer at 4 MiB.
        let limit = bytes_max.div_ceil(CHANGE_BYTES_MIN).clamp(1, LIMIT);
        let changes = self.call(&format!("limit={limit}&wait_ms={wait}&after={after}"))?;
        // They are of that collection if the name still stands for it.
        if !changes.is_empty()
            && let Some(now) = self.identity()?
        {
            check(self.place().as_ref(), &now)?;
        }
        Ok(changes)
    }

    fn place(&self) -> Option<Value> {
        self.identity.as_deref().map(place)
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
