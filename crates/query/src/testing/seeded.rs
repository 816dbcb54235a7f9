//! [`Seeded`]: what tests choose among, and how.

use crate::{Path, Value};
use quire_model::Document;

/// The fields that queries know: those of documents, and one that none has.
pub const PATHS: [&str; 10] = [
    "mark",
    "price",
    "sold",
    "tags",
    "at.city",
    "at.geo.lat",
    "offers.price",
    "offers.by",
    "odd name",
    "nowhere",
];

/// Values as they stand in JSON. Some are equal and written in different ways.
const VALUES: [&str; 42] = [
    "null",
    "true",
    "false",
    "0",
    "-0.0",
    "1",
    "1.0",
    "-1",
    "2",
    "2.5",
    "1e0",
    "10",
    "9.99",
    "100",
    "-7.25",
    "1e300",
    "9007199254740993",
    "9007199254740992.0",
    "18446744073709551615",
    "\"\"",
    "\"a\"",
    "\"ab\"",
    "\"abc\"",
    "\"b\"",
    "\"A\"",
    "\"a%b\"",
    "\"a_b\"",
    "\"it's\"",
    "\"\\u0000\"",
    "\"\u{fc}\"",
    "\"\u{10ffff}\"",
    "\"10\"",
    "\"2026-01-31T22:30:00Z\"",
    "\"2026-02-01\"",
    "\"2026-02-01T01:00:00+02:00\"",
    "1769900000000",
    "\"2026\"",
    "\"2026-02-01T23:30:00.250-23:30\"",
    "\"10.0.0.7\"",
    "\"::ffff:10.0.0.7\"",
    "\"10.0.1.0\"",
    "\"2001:DB8:0::1\"",
];

/// Words that decide their own numbers (Vigna's splitmix64).
pub(super) struct Seeded(pub(super) u64);

impl Seeded {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    pub(super) fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    pub(super) fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        let place = self.below(from.len() as u64) as usize;
        from.get(place).copied().unwrap_or_default()
    }

    pub(super) fn path(&mut self) -> Path {
        Path::new(self.pick(&PATHS))
    }

    /// A path of a filter: at times one that chooses an element.
    pub(super) fn tested_path(&mut self) -> Path {
        if !self.one_in(6) {
            return self.path();
        }
        let mut position = || self.below(3) as usize;
        match position() {
            0 => Path::new("offers").element(position()).field("price"),
            1 => Path::new("tags").element(position()).element(position()),
            _ => self.path().element(self.below(3) as usize),
        }
    }

    pub(super) fn json(&mut self) -> &'static str {
        self.pick(&VALUES)
    }

    pub(super) fn value(&mut self) -> Value {
        let json = format!("{{\"v\":{}}}", self.json());
        let document = Document::from_json(json.as_bytes());
        let value = document
            .as_ref()
            .ok()
            .and_then(|document| document.get("v"));
        value
            .and_then(Value::from_document)
            .unwrap_or(Value::null())
    }
}
