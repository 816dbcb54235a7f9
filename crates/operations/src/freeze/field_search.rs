//! Which fields documents have, where no option names them, and which of these are long text.

use quire_database::{Error, ID, Result, View, engine};
use quire_frozen::FieldSpec;
use quire_model::ValueRef;
use quire_query::Path as FieldPath;
use std::collections::{BTreeMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

/// The most fields that are looked for; more are to be named.
pub const FIELDS_MAX: usize = 1_000;

/// Text is long from this many bytes on, on average.
const LONG_BYTES: u64 = 128;

/// The values that say whether text is unique: at least, and at most.
const UNIQUE_VALUES_MIN: u64 = 100;
const UNIQUE_VALUES_MAX: u64 = 1_000;

/// The fields that documents have.
pub(super) struct FoundFields {
    /// Those to be frozen, [`ID`] among them.
    pub(super) fields: Vec<FieldSpec>,
    /// Those that are left out: text that is long, and of which hardly two documents have the same.
    pub(super) long_texts: Vec<String>,
}

/// The values of a field.
#[derive(Default)]
struct Seen {
    values: u64,
    text_bytes: u64,
    /// Hashes of the first values.
    first: HashSet<u64>,
}

impl Seen {
    fn add(&mut self, value: ValueRef<'_>) {
        self.values += 1;
        let ValueRef::String(text) = value else {
            return;
        };
        self.text_bytes += text.len() as u64;
        if self.values <= UNIQUE_VALUES_MAX {
            let mut hasher = DefaultHasher::new();
            text.hash(&mut hasher);
            self.first.insert(hasher.finish());
        }
    }

    /// Whether it is long text of which nine in ten are unique.
    fn is_long_text(&self) -> bool {
        let looked = self.values.min(UNIQUE_VALUES_MAX);
        let is_long = self.text_bytes >= self.values.saturating_mul(LONG_BYTES);
        is_long && looked >= UNIQUE_VALUES_MIN && self.first.len() as u64 * 10 >= looked * 9
    }
}

/// Each field that any document has, and [`ID`]; long text only if `has_long_text` says so.
/// `progress` gets the number of documents read so far.
///
/// # Errors
/// `TooLarge` for more than [`FIELDS_MAX`]; `Corrupt` for damage.
pub(super) fn find_fields(
    view: &View,
    has_long_text: bool,
    progress: &mut dyn FnMut(u64),
) -> Result<FoundFields> {
    let mut seen = BTreeMap::from([(ID.to_owned(), Seen::default())]);
    let mut looked = 0;
    for partition in 0..view.partition_count() {
        let mut rows = engine::view_rows(view, partition)?;
        loop {
            let batch = rows.next_batch()?;
            if batch.is_empty() {
                break;
            }
            for (_, found) in &batch {
                FieldPath::each_value_in(found.document.root(), &mut |path, value| {
                    if let Some(seen) = seen.get_mut(path) {
                        seen.add(value);
                    } else if seen.len() <= FIELDS_MAX {
                        seen.entry(path.to_owned()).or_default().add(value);
                    }
                });
                if seen.len() > FIELDS_MAX {
                    return Err(Error::TooManyFields {
                        fields_max: FIELDS_MAX,
                    });
                }
            }
            looked += batch.len() as u64;
            progress(looked);
        }
    }
    let is_left_out = |path: &str, seen: &Seen| path != ID && !has_long_text && seen.is_long_text();
    let (left_out, kept): (BTreeMap<_, _>, BTreeMap<_, _>) = seen
        .into_iter()
        .partition(|(path, seen)| is_left_out(path, seen));
    Ok(FoundFields {
        fields: kept.keys().map(|path| FieldSpec::full(path)).collect(),
        long_texts: left_out.into_keys().collect(),
    })
}
