//! Documents of the parts: car adverts as JSON of 25 fields and some text, about 600 bytes; and
//! flat files of them for engines without a parser of JSON.
//!
//! # Flat files
//! The first line has each field and its type, `name:i`, between tabs. Then one line a document:
//! its key, then each value after a tab, as the field's number, the letter of its type, the text.
//! Types: `i` integer, `f` float, `s` string, `h` the hash of a long string, `p` a payload, which
//! is stored alone.

use crate::Result;
use crate::adverts::mix;
use crate::snapshot::cars::{Car, FIELDS};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write;

/// Regions of the adverts.
pub(super) const REGIONS: u64 = 1024;

/// Strings of more bytes are found by a hash.
const LONG: usize = 256;

/// Bytes of an advert's text, at least: the whole takes about 600.
const TEXT_BYTES: usize = 120;

/// Makes adverts.
#[derive(Default)]
pub(super) struct Adverts {
    car: Car,
    text: String,
}

impl Adverts {
    /// Advert `id` as JSON. Version 0 is the first; each other has a price and a time of its own,
    /// and is newer.
    pub(super) fn json(&mut self, id: u64, version: u64) -> &str {
        self.car.make(id, mix(id ^ 0x5245_4749) % REGIONS);
        let text = &mut self.text;
        text.clear();
        let _ = write!(text, "{{\"_id\":\"{id}\"");
        for ((name, is_number), value) in FIELDS.iter().zip(self.car.values()) {
            let _ = match *name {
                "region" => write!(text, ",\"region\":\"region-{value}\""),
                "price" if version > 0 => write!(text, ",\"price\":{}", price(id, version)),
                "added" if version > 0 => write!(text, ",\"added\":{}", added(version)),
                _ if *is_number => write!(text, ",\"{name}\":{value}"),
                _ => write!(text, ",\"{name}\":\"{value}\""),
            };
        }
        let room = TEXT_BYTES + (mix(id ^ 0x5445_5854) % 40) as usize;
        let payload = &self.car.payload;
        let payload = payload.get(..room).unwrap_or(payload);
        let _ = write!(text, ",\"text\":\"{payload}\"}}");
        text
    }

    /// What a new version changes, as a patch.
    pub(super) fn patch(&mut self, id: u64, version: u64) -> &str {
        self.text.clear();
        let (price, added) = (price(id, version), added(version));
        let _ = write!(self.text, "{{\"price\":{price},\"added\":{added}}}");
        &self.text
    }
}

fn price(id: u64, version: u64) -> u64 {
    500 + 100 * (mix(id ^ version << 32) % 400)
}

fn added(version: u64) -> u64 {
    1_800_000_000_000 + version * 1_009
}

/// The advert that update `version` is of.
pub(super) fn updated(version: u64, count: u64) -> u64 {
    mix(version ^ 0x5550_4441) % count
}

/// A field's number in flat files, and the letter of its type.
type Schema = BTreeMap<String, (usize, char)>;

/// Writes flat files.
#[derive(Default)]
pub(super) struct Flat {
    schema: Schema,
    left_out: Option<&'static str>,
    payload: Option<&'static str>,
}

impl Flat {
    /// A writer that leaves out one field, and takes one as a payload.
    pub(super) fn new(left_out: Option<&'static str>, payload: Option<&'static str>) -> Flat {
        Flat {
            left_out,
            payload,
            ..Flat::default()
        }
    }

    /// Takes the fields of a document into the schema.
    pub(super) fn see(&mut self, document: &Value) {
        let (payload, left_out) = (self.payload, self.left_out);
        let schema = &mut self.schema;
        each_value("", document, &mut |path, value| {
            if path == "_id" || left_out == Some(path) {
                return;
            }
            let kind = match value {
                _ if payload == Some(path) => 'p',
                Value::Number(number) if number.is_f64() => 'f',
                Value::Number(_) => 'i',
                _ => 's',
            };
            let number = schema.len();
            let known = schema.entry(path.to_owned()).or_insert((number, kind));
            known.1 = match (known.1, kind) {
                (a, b) if a == b => a,
                ('i', 'f') | ('f', 'i') => 'f',
                _ => 's',
            };
        });
    }

    pub(super) fn write_head(&self, out: &mut dyn Write) -> Result<()> {
        let mut fields: Vec<_> = self.schema.iter().collect();
        fields.sort_by_key(|(_, (number, _))| *number);
        let fields = fields
            .iter()
            .map(|(name, (_, kind))| format!("{name}:{kind}"));
        Ok(writeln!(out, "{}", fields.collect::<Vec<_>>().join("\t"))?)
    }

    pub(super) fn write(&self, document: &Value, out: &mut dyn Write) -> Result<()> {
        let mut line = match &document["_id"] {
            Value::String(id) => id.clone(),
            id => id.to_string(),
        };
        each_value("", document, &mut |path, value| {
            let Some((number, kind)) = self.schema.get(path) else {
                return;
            };
            let text = match value {
                Value::String(text) => text.replace(['\t', '\n', '\r', '\u{1f}'], " "),
                other => other.to_string(),
            };
            let _ = match (kind, text.len() > LONG) {
                ('s', true) => {
                    let hash = xxhash_rust::xxh3::xxh3_128(text.as_bytes());
                    write!(line, "\t{number}h{hash:032x}")
                }
                _ => write!(line, "\t{number}{kind}{text}"),
            };
        });
        Ok(writeln!(out, "{line}")?)
    }
}

/// Each value that is no object, array or null, with its dotted path; elements of arrays each.
fn each_value(path: &str, value: &Value, see: &mut dyn FnMut(&str, &Value)) {
    match value {
        Value::Null => {}
        Value::Object(fields) => {
            for (name, value) in fields {
                match path.is_empty() {
                    true => each_value(name, value, see),
                    false => each_value(&format!("{path}.{name}"), value, see),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| each_value(path, value, see)),
        value => see(path, value),
    }
}

/// A line of a flat file: the key; the number, the letter and the text of each value.
pub(super) fn parse_flat(line: &str) -> (&str, impl Iterator<Item = (usize, char, &str)>) {
    let mut parts = line.split('\t');
    let key = parts.next().unwrap_or_default();
    let values = parts.filter_map(|part| {
        let at = part.find(|c: char| !c.is_ascii_digit())?;
        let kind = part[at..].chars().next()?;
        Some((part[..at].parse().ok()?, kind, &part[at + 1..]))
    });
    (key, values)
}
