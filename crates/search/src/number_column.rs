//! [`NumberColumn`]: the values of a field in memory, one for each document, where all are numbers.
//!
//! # Layout
//! Documents lie in pages. A page has a *key* for each of its documents, and a key is the ordinal:
//! ```text
//! 0                no other value is less: null
//! 1 to 2^64 - 2    a number; keys sort as the numbers do
//! 2^64 - 1         no value
//! ```
//! A number's key is that of an integer as long as all numbers are integers, else that of a float.
//! What is no float exactly then, as 2^53 + 1, can't be kept beside floats.

use super::changed::Part;
use super::column::set_of;
use super::followed_columns::{FollowedColumn, FollowedColumns, NotKept};
use super::number::Number;
use super::number_first::FirstKeys;
use super::number_sample::KeySample;
use super::sample::Sampled;
use quire_index::{DocSet, number_key, term};
use quire_model::ordered::{Direction, OrderedValue};
use quire_model::{Document, ValueRef};
use quire_query::{
    Column, End, NO_ORDINAL, Ordinals, Path, Result, TermRange, WantedFirst, ordinals_between,
};
use quire_seeded::{Bug, seeded};
use std::convert::Infallible;
use std::hint::black_box;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

/// Documents of a page. A page is copied when a document changes that a query reads.
const PAGE_DOCS: usize = 512;

/// A page of documents without a value.
static NO_VALUES: [u64; PAGE_DOCS] = [NO_ORDINAL; PAGE_DOCS];

/// The key of null.
const NULL: u64 = 0;

/// The least key of a number.
const LEAST: u64 = 1;

/// Two to the power of 63.
const TWO_63: f64 = 9_223_372_036_854_775_808.0;

/// What the keys of numbers are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Kind {
    #[default]
    Integers,
    Floats,
}

/// Fields of numbers.
pub(crate) type FollowedNumbers = FollowedColumns<NumberColumn>;

/// See the module. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct NumberColumn(Arc<Pages>);

#[derive(Debug, Clone, Default)]
struct Pages {
    kind: Kind,
    pages: Vec<Arc<[u64; PAGE_DOCS]>>,
    /// How many documents have a value, and how many have null.
    there: u64,
    nulls: u64,
    /// Those that come first by an order, once a query needed them.
    least: Option<FirstKeys>,
    greatest: Option<FirstKeys>,
    /// Some of the keys, once a query needed to know about how many documents a range has.
    sample: Option<KeySample>,
}

/// The first documents by an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum First {
    Docs(DocSet),
    /// It is not known: many documents share a value, so there are few values.
    Level,
    /// It is not known.
    Unknown,
}

impl Kind {
    /// None for a number that is no float exactly, or no integer.
    fn key(self, number: Number) -> Option<u64> {
        Some(match (self, number) {
            (_, Number::Null) => NULL,
            (Kind::Integers, Number::Int(value)) => number_key::of_int(value),
            (Kind::Integers, Number::Float(_)) => return None,
            (Kind::Floats, Number::Float(value)) => key_of_float(value),
            (Kind::Floats, Number::Int(value)) => {
                let float = value as f64;
                if float as i128 != i128::from(value) {
                    return None;
                }
                key_of_float(float)
            }
        })
    }

    /// Appends the term of a key; nothing for one that no number has.
    fn append_term(self, key: u64, out: &mut Vec<u8>) {
        match (self, key) {
            (_, NULL) => out.extend_from_slice(term::NULL),
            (Kind::Integers, key) => {
                term::encode_ordered(OrderedValue::Int(number_key::to_int(key)), out);
            }
            (Kind::Floats, key) => {
                term::encode_ordered(OrderedValue::Float(number_key::to_float(key)), out);
            }
        }
    }

    /// The keys that numbers can have.
    fn keys_of_numbers(self) -> Range<u64> {
        match self {
            Kind::Integers => LEAST..NO_ORDINAL,
            Kind::Floats => key_of_float(f64::NEG_INFINITY)..key_of_float(f64::INFINITY) + 1,
        }
    }

    /// The least key whose number is not below a value.
    fn least_from(self, value: &OrderedValue<'_>) -> u64 {
        match (self, value) {
            (_, OrderedValue::Null) => NULL,
            (_, OrderedValue::Bool(_)) => LEAST,
            (Kind::Integers, OrderedValue::Int(value)) => number_key::of_int(*value).max(LEAST),
            (Kind::Integers, OrderedValue::Float(value)) => match value.ceil() {
                least if least < -TWO_63 => LEAST,
                least if least < TWO_63 => number_key::of_int(least as i64).max(LEAST),
                _ => NO_ORDINAL,
            },
            (Kind::Floats, OrderedValue::Int(value)) => least_float_from((*value).into()),
            (Kind::Floats, OrderedValue::UInt(value)) => least_float_from((*value).into()),
            (Kind::Floats, OrderedValue::Float(value)) => key_of_float(*value),
            _ => NO_ORDINAL,
        }
    }
}

fn key_of_float(value: f64) -> u64 {
    // Minus zero is zero.
    number_key::of_float(value + 0.0)
}

fn least_float_from(value: i128) -> u64 {
    let float = value as f64;
    key_of_float(float) + u64::from((float as i128) < value)
}

impl Pages {
    fn key_of(&self, doc: u32) -> u64 {
        let page = self.pages.get(doc as usize / PAGE_DOCS);
        let key = page.and_then(|page| page.get(doc as usize % PAGE_DOCS));
        key.copied().unwrap_or(NO_ORDINAL)
    }

    /// Brings the pages of many documents, and their reference counts, into the cache. A processor
    /// reads several at once, but changes one after another.
    fn prefetch(&self, docs: impl Iterator<Item = u32>) {
        let read = docs.map(|doc| {
            let page = self.pages.get(doc as usize / PAGE_DOCS);
            let count = page.map_or(0, Arc::strong_count);
            self.key_of(doc) ^ count as u64
        });
        black_box(read.fold(0, |all, one| all ^ one));
    }

    fn set_key(&mut self, doc: u32, key: u64) {
        let place = doc as usize / PAGE_DOCS;
        if self.pages.len() <= place {
            if key == NO_ORDINAL {
                return;
            }
            let empty = Arc::new(NO_VALUES);
            self.pages.resize(place + 1, empty);
        }
        let page = self.pages.get_mut(place).map(Arc::make_mut);
        if let Some(slot) = page.and_then(|page| page.get_mut(doc as usize % PAGE_DOCS)) {
            let before = std::mem::replace(slot, key);
            self.there -= u64::from(before != NO_ORDINAL);
            self.there += u64::from(key != NO_ORDINAL);
            self.nulls -= u64::from(before == NULL);
            self.nulls += u64::from(key == NULL);
            if seeded(Bug::FirstNumbersNotBroughtUp) {
                return;
            }
            for first in self.least.iter_mut().chain(&mut self.greatest) {
                first.set(doc, before, key);
            }
            if let Some(sample) = &mut self.sample {
                sample.set(doc, before, key);
            }
        }
    }

    /// Makes the keys those of floats.
    fn make_floats(&mut self) -> std::result::Result<(), NotKept> {
        if self.kind == Kind::Floats {
            return Err(NotKept);
        }
        for page in &mut self.pages {
            for key in Arc::make_mut(page) {
                if !matches!(*key, NULL | NO_ORDINAL) {
                    let number = Number::Int(number_key::to_int(*key));
                    *key = Kind::Floats.key(number).ok_or(NotKept)?;
                }
            }
        }
        self.kind = Kind::Floats;
        (self.least, self.greatest, self.sample) = (None, None, None);
        Ok(())
    }

    /// The documents that come first by an order, if enough are known.
    fn known_first(&self, direction: Direction) -> Option<&FirstKeys> {
        let known = match direction {
            Direction::Ascending => &self.least,
            Direction::Descending => &self.greatest,
        };
        known.as_ref().filter(|first| !first.is_thin())
    }

    /// The same; all documents are looked at.
    fn find_first(&mut self, direction: Direction) -> &FirstKeys {
        let keys = self.pages.iter().flat_map(|page| page.iter().copied());
        let found = FirstKeys::of(direction, (0..).zip(keys));
        match direction {
            Direction::Ascending => self.least.insert(found),
            Direction::Descending => self.greatest.insert(found),
        }
    }

    fn set(&mut self, doc: u32, number: Option<Number>) -> std::result::Result<(), NotKept> {
        let key = match number.map(|number| (number, self.kind.key(number))) {
            None => NO_ORDINAL,
            Some((_, Some(key))) => key,
            Some((number, None)) => {
                self.make_floats()?;
                self.kind.key(number).ok_or(NotKept)?
            }
        };
        self.set_key(doc, key);
        Ok(())
    }
}

impl NumberColumn {
    /// How many documents have a value.
    pub(crate) fn there(&self) -> u64 {
        self.0.there
    }

    /// The documents that have a value, up to the first `docs_min` by an order and all that are
    /// level with the last of these.
    pub(crate) fn first(&mut self, direction: Direction, docs_min: u64) -> First {
        self.find_in_first(direction, docs_min, |first| {
            first.first(docs_min).map(Iterator::collect)
        })
    }

    /// Those of some documents that have a value and come first by an order, and all that are level
    /// with the last of these, if they are among the first documents that are tested and those
    /// level with the last of them.
    pub(crate) fn first_of(&mut self, direction: Direction, wanted: WantedFirst<'_>) -> First {
        self.find_in_first(direction, wanted.tested_max, |first| first.first_of(wanted))
    }

    /// What `find` finds among the first documents, of which it looks at `docs` at the most.
    fn find_in_first(
        &mut self,
        direction: Direction,
        docs: u64,
        find: impl FnOnce(&FirstKeys) -> Option<Vec<u32>>,
    ) -> First {
        // What a query reads is copied, but to look at all documents takes longer.
        let first = match self.0.known_first(direction) {
            Some(known) => known,
            None => Arc::make_mut(&mut self.0).find_first(direction),
        };
        match find(first) {
            Some(docs) => First::Docs(set_of(docs)),
            None if first.are_level() && first.first(docs).is_none() => First::Level,
            None => First::Unknown,
        }
    }

    /// Makes the values of many documents those of the ordinals of another column; `numbers` are
    /// what these stand for.
    ///
    /// # Errors
    /// A value is none that can be kept.
    pub(crate) fn set_numbers(
        &mut self,
        docs: &[u32],
        ordinals: &[u64],
        numbers: &quire_index::Numbers,
    ) -> std::result::Result<(), NotKept> {
        let pages = Arc::make_mut(&mut self.0);
        let pairs = docs.iter().zip(ordinals);
        for (doc, ordinal) in pairs.filter(|(_, ordinal)| **ordinal != NO_ORDINAL) {
            let value = match numbers.number(*ordinal) {
                None => OrderedValue::Null,
                Some(quire_index::Number::Int(value)) => OrderedValue::Int(value),
                Some(quire_index::Number::Float(value)) => OrderedValue::Float(value),
            };
            pages.set(*doc, Some(Number::of(&value).ok_or(NotKept)?))?;
        }
        Ok(())
    }

    /// The keys of the values in a range.
    fn keys_in(&self, range: &TermRange) -> Range<u64> {
        let Ok(keys) = ordinals_between(range.bounds(), NO_ORDINAL, |term| {
            Ok::<_, Infallible>(self.key_from(term))
        });
        keys
    }

    /// How many documents have a value in a range, if that is known without a look at each: all, or
    /// of what is no number.
    pub(crate) fn count_in(&self, range: &TermRange) -> Option<u64> {
        let (keys, numbers) = (self.keys_in(range), self.0.kind.keys_of_numbers());
        let nulls = match keys.contains(&NULL) {
            true => self.0.nulls,
            false => 0,
        };
        if keys.is_empty() || keys.end <= numbers.start || keys.start >= numbers.end {
            return Some(nulls);
        }
        let has_all = keys.start <= numbers.start && keys.end >= numbers.end;
        has_all.then(|| self.0.there - self.0.nulls + nulls)
    }

    /// What some documents, which lie evenly among those up to `doc_end`, have in a range.
    pub(crate) fn sampled(&mut self, range: &TermRange, doc_end: u32) -> Sampled {
        let keys = self.keys_in(range);
        let known = self.0.sample.as_ref().filter(|known| !known.is_large());
        if let Some(known) = known {
            return known.between(&keys, doc_end);
        }
        let sample = KeySample::new(doc_end, |doc| self.0.key_of(doc));
        let pages = Arc::make_mut(&mut self.0);
        pages.sample.insert(sample).between(&keys, doc_end)
    }

    /// Leaves those of some documents that have a value in a range.
    pub(crate) fn retain(&self, range: &TermRange, docs: &mut DocSet) {
        let keys = self.keys_in(range);
        let length = keys.end.saturating_sub(keys.start);
        let (mut place, mut page) = (usize::MAX, &NO_VALUES);
        docs.retain(|doc| {
            let place_of_doc = doc as usize / PAGE_DOCS;
            if place != place_of_doc {
                place = place_of_doc;
                page = self.0.pages.get(place).map_or(&NO_VALUES, |page| page);
            }
            page[doc as usize % PAGE_DOCS].wrapping_sub(keys.start) < length
        });
    }

    /// All documents with a value in a range.
    pub(crate) fn docs_in(&self, range: &TermRange) -> DocSet {
        let keys = self.keys_in(range);
        let mut first = self.0.least.iter().chain(&self.0.greatest);
        if let Some(docs) = first.find_map(|first| first.between(keys.clone())) {
            return set_of(docs.collect());
        }
        let length = keys.end.saturating_sub(keys.start);
        let words = self.0.pages.iter().flat_map(|page| page.chunks(64));
        let bits = words.map(|keys_of_word| {
            let mut word = 0;
            for (place, key) in keys_of_word.iter().enumerate() {
                word |= u64::from(key.wrapping_sub(keys.start) < length) << place;
            }
            word
        });
        DocSet::from_bits(&bits.collect::<Vec<u64>>())
    }

    /// The least key whose term is not below these bytes, which need be no term.
    fn key_from(&self, bytes: &[u8]) -> u64 {
        use quire_model::ordered::Direction::Ascending;
        let kind = self.0.kind;
        let mut term = Vec::new();
        if let Ok((value, _)) = OrderedValue::decode(bytes, Ascending) {
            let key = kind.least_from(&value);
            kind.append_term(key, &mut term);
            // A term with more behind it comes after the term, and before all that come after that.
            let is_after = !term.is_empty() && term.as_slice() < bytes;
            return key.saturating_add(u64::from(is_after));
        }
        if term::NULL >= bytes {
            return NULL;
        }
        let (mut low, mut high) = (LEAST, NO_ORDINAL);
        while low < high {
            let middle = low + (high - low) / 2;
            term.clear();
            kind.append_term(middle, &mut term);
            // Keys without a number are below and above all others.
            let is_before = match term.is_empty() {
                true => middle < number_key::of_int(0),
                false => term.as_slice() < bytes,
            };
            match is_before {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low
    }
}

impl FollowedColumn for NumberColumn {
    const NOT_BROUGHT_UP: Bug = Bug::NumbersNotBroughtUp;

    fn set_document(
        &mut self,
        doc: u32,
        path: &Path,
        document: Option<&Document>,
    ) -> std::result::Result<(), NotKept> {
        let (mut found, mut kept) = (None, Ok(()));
        let mut see = |value: ValueRef<'_>| {
            let Some(value) = OrderedValue::from_value(value) else {
                // An array or an object is no value.
                return ControlFlow::Continue(());
            };
            let number = Number::of(&value);
            if number.is_none() || found.is_some_and(|found| Some(found) != number) {
                kept = Err(NotKept);
                return ControlFlow::Break(());
            }
            found = number;
            ControlFlow::Continue(())
        };
        if let Some(document) = document {
            let _ = path.visit(document.root(), &mut see);
        }
        kept?;
        Arc::make_mut(&mut self.0).set(doc, found)
    }

    fn set_term(&mut self, doc: u32, term: Option<&[u8]>) -> std::result::Result<(), NotKept> {
        let number = term.map(|term| Number::of_term(term).ok_or(NotKept));
        Arc::make_mut(&mut self.0).set(doc, number.transpose()?)
    }

    fn take(&mut self, path: &Path, part: &Part<'_>) -> std::result::Result<(), NotKept> {
        let Some(numbers) = part.numbers() else {
            return self.take_each(path, part);
        };
        let pages = Arc::make_mut(&mut self.0);
        let numbers: Vec<_> = numbers.collect();
        pages.prefetch(numbers.iter().map(|(doc, _)| *doc));
        let mut numbers = numbers.into_iter();
        numbers.try_for_each(|(doc, number)| pages.set(doc, number))
    }

    fn bytes(&self) -> u64 {
        let first = self.0.least.iter().chain(&self.0.greatest);
        let of_first: u64 = first.map(FirstKeys::bytes).sum();
        let of_sample = self.0.sample.as_ref().map_or(0, KeySample::bytes);
        NumberColumn::bytes_of((self.0.pages.len() * PAGE_DOCS) as u32) + of_first + of_sample
    }

    fn bytes_of(docs: u32) -> u64 {
        let pages = u64::from(docs).div_ceil(PAGE_DOCS as u64);
        pages * (size_of::<[u64; PAGE_DOCS]>() + size_of::<Arc<[u64]>>()) as u64
    }
}

impl Column for NumberColumn {
    fn has_many(&self) -> bool {
        false
    }

    fn numbers(&self) -> Option<quire_index::Numbers> {
        Some(quire_index::Numbers::of_keys(self.0.kind == Kind::Integers))
    }

    fn ordinal_end(&self) -> u64 {
        NO_ORDINAL
    }

    fn ends(&self, docs: &[u32], _: End, out: &mut Vec<u64>) -> Result<()> {
        out.clear();
        out.extend(docs.iter().map(|doc| self.0.key_of(*doc)));
        Ok(())
    }

    fn ordinals(&self, docs: &[u32], out: &mut Ordinals) -> Result<()> {
        out.clear();
        for doc in docs {
            let key = self.0.key_of(*doc);
            out.ordinals.extend((key != NO_ORDINAL).then_some(key));
            out.end_document();
        }
        Ok(())
    }

    fn term(&self, ordinal: u64, out: &mut Vec<u8>) -> Result<()> {
        self.0.kind.append_term(ordinal, out);
        Ok(())
    }

    fn ordinal_of(&self, term: &[u8]) -> Result<u64> {
        Ok(self.key_from(term))
    }
}

#[cfg(test)]
mod tests {
    use super::super::changed::Changed;
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use quire_env::Budget;
    use quire_model::{Document, Position};
    use std::ops::Bound;

    fn term(value: OrderedValue<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        assert!(term::encode_ordered(value, &mut out));
        out
    }

    fn any_value() -> impl Strategy<Value = OrderedValue<'static>> {
        prop_oneof![
            1 => Just(OrderedValue::Null),
            8 => (-5i64..5).prop_map(OrderedValue::Int),
            2 => any::<i64>().prop_map(OrderedValue::Int),
            1 => (0i64..3).prop_map(|near| OrderedValue::Int((1 << 53) + near)),
            3 => (-9i32..9).prop_map(|halves| OrderedValue::Float(f64::from(halves) / 2.0)),
            1 => prop_oneof![Just(-0.0), Just(1e300), Just(-TWO_63), Just(TWO_63)]
                .prop_map(OrderedValue::Float),
        ]
    }

    fn any_bound() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            6 => any_value().prop_map(term),
            1 => any::<u64>().prop_map(|value| term(OrderedValue::UInt(value))),
            1 => prop_oneof![Just(f64::INFINITY), Just(f64::NEG_INFINITY)]
                .prop_map(|value| term(OrderedValue::Float(value))),
            1 => any::<bool>().prop_map(|value| term(OrderedValue::Bool(value))),
            1 => Just(term(OrderedValue::String("a".into()))),
            2 => vec(any::<u8>(), 0..3),
            2 => (any_value(), vec(0u8..3, 1..3)).prop_map(|(value, end)| {
                [term(value), end].concat()
            }),
        ]
    }

    proptest! {
        #[test]
        fn keys_are_in_the_order_of_terms_and_give_them_back(
            values in vec((0u32..2000, any_value()), 0..40),
            bounds in vec(any_bound(), 1..12),
        ) {
            let mut column = NumberColumn::default();
            let mut terms = std::collections::BTreeMap::new();
            for (doc, value) in values {
                let own = term(value);
                let before = column.clone();
                match column.set_term(doc, Some(&own)) {
                    Ok(()) => drop(terms.insert(doc, own)),
                    Err(NotKept) => column = before,
                }
            }
            prop_assert_eq!(column.there(), terms.len() as u64);
            let docs: Vec<u32> = (0..2100).collect();
            let mut keys = Vec::new();
            column.ends(&docs, End::Largest, &mut keys).unwrap();
            for (doc, key) in docs.iter().zip(&keys) {
                let mut own = Vec::new();
                if *key != NO_ORDINAL {
                    column.term(*key, &mut own).unwrap();
                }
                prop_assert_eq!(terms.get(doc).cloned().unwrap_or_default(), own);
            }
            for pair in bounds.windows(2) {
                let key = column.ordinal_of(&pair[0]).unwrap();
                for (doc, own) in &terms {
                    prop_assert_eq!(keys[*doc as usize] < key, own < &pair[0], "{:?}", pair[0]);
                }
                let [lower, upper] = [0, 1].map(|place| Box::from(pair[place].as_slice()));
                let range = TermRange {
                    lower: Bound::Excluded(lower),
                    upper: Bound::Included(upper),
                };
                let inside = terms.iter().filter(|(_, own)| range.contains(own));
                let inside: Vec<u32> = inside.map(|(doc, _)| *doc).collect();
                let all: Vec<u32> = column.docs_in(&range).iter().collect();
                prop_assert_eq!(&all, &inside);
                let count = column.count_in(&range);
                prop_assert!(count.is_none_or(|count| count == inside.len() as u64), "{count:?}");
                let some: DocSet = docs.iter().copied().filter(|doc| doc % 3 != 0).collect();
                let inside: DocSet = inside.into_iter().filter(|doc| doc % 3 != 0).collect();
                let mut retained = some.clone();
                column.retain(&range, &mut retained);
                prop_assert_eq!(retained, inside);
            }
        }
    }

    #[test]
    fn what_is_no_number_is_counted_without_a_look_at_documents() {
        let mut column = NumberColumn::default();
        let set = |column: &mut NumberColumn, doc, value| column.set_term(doc, Some(&term(value)));
        set(&mut column, 1, OrderedValue::Int(7)).unwrap();
        let count = |column: &NumberColumn, lower: Bound<&[u8]>, upper: Bound<&[u8]>| {
            let bound = |bound: Bound<&[u8]>| bound.map(Box::from);
            column.count_in(&TermRange {
                lower: bound(lower),
                upper: bound(upper),
            })
        };
        for more in [
            OrderedValue::Null,
            OrderedValue::Float(0.5),
            OrderedValue::Null,
        ] {
            let numbers = term::type_range(&term(OrderedValue::Int(0)));
            let (start, end) = ([numbers.start], [numbers.end]);
            let nulls = column.0.nulls;
            let below = count(&column, Bound::Unbounded, Bound::Excluded(&start));
            assert_eq!(below, Some(nulls));
            assert_eq!(
                count(&column, Bound::Included(&end), Bound::Unbounded),
                Some(0)
            );
            let all = count(&column, Bound::Unbounded, Bound::Unbounded);
            assert_eq!(all, Some(column.there()));
            let of_numbers = count(&column, Bound::Included(&start), Bound::Excluded(&end));
            assert_eq!(of_numbers, Some(column.there() - nulls));
            let seven = term(OrderedValue::Int(7));
            assert_eq!(
                count(&column, Bound::Included(&seven), Bound::Unbounded),
                None
            );
            let doc = column.there() as u32 + 1;
            set(&mut column, doc, more).unwrap();
        }
        assert_eq!((column.there(), column.0.nulls), (4, 2));
        set(&mut column, 2, OrderedValue::Int(1)).unwrap();
        assert_eq!((column.there(), column.0.nulls), (4, 1));
    }

    #[test]
    fn a_field_with_several_values_or_with_text_is_not_kept() {
        let set = |json: &str| {
            let mut column = NumberColumn::default();
            column
                .set_term(3, Some(&term(OrderedValue::Int(9))))
                .unwrap();
            let document = Document::from_json(json.as_bytes()).unwrap();
            column
                .set_document(3, &Path::new("n"), Some(&document))
                .map(|()| column.there())
        };
        for json in [r#"{"n":7}"#, r#"{"n":[7.0,7]}"#, r#"{"n":null}"#] {
            assert_eq!(set(json), Ok(1), "{json}");
        }
        for json in ["{}", r#"{"n":[]}"#, r#"{"n":{"m":1}}"#] {
            assert_eq!(set(json), Ok(0), "{json}");
        }
        for json in [r#"{"n":[7,8]}"#, r#"{"n":"7"}"#, r#"{"n":true}"#] {
            assert_eq!(set(json), Err(NotKept), "{json}");
        }
    }

    #[test]
    fn a_field_is_read_once_many_queries_had_it_and_less_and_less_if_it_can_not_be_kept() {
        let numbers = FollowedNumbers::new(&Budget::new(1 << 20));
        let reads_of = |path: &str, column: &dyn Fn() -> Option<NumberColumn>| {
            let mut reads = Vec::new();
            for query in 1..=1_000 {
                let read = || {
                    reads.push(query);
                    Ok::<_, ()>(column())
                };
                let at = (Position(5), Position(3));
                let read = numbers.column_if_due(&path.into(), at, 10, read);
                assert_eq!(read.unwrap().is_some(), column().is_some() && query == 64);
            }
            reads
        };
        let kept = reads_of("kept", &|| Some(NumberColumn::default()));
        assert_eq!(kept, [64]);
        assert_eq!(reads_of("refused", &|| None), [64, 192, 448, 960]);
    }

    #[test]
    fn a_column_that_has_served_many_queries_is_read_again_as_soon_as_the_first_time() {
        for (served, again) in [(0, 128), (64, 64)] {
            let numbers = FollowedNumbers::new(&Budget::new(1 << 20));
            let path = "n".into();
            let queries_until_read = |position: u64| {
                let mut queries = 1..1_000;
                let at = (Position(position), Position(3));
                queries.find(|_| {
                    let read = || Ok::<_, ()>(Some(NumberColumn::default()));
                    let column = numbers.column_if_due(&path, at, 10, read);
                    column.unwrap().is_some()
                })
            };
            assert_eq!(queries_until_read(5), Some(64));
            let known = Changed::new(Position(5));
            for _ in 0..served {
                assert!(numbers.column(&path, &known, Position(5)).is_some());
            }
            let later = Changed::new(Position(9));
            assert!(numbers.column(&path, &later, Position(10)).is_none());
            assert_eq!(queries_until_read(10), Some(again));
        }
    }
}
