//! Compares an index with the source: how many documents there are, and what is in a sample.

use super::follow::{level, patiently};
use super::record::Record;
use super::sample::Reader;
use super::session::Session;
use crate::bulk_sink::Server;
use crate::change::Change;
use crate::checkpoint::Checkpoint;
use crate::error::{Error, Result};
use crate::http::segment;
use crate::topic::Source;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Documents of a request that reads them back.
const READ_BACK: usize = 100;

/// Counts and comparisons while documents are written.
const ATTEMPTS: u32 = 5;

/// Differences that are listed.
const DIFFERENCES_LISTED: usize = 100;

/// A document that is not in the index as it is in the source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Its key; none for a difference of counts.
    pub key: Option<String>,
    /// What differs.
    pub what: String,
}

/// What a comparison found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Verification {
    /// The index.
    pub index: String,
    /// Documents of the source; none if it does not know.
    pub source_documents: Option<u64>,
    /// Documents of the index.
    pub index_documents: u64,
    /// Documents that the index refused.
    pub refused: u64,
    /// Documents and deletions that were read back.
    pub compared: u64,
    /// How many differences there are.
    pub differences_count: u64,
    /// The first of them.
    pub differences: Vec<Difference>,
}

impl Verification {
    fn add(&mut self, key: Option<&str>, what: String) {
        self.differences_count += 1;
        if self.differences.len() < DIFFERENCES_LISTED {
            let key = key.map(str::to_owned);
            self.differences.push(Difference { key, what });
        }
    }
}

/// Compares, while documents may be written.
///
/// # Errors
/// Of the source or the cluster.
pub(crate) fn verify(
    session: &mut Session<'_>,
    source: &dyn Source,
    index: &str,
) -> Result<Verification> {
    let mut found = Verification {
        index: index.to_owned(),
        ..Verification::default()
    };
    compare_counts(session, source, &mut found)?;
    compare_sample(session, source, &mut found)?;
    session.record(Record::Compared {
        documents: found.compared,
        differences: found.differences_count,
    })?;
    Ok(found)
}

fn compare_counts(
    session: &mut Session<'_>,
    source: &dyn Source,
    found: &mut Verification,
) -> Result<()> {
    for attempt in 1..=ATTEMPTS {
        let before = patiently(session, || source.count())?;
        level(session, source, &found.index)?;
        session.cluster.refresh(&found.index)?;
        found.index_documents = session.cluster.count(&found.index)?;
        let after = patiently(session, || source.count())?;
        let path = Checkpoint::path(&session.positions(), &found.index);
        let stored = Checkpoint::load(&**session.env, &path)?.unwrap_or_default();
        (found.source_documents, found.refused) = (after, stored.dead_letters);
        let (Some(before), Some(after)) = (before, after) else {
            return Ok(());
        };
        // A document that was refused is not there, or an older version of it is.
        let least = before.min(after).saturating_sub(found.refused);
        if (least..=before.max(after)).contains(&found.index_documents) {
            return Ok(());
        }
        if attempt == ATTEMPTS {
            found.add(
                None,
                format!(
                    "the index has {} documents, the source {after}",
                    found.index_documents
                ),
            );
        }
    }
    Ok(())
}

/// Search servers have the position as the version, so changes at random places do: a later version
/// shows itself, and the source knows whether a document that is not there was deleted later.
/// Otherwise the source is read whole, and what is written meanwhile too.
fn compare_sample(
    session: &mut Session<'_>,
    source: &dyn Source,
    found: &mut Verification,
) -> Result<()> {
    let is_whole = session.server.flavor == "quire" || !source.has_dense_positions();
    let path = Checkpoint::path(&session.positions(), &found.index);
    let end = Checkpoint::load(&**session.env, &path)?.unwrap_or_default();
    let mut reader = patiently(session, || {
        Reader::open(source, end.cursor(), end.place.as_ref())
    })?;
    let count = session.config.verify_documents();
    let mut sample = patiently(session, || match is_whole {
        true => reader.of_the_whole(count, session.cluster.stop),
        false => reader.at_random(&**session.env, count),
    })?;
    found.compared = sample.len() as u64;
    for attempt in 1..=ATTEMPTS {
        level(session, source, &found.index)?;
        let differences = differences(session, &found.index, &sample, is_whole)?;
        sample.retain(|key, _| differences.contains_key(key));
        let again = match is_whole {
            true => {
                let mut written = BTreeSet::new();
                patiently(session, || reader.catch_up(&mut sample, &mut written))?;
                written
            }
            false => {
                drop_deleted(session, source, &mut sample)?;
                let all = sample.keys().cloned();
                all.filter(|_| attempt < ATTEMPTS).collect()
            }
        };
        for (key, what) in differences {
            // What was written meanwhile is compared once more.
            if !again.contains(&key) && sample.remove(&key).is_some() {
                found.add(Some(&key), what);
            }
        }
        if sample.is_empty() {
            break;
        }
    }
    Ok(())
}

/// Takes from a sample what the source does not have any more.
fn drop_deleted(
    session: &Session<'_>,
    source: &dyn Source,
    sample: &mut BTreeMap<String, Change>,
) -> Result<()> {
    let mut deleted = Vec::new();
    for (key, change) in sample.iter() {
        let is_there = patiently(session, || source.has(key))?;
        if change.document.is_some() && is_there == Some(false) {
            deleted.push(key.clone());
        }
    }
    sample.retain(|key, _| !deleted.contains(key));
    Ok(())
}

/// The keys of a sample whose documents are not in the index as they are in the source. With
/// `is_whole` the positions of the sample are of a reader of its own.
fn differences(
    session: &Session<'_>,
    index: &str,
    sample: &BTreeMap<String, Change>,
    is_whole: bool,
) -> Result<BTreeMap<String, String>> {
    let changes: Vec<&Change> = sample.values().collect();
    let mut differences = BTreeMap::new();
    let path = format!("/{}/_mget", segment(index));
    for part in changes.chunks(READ_BACK) {
        let own = session.sink.doc_type.as_deref();
        let doc_type = own.or_else(|| session.server.doc_type());
        let docs = part.iter().map(|change| match doc_type {
            Some(doc_type) => json!({"_id": &*change.key, "_type": doc_type}),
            None => json!({"_id": &*change.key}),
        });
        let body = json!({"docs": docs.collect::<Vec<_>>()});
        let answer = session.cluster.done("POST", &path, Some(&body))?;
        let docs = answer["docs"].as_array().cloned().unwrap_or_default();
        if docs.len() != part.len() {
            return Err(Error::Reindex(format!(
                "{index} gave {} documents of {} back",
                docs.len(),
                part.len()
            )));
        }
        for (change, read) in part.iter().zip(&docs) {
            if let Some(what) = difference(&session.server, is_whole, change, read) {
                differences.insert(change.key.to_string(), what);
            }
        }
    }
    Ok(differences)
}

/// What differs between a change and what was read back; none if nothing does, or if a later
/// version is there.
fn difference(server: &Server, is_whole: bool, change: &Change, read: &Value) -> Option<String> {
    let is_there = read["found"] == json!(true);
    // Quire gives versions itself, and a table that is read anew gives its rows later positions.
    let version = match server.flavor {
        _ if is_whole => None,
        "quire" => None,
        _ => read["_version"].as_u64(),
    };
    match (&change.document, is_there, version) {
        (_, true, Some(version)) if version > change.position => None,
        (None, false, _) => None,
        (None, true, _) => Some("it is in the index, and deleted in the source".to_owned()),
        (Some(_), false, _) => Some("it is not in the index".to_owned()),
        (Some(_), true, Some(version)) if version < change.position => Some(format!(
            "the index has version {version}, the source {}",
            change.position
        )),
        (Some(document), true, _) => {
            let source: Value = serde_json::from_str(document).unwrap_or_default();
            fields_that_differ(&source, &read["_source"])
        }
    }
}

/// The names of fields that are not equal; the document's id is not compared.
fn fields_that_differ(source: &Value, read: &Value) -> Option<String> {
    let (Some(source), Some(read)) = (source.as_object(), read.as_object()) else {
        return Some("it is no object".to_owned());
    };
    let names = source.keys().chain(read.keys());
    let mut differ: Vec<&str> = names
        .filter(|name| *name != "_id" && source.get(*name) != read.get(*name))
        .map(String::as_str)
        .collect();
    differ.sort_unstable();
    differ.dedup();
    match differ.as_slice() {
        [] => None,
        names => Some(format!("these fields differ: {}", names.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_differs_by_absence_version_or_field_and_not_by_a_later_version() {
        let server = |flavor| Server {
            flavor,
            major: 3,
            version: "3.6.0".to_owned(),
        };
        let change = |document: Option<&str>| Change {
            partition: 0,
            position: 7,
            time_micros: 0,
            key: "k".into(),
            document: document.map(Into::into),
        };
        let put = change(Some(r#"{"_id":"k","b":1,"a":[1]}"#));
        let read = |version: u64, source: Value| {
            let mut read = json!({"found": true, "_version": version});
            read["_source"] = source;
            read
        };
        let same = json!({"a": [1], "b": 1});
        let of =
            |change: &Change, read: &Value| difference(&server("opensearch"), false, change, read);
        assert_eq!(of(&put, &read(7, same.clone())), None);
        assert_eq!(of(&put, &read(8, json!({}))), None);
        assert!(
            of(&put, &read(6, same.clone()))
                .unwrap()
                .contains("version 6")
        );
        assert!(of(&put, &json!({"found": false})).is_some());
        let what = of(&put, &read(7, json!({"a": [2], "c": 1}))).unwrap();
        assert_eq!(what, "these fields differ: a, b, c");
        assert_eq!(of(&change(None), &json!({"found": false})), None);
        assert_eq!(of(&change(None), &read(8, json!({}))), None);
        assert!(of(&change(None), &read(6, json!({}))).is_some());
        // Versions of Quire are its own.
        let of_quire = |read: &Value| difference(&server("quire"), true, &put, read);
        assert_eq!(of_quire(&read(99, same.clone())), None);
        assert!(of_quire(&read(99, json!({}))).is_some());
        // Positions of a table that is read anew are others.
        for version in [6, 8] {
            let of_table = |read: &Value| difference(&server("opensearch"), true, &put, read);
            assert_eq!(of_table(&read(version, same.clone())), None);
            assert!(of_table(&read(version, json!({"a": [2]}))).is_some());
        }
    }
}
