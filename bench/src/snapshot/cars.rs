//! Car adverts to query: 25 fields and a payload of some 600 bytes each, in regions, each of which
//! is a partition.
//!
//! All is drawn from the advert's number, so that the same adverts are made again; the questions
//! likewise.

use super::layout::{Layout, added, region_of};
use crate::Result;
use crate::adverts::{Random, mix};
use std::fmt::Write as _;
use std::io::Write;

/// Names of the fields, in the order of their values, and whether they are numbers.
pub(crate) const FIELDS: [(&str, bool); 25] = [
    ("id", true),
    ("region", true),
    ("added", true),
    ("price", true),
    ("year", true),
    ("mileage", true),
    ("power", true),
    ("doors", true),
    ("seats", true),
    ("owners", true),
    ("photos", true),
    ("mark", false),
    ("model", false),
    ("body", false),
    ("colour", false),
    ("fuel", false),
    ("gearbox", false),
    ("drive", false),
    ("wheel", false),
    ("state", false),
    ("seller", false),
    ("currency", false),
    ("city", false),
    ("document", false),
    ("exchange", false),
];

/// By which fields queries sort.
pub(crate) const SORTED: [&str; 5] = ["added", "price", "year", "mileage", "power"];

/// An advert: its values as text, field by field, and its payload.
#[derive(Debug, Default)]
pub(crate) struct Car {
    values: String,
    ends: Vec<usize>,
    pub(crate) payload: String,
}

const WORDS: [&str; 24] = [
    "service",
    "history",
    "leather",
    "one",
    "owner",
    "winter",
    "tyres",
    "no",
    "accidents",
    "heated",
    "seats",
    "navigation",
    "parking",
    "sensors",
    "new",
    "brakes",
    "garage",
    "kept",
    "tow",
    "bar",
    "sunroof",
    "climate",
    "control",
    "warranty",
];

impl Car {
    /// The text of each value.
    pub(crate) fn values(&self) -> impl Iterator<Item = &str> {
        let starts = std::iter::once(&0).chain(&self.ends);
        starts
            .zip(&self.ends)
            .map(|(start, end)| self.values.get(*start..*end).unwrap_or_default())
    }

    fn push(&mut self, value: impl std::fmt::Display) {
        let _ = write!(self.values, "{value}");
        self.ends.push(self.values.len());
    }

    /// Makes this the advert of a number.
    pub(crate) fn make(&mut self, id: u64, region: u64) {
        self.values.clear();
        self.ends.clear();
        self.payload.clear();
        let mut random = Random::new(mix(id ^ 0x4341_5253));
        // Few marks are most of the market.
        let mark = random.below(60).min(random.below(60));
        self.push(id);
        self.push(region);
        self.push(added(id));
        self.push(500 + 100 * random.below(400).min(random.below(800)));
        self.push(1990 + random.below(36).max(random.below(30)));
        self.push(1_000 * random.below(300));
        self.push(50 + 5 * random.below(60));
        self.push(2 + random.below(4));
        self.push(2 + random.below(6));
        self.push(1 + random.below(4));
        self.push(random.below(20));
        self.push(format_args!("mark-{mark}"));
        self.push(format_args!("model-{mark}-{}", random.below(12)));
        for (name, values) in [
            ("body", 8),
            ("colour", 12),
            ("fuel", 5),
            ("gearbox", 3),
            ("drive", 3),
            ("wheel", 2),
            ("state", 3),
            ("seller", 2),
            ("currency", 3),
        ] {
            self.push(format_args!("{name}-{}", random.below(values)));
        }
        self.push(format_args!("city-{region}-{}", random.below(5)));
        self.push(format_args!("document-{}", random.below(3)));
        self.push(format_args!("exchange-{}", random.below(2)));
        let end = 520 + random.below(160) as usize;
        while self.payload.len() < end {
            self.payload.push_str(random.pick(&WORDS));
            self.payload.push(' ');
        }
    }
}

/// Writes all adverts, one a line, values and payload between tabs: for engines that are other
/// processes.
pub(super) fn write(out: &mut dyn Write, layout: Layout, count: u64, files: u64) -> Result<()> {
    let mut car = Car::default();
    let regions = layout.regions(files);
    for id in layout.files(count, files).into_iter().flatten() {
        car.make(id, region_of(id, regions, count));
        for value in car.values() {
            write!(out, "{value}\t")?;
        }
        writeln!(out, "{}", car.payload)?;
    }
    Ok(())
}

/// Kinds of questions.
pub(crate) const KINDS: [&str; 5] = [
    "count a region",
    "newest of a mark and price",
    "newest of a mark and price in a region",
    "count marks, not a colour, years",
    "count a region, made anew",
];

/// Queries of this kind are prepared each time that they are executed; all others are prepared
/// before.
pub(crate) const MADE_ANEW: usize = 4;

/// A question; the same members for all kinds, of which each uses some.
#[derive(Debug, Clone)]
pub(crate) struct Question {
    pub(crate) kind: usize,
    pub(crate) region: u64,
    pub(crate) marks: Vec<String>,
    pub(crate) price: [u64; 2],
    pub(crate) colour: String,
    pub(crate) years: [u64; 2],
}

/// `each` questions of each kind.
pub(crate) fn questions(each: u64, regions: u64) -> Vec<Question> {
    let mut random = Random::new(7);
    let mut all = Vec::new();
    for kind in 0..KINDS.len() {
        for _ in 0..each {
            let low = 500 + 100 * random.below(150);
            let year = 1995 + random.below(25);
            let marks = if kind == 3 { 5 } else { 1 };
            all.push(Question {
                kind,
                region: random.below(regions),
                marks: (0..marks)
                    .map(|_| format!("mark-{}", random.below(30)))
                    .collect(),
                price: [low, low + 3_000],
                colour: format!("colour-{}", random.below(12)),
                years: [year, year + 6],
            });
        }
    }
    all
}

impl Question {
    /// One line, members between tabs.
    pub(crate) fn write(&self, out: &mut dyn Write) -> Result<()> {
        let Question {
            kind,
            region,
            marks,
            price: [low, high],
            colour,
            years: [from, to],
        } = self;
        writeln!(
            out,
            "{kind}\t{region}\t{}\t{low}\t{high}\t{colour}\t{from}\t{to}",
            marks.join(",")
        )?;
        Ok(())
    }
}
