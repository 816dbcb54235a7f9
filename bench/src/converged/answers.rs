//! The kinds of questions about adverts, as Quire is executed them in this process.

use super::documents::REGIONS;
use crate::Result;
use crate::snapshot::cars::{self, Question};
use crate::snapshot::market::{hash_of, prepared_of};
use quiredb::query::{Options, Prepared};
use quiredb::{Collection, ValueRef};
use std::io::Write;

/// The kinds: the first of [`cars::KINDS`].
pub(super) const KINDS: [&str; 4] = [
    "count a region",
    "newest of a mark and price",
    "newest of a mark and price in a region",
    "count marks, not a colour, years",
];

/// The questions of all kinds.
pub(super) fn questions(each: u64) -> Vec<Question> {
    let mut all = cars::questions(each, REGIONS);
    all.retain(|question| question.kind < KINDS.len());
    all
}

/// Writes them for other processes.
pub(super) fn write(out: &mut dyn Write, each: u64) -> Result<()> {
    questions(each)
        .iter()
        .try_for_each(|question| question.write(out))
}

/// The questions of a kind, ready to be executed.
pub(super) fn ready(kind: usize, each: u64) -> Result<Vec<Prepared>> {
    let questions = questions(each);
    let of_kind = questions.iter().filter(|question| question.kind == kind);
    of_kind
        .map(|question| prepared_of(question, format!("region-{}", question.region)))
        .collect()
}

/// A count, or a number that stands for the hits, their order and their text; of a view that is
/// made for it.
pub(super) fn execute(documents: &Collection, query: &Prepared) -> Result<u64> {
    let view = documents.view()?;
    let answer = view.query(query, &Options::default())?;
    if let Some(count) = answer.count {
        return Ok(count);
    }
    let mut number = 0_u64;
    for found in view.documents(&answer.hits)? {
        let hash = match found.document.get("text") {
            Some(ValueRef::String(text)) => hash_of(text.as_bytes()),
            _ => return Err("an advert without a text".into()),
        };
        number = (number.wrapping_mul(1_000_003) + hash) & 0xffff_ffff_ffff;
    }
    Ok(number)
}
