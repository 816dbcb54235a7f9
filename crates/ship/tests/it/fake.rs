//! A search server with faults: documents by key with external versions, over real sockets.

use crate::wire::{listen, request};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufReader, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// What goes wrong with a bulk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// 429 for the whole bulk; nothing is applied.
    Reject,
    /// Every other item gets 429.
    RejectItems,
    /// All is applied, and the answer is cut in the middle.
    HalfAnswer,
    /// All is applied, and the connection is cut before the answer.
    CutAfter,
    /// The connection is cut, and nothing is applied.
    CutBefore,
    /// All is applied, and the answer comes after the client's patience.
    Late,
    /// A restart: 503.
    Away,
    /// The body is too large.
    TooLarge,
}

pub(crate) const FAULTS: [Fault; 9] = [
    Fault::None,
    Fault::Reject,
    Fault::RejectItems,
    Fault::HalfAnswer,
    Fault::CutAfter,
    Fault::CutBefore,
    Fault::Late,
    Fault::Away,
    Fault::TooLarge,
];

/// How long a client of this server waits, and how late a late answer is.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);
const LATE: Duration = Duration::from_millis(1300);

#[derive(Debug, Default)]
pub(crate) struct State {
    /// Version and document by key; a deletion keeps its version.
    documents: BTreeMap<String, (u64, Option<Value>)>,
    pub(crate) faults: Vec<Fault>,
    /// Bulks that hold a key at the same time as another.
    under_way: BTreeMap<String, u32>,
    pub(crate) key_in_two_bulks: bool,
    /// Every bulk is refused as a whole.
    pub(crate) refuses_all: bool,
    /// What is wrong with documents was mended.
    pub(crate) takes_bad: bool,
    /// Connections to nodes beside the first.
    pub(crate) connections: usize,
}

impl State {
    /// The documents that are there.
    pub(crate) fn documents(&self) -> BTreeMap<String, Value> {
        let there = self.documents.iter();
        there
            .filter_map(|(key, (_, document))| Some((key.clone(), document.clone()?)))
            .collect()
    }
}

pub(crate) struct Fake {
    pub(crate) url: String,
    pub(crate) state: Arc<Mutex<State>>,
}

impl Fake {
    /// Serves until the test ends. The faults come in their order, then none.
    pub(crate) fn start(mut faults: Vec<Fault>) -> Fake {
        faults.reverse();
        let state = Arc::new(Mutex::new(State {
            faults,
            ..State::default()
        }));
        let shared = Arc::clone(&state);
        let url = listen(move |stream| serve(stream, &shared));
        Fake { url, state }
    }

    /// The address of another node with the same documents.
    pub(crate) fn node(&self) -> String {
        let shared = Arc::clone(&self.state);
        listen(move |stream| {
            shared.lock().unwrap().connections += 1;
            serve(stream, &shared);
        })
    }
}

fn serve(stream: TcpStream, state: &Mutex<State>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    while let Some((_, path, body)) = request(&mut reader) {
        let (status, answer, cut) = match path.as_str() {
            "/" => (
                200,
                json!({"version": {"number": "2.19.0", "distribution": "opensearch"}}).to_string(),
                None,
            ),
            path if path.contains("_bulk") => bulk(state, &body),
            _ => (200, "{}".to_owned(), None),
        };
        let head = format!(
            "HTTP/1.1 {status} X\r\nContent-Length: {}\r\n\r\n",
            answer.len()
        );
        let bytes = [head.as_bytes(), answer.as_bytes()].concat();
        let length = cut.map_or(bytes.len(), |part: f64| {
            (bytes.len() as f64 * part) as usize
        });
        if stream.write_all(&bytes[..length]).is_err() || cut.is_some() {
            return;
        }
    }
}

/// Status, body, and after which part of the answer the connection is cut.
fn bulk(state: &Mutex<State>, body: &[u8]) -> (u16, String, Option<f64>) {
    let items = items(body);
    // A search server looks at all ids before it takes any.
    let is_wrong = |(key, ..): &Item| key.is_empty() || key.len() > 512;
    if items.iter().any(is_wrong) || state.lock().unwrap().refuses_all {
        return (400, "Validation Failed: 1: id is too long".to_owned(), None);
    }
    let fault = {
        let mut state = state.lock().unwrap();
        for (key, ..) in &items {
            let count = state.under_way.entry(key.clone()).or_default();
            *count += 1;
            let is_twice = *count > 1;
            state.key_in_two_bulks |= is_twice;
        }
        state.faults.pop().unwrap_or(Fault::None)
    };
    let fault = match fault {
        Fault::TooLarge if items.len() == 1 => Fault::None,
        fault => fault,
    };
    let answers = apply(state, &items, fault);
    {
        let mut state = state.lock().unwrap();
        for (key, ..) in &items {
            *state.under_way.get_mut(key).unwrap() -= 1;
        }
    }
    let answer = json!({"items": answers}).to_string();
    match fault {
        Fault::None | Fault::RejectItems => (200, answer, None),
        Fault::Reject => (429, "full".to_owned(), None),
        Fault::Away => (503, "away".to_owned(), None),
        Fault::TooLarge => (413, "too large".to_owned(), None),
        Fault::HalfAnswer => (200, answer, Some(0.6)),
        Fault::CutAfter | Fault::CutBefore => (200, answer, Some(0.0)),
        Fault::Late => {
            thread::sleep(LATE);
            (200, answer, None)
        }
    }
}

type Item = (String, u64, Option<Value>);

fn items(body: &[u8]) -> Vec<Item> {
    let mut lines = body
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty());
    let mut items = Vec::new();
    while let Some(line) = lines.next() {
        let action: Value = serde_json::from_slice(line).unwrap();
        let (op, meta) = action.as_object().unwrap().iter().next().unwrap();
        assert_eq!(meta["version_type"], "external");
        let document = (op == "index").then(|| {
            let document: Value = serde_json::from_slice(lines.next().unwrap()).unwrap();
            assert!(document.get("_id").is_none(), "a search server refuses _id");
            document
        });
        let key = meta["_id"].as_str().unwrap().to_owned();
        items.push((key, meta["version"].as_u64().unwrap(), document));
    }
    items
}

fn apply(state: &Mutex<State>, items: &[Item], fault: Fault) -> Vec<Value> {
    let mut state = state.lock().unwrap();
    let applies = !matches!(
        fault,
        Fault::Reject | Fault::Away | Fault::CutBefore | Fault::TooLarge
    );
    let answer = |(index, (key, version, document)): (usize, &Item)| {
        let op = if document.is_some() {
            "index"
        } else {
            "delete"
        };
        if !applies || (fault == Fault::RejectItems && index % 2 == 0) {
            return json!({op: {"status": 429, "error": {"type": "rejected", "reason": "full"}}});
        }
        let is_bad = |document: &Value| document["bad"] == json!(true);
        if document.as_ref().is_some_and(is_bad) && !state.takes_bad {
            return json!({op: {"status": 400, "error": {"type": "mapper", "reason": "bad"}}});
        }
        if state
            .documents
            .get(key)
            .is_some_and(|(has, _)| has >= version)
        {
            return json!({op: {"status": 409, "error": {"type": "version_conflict"}}});
        }
        state
            .documents
            .insert(key.clone(), (*version, document.clone()));
        json!({op: {"status": 200}})
    };
    items.iter().enumerate().map(answer).collect()
}
