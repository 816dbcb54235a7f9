//! A live shard answers as the definition says, however far behind its postings are.

use super::changed::{Change, Changed};
use super::column_blocks::{ColumnBlocks, block_key};
use super::column_changes::ColumnChanges;
use super::column_merger::MergeColumns;
use super::followed::FollowedLeaves;
use super::indexer::Indexer;
use super::inversion::Inversion;
use super::live_columns::LiveColumns;
use super::number_column::FollowedNumbers;
use super::postings::{FoundPosting, Postings, SeePosting};
use super::shard::{ColumnsAt, Documents, LiveShard};
use super::shared_reads::SharedReads;
use super::term_column::FollowedTerms;
use super::values::{Limits, Slot, Values, each_changed};
use super::{FieldSet, ID, IndexedFields, key};
use crate::Result;
use proptest::prelude::*;
use quire_env::Budget;
use quire_index::Posting;
use quire_lsm::{Merger, SmallBytes, ValueParts};
use quire_model::{DocId, Document, Key, Position};
use quire_query::testing::{Case, naive};
use quire_query::{
    Aggregate, Answer, Hit, KnownEnd, Measure, Options, Path, Query, Value, field, find, find_all,
};
use quire_seeded::Bug;
use quire_store::TreeId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Postings in a map, kept by the merger as a tree keeps them.
#[derive(Default)]
struct MapPostings(BTreeMap<Vec<u8>, Vec<u8>>);

impl MapPostings {
    fn merge(&mut self, indexer: &Indexer, inversion: Inversion) {
        inversion.each_change(indexer, |key, change| {
            let base = self.0.get(key);
            let base = base.map(|value| Posting::decode(value).unwrap());
            let mut posting = base.unwrap_or_default();
            let (mut operand, mut value) = (Vec::new(), Vec::new());
            change.encode(&mut operand);
            posting.apply_encoded(&operand).unwrap();
            posting.encode(&mut value);
            self.0.insert(key.to_vec(), value);
        });
    }
}

impl Postings for MapPostings {
    fn visit(&self, from: &[u8], to: &[u8], see: &mut SeePosting<'_>) -> Result<()> {
        if from < to {
            let mut range = self.0.range(from.to_vec()..to.to_vec());
            let _ = range.try_for_each(|(key, value)| see(key, FoundPosting::Stored(value)));
        }
        Ok(())
    }

    fn visit_back(&self, from: &[u8], to: &[u8], see: &mut SeePosting<'_>) -> Result<()> {
        if from < to {
            let range = self.0.range(from.to_vec()..to.to_vec());
            let _ = range.rev().try_for_each(|(key, value)| {
                see(key, FoundPosting::Folded(&Posting::decode(value).unwrap()))
            });
        }
        Ok(())
    }
}

/// A value, and the operands above it.
type Parts = (Option<Vec<u8>>, Vec<Vec<u8>>);

/// Column blocks in a map: values and operands, kept as a tree keeps them.
#[derive(Default)]
struct MapColumns {
    blocks: BTreeMap<Vec<u8>, Parts>,
    merged: usize,
}

impl MapColumns {
    fn merge(&mut self, indexer: &Indexer, changes: ColumnChanges) {
        changes.each_operand(|slot, block, operand| {
            let key = block_key(&indexer.field(Slot(slot)).unwrap().key, block);
            let (base, operands) = self.blocks.entry(key).or_default();
            operands.push(operand.to_vec());
            self.merged += 1;
            let slices: Vec<&[u8]> = operands.iter().map(Vec::as_slice).collect();
            let mut out = Vec::new();
            match self.merged % 7 {
                0 | 1 if slices.len() > 1 => {
                    Merger::combine(&MergeColumns, &[], &slices, &mut out).unwrap();
                    *operands = vec![out];
                }
                2 => {
                    let mut layers = MergeColumns.begin(&[], base.as_deref()).unwrap();
                    for operand in &slices {
                        MergeColumns.add(&[], &mut layers, operand).unwrap();
                    }
                    MergeColumns.encode(&[], &layers, &mut out).unwrap();
                    (*base, *operands) = (Some(out), Vec::new());
                }
                _ => {}
            }
        });
    }
}

impl ColumnBlocks for MapColumns {
    fn parts(&self, key: &[u8]) -> Result<Option<ValueParts>> {
        Ok(self.blocks.get(key).map(|(base, operands)| ValueParts {
            base: base.clone().map(SmallBytes::from),
            operands: operands.iter().cloned().map(SmallBytes::from).collect(),
        }))
    }
}

struct Kept(Vec<Option<Document>>);

impl Documents for &Kept {
    fn documents(&self, docids: &[DocId]) -> Result<Vec<Document>> {
        let found = docids
            .iter()
            .map(|docid| self.0[docid.0 as usize].clone().unwrap());
        Ok(found.collect())
    }
}

/// Brings an index from the documents of one moment to those of a later one, `batch` at a time.
fn index(
    (postings, columns): (&mut MapPostings, &mut MapColumns),
    before: &Kept,
    after: &Kept,
    batch: usize,
    block_bits: u32,
    limits: Limits,
) {
    let values_of = |indexer: &mut Indexer, kept: &Kept, doc: usize| {
        let document = kept.0.get(doc).and_then(Option::as_ref);
        let key = Key::from(7_u64);
        document.map_or(Values::default(), |document| indexer.values(document, &key))
    };
    let docs: Vec<usize> = (0..after.0.len()).collect();
    for docs in docs.chunks(batch) {
        let fields = Arc::new(FieldSet::new(IndexedFields::all()));
        let mut indexer = Indexer::with_limits(fields, limits);
        let (mut inversion, mut changes) = (Inversion::default(), ColumnChanges::new(block_bits));
        for doc in docs {
            let [old, new] = match [before, after].map(|kept| kept.0.get(*doc)?.as_ref()) {
                [Some(old), Some(new)] if *doc % 2 == 0 => {
                    indexer.values_that_differ(old, new, &Key::from(7_u64))
                }
                _ => [before, after].map(|kept| values_of(&mut indexer, kept, *doc)),
            };
            inversion.add(DocId(*doc as u32), &old, &new);
            each_changed(&old, &new, |slot, _, terms| {
                changes.add(slot.0, DocId(*doc as u32), terms.iter());
            });
        }
        columns.merge(&indexer, changes);
        postings.merge(&indexer, inversion);
    }
}

/// The right answer, with the docids of the documents that there are.
fn right(kept: &Kept, query: &Query) -> Answer {
    let there = (0..)
        .zip(&kept.0)
        .filter_map(|(doc, one)| Some((doc, one.clone()?)));
    let (docids, documents): (Vec<u32>, Vec<Document>) = there.unzip();
    let mut answer = naive::answer(&[&documents], query);
    for hit in &mut answer.hits {
        *hit = Hit {
            shard: 0,
            doc: docids[hit.doc as usize],
        };
    }
    answer.each_faceted_hit(&mut |hit| hit.doc = docids[hit.doc as usize]);
    answer
}

/// Documents at three moments: of each place, one of the case's, or none.
fn moments(case: &Case, picks: &[[usize; 3]]) -> [Kept; 3] {
    std::array::from_fn(|moment| {
        let one = |pick: &[usize; 3]| {
            // Documents of later moments are mostly those of the moment before.
            let pick = pick[..=moment].iter().rev().find(|pick| **pick != 0)?;
            case.documents
                .get(pick % (case.documents.len() + 1))
                .cloned()
        };
        Kept(picks.iter().map(one).collect())
    })
}

/// How an index is made and read.
#[derive(Debug, Clone, Copy)]
struct Shape {
    batch: usize,
    /// Moments that the index is behind.
    lag: usize,
    block_bits: u32,
    broad_postings_min: usize,
    layer_docs_min: u64,
    /// Bytes that queries may share of what they read.
    shared_bytes: u64,
    /// Values of a document that are indexed.
    limits: Limits,
    /// Bytes of values of marked documents that a query may hold.
    values_bytes_max: usize,
}

/// Compares the answers of a live shard with those of the definition.
fn check(seed: u64, picks: &[[usize; 3]], shape: Shape) {
    let case = Case::from_seed(seed);
    check_moments(&moments(&case, picks), &case.queries, shape, &|query| {
        let queries = vec![query.clone()];
        let case = case.clone();
        Case { queries, ..case }.to_string()
    });
}

fn check_moments(
    moments: &[Kept; 3],
    queries: &[Query],
    shape: Shape,
    text: &dyn Fn(&Query) -> String,
) {
    let (mut postings, mut columns) = (MapPostings::default(), MapColumns::default());
    let mut indexed = &Kept(Vec::new());
    for moment in &moments[..3 - shape.lag] {
        let trees = (&mut postings, &mut columns);
        index(
            trees,
            indexed,
            moment,
            shape.batch,
            shape.block_bits,
            shape.limits,
        );
        indexed = moment;
    }
    let budget = Budget::new(shape.shared_bytes);
    let shared = Arc::new(SharedReads::new(TreeId(1), Position(1), &budget));
    let followed = FollowedLeaves::new(&budget);
    let numbers = FollowedNumbers::new(&budget);
    let terms = FollowedTerms::new(&budget);
    let mut built = Position(0);
    let (mut changed, mut position) = (Changed::new(Position(1)), Position(1));
    let mut before = indexed;
    // The index stays where it is; what is found at a moment is brought up to the next one.
    for now in &moments[(2 - shape.lag).max(1)..] {
        let is_changed = |doc: &usize| before.0.get(*doc) != Some(&now.0[*doc]);
        let docs: Vec<usize> = (0..now.0.len()).filter(is_changed).collect();
        add_layers(&mut changed, &mut position, &docs, now, shape.batch);
        before = now;
        let changed = Arc::new(changed.clone());
        let shard = || {
            let mut shard = LiveShard::new(
                &postings,
                Box::new(now),
                now.0.len() as u32,
                Arc::clone(&changed),
                LiveColumns::new(&columns, shape.block_bits),
            );
            shard.columns.shared = Some(Arc::clone(&shared));
            shard
        };
        check_ends(&shard(), now, shape.limits.field > 1_000);
        for query in queries {
            let mut shard = shard();
            shard.columns.layer_docs_min = shape.layer_docs_min;
            shard.followed = Some((&followed, position));
            // As if it had moved: columns are read, and followed from then on.
            built = built.next();
            shard.kept_columns = Some(ColumnsAt {
                numbers: &numbers,
                terms: &terms,
                at: position,
                built,
            });
            shard.broad_postings_min = shape.broad_postings_min;
            // In half of the cases fields of numbers are followed as numbers alone.
            shard.numbers_as_terms_max *= shape.batch as u64 % 2;
            let prepared = query.clone().prepare().unwrap();
            shard.lookups(&prepared);
            shard.values_bytes_max = shape.values_bytes_max;
            match prepared.answer(&[&shard], &Options::default()) {
                Ok(found) => assert_eq!(found, right(now, query), "{}", text(query)),
                // Documents are read instead.
                Err(error) => assert!(shard.needs_scan(), "{error}"),
            }
        }
    }
    assert!(budget.used() <= budget.limit());
}

/// Compares the ends of each field with those of the documents. They are known where the index is
/// level and `has_all` values, none of which is long.
fn check_ends(shard: &LiveShard<'_>, now: &Kept, has_all: bool) {
    let mut ends: BTreeMap<String, [Vec<u8>; 2]> = BTreeMap::new();
    let mut with_long = BTreeSet::new();
    for document in now.0.iter().flatten() {
        Path::each_value_in(document.root(), &mut |path, value| {
            let value = Value::from_document(value).unwrap();
            if value == Value::null() || path == ID {
                return;
            }
            let term = || value.term().to_vec();
            if value.term().len() > key::TERM_BYTES_MAX {
                with_long.insert(path.to_string());
            }
            let [least, most] = ends.entry(path.into()).or_insert_with(|| [term(), term()]);
            *least = term().min(std::mem::take(least));
            *most = term().max(std::mem::take(most));
        });
    }
    let is_known = has_all && shard.changed_docs().is_empty();
    for (path, ends) in &ends {
        let is_known = is_known && !with_long.contains(path);
        for (found, term) in shard
            .known_ends(&path.as_str().into())
            .unwrap()
            .iter()
            .zip(ends)
        {
            match found {
                KnownEnd::Unknown => assert!(!is_known, "{path}"),
                KnownEnd::NoValue => panic!("{path} has values"),
                KnownEnd::Value(value) => assert_eq!(value.term(), term, "{path}"),
            }
        }
    }
    let none = shard.known_ends(&"no.document.has.this".into()).unwrap();
    assert_eq!(none, [KnownEnd::NoValue, KnownEnd::NoValue]);
}

/// Adds documents that changed, as layers; some have changed before in an older one.
fn add_layers(
    changed: &mut Changed,
    position: &mut Position,
    docs: &[usize],
    now: &Kept,
    batch: usize,
) {
    for start in (0..docs.len()).step_by(batch) {
        let mut added = BTreeMap::new();
        for (place, doc) in docs.iter().enumerate().skip(start) {
            let is_last = place < start + batch;
            if is_last || place % 3 == 0 {
                *position = position.next();
                let as_of = if is_last { *doc } else { start };
                let document = now.0[as_of].clone();
                added.insert(*doc as u32, Change::new(*position, document));
            }
        }
        changed.push(added);
    }
}

fn any_shape() -> impl Strategy<Value = Shape> {
    let broad = prop_oneof![Just(0usize), 0usize..20];
    let docs_min = prop_oneof![Just(1u64), 1u64..20];
    let bits = prop_oneof![Just(6u32), Just(16)];
    let shared = prop_oneof![Just(0u64), Just(2_000), Just(1 << 20)];
    let limits = prop_oneof![
        Just(Limits::default()),
        (1usize..4, 1usize..12).prop_map(|(field, document)| Limits { field, document }),
    ];
    let values = prop_oneof![3 => Just(4usize << 20), 1 => 0usize..2_000];
    (
        1usize..300,
        0usize..3,
        bits,
        broad,
        docs_min,
        (shared, limits, values),
    )
        .prop_map(
            |(
                batch,
                lag,
                block_bits,
                broad_postings_min,
                layer_docs_min,
                (shared_bytes, limits, values_bytes_max),
            )| {
                Shape {
                    batch,
                    lag,
                    block_bits,
                    broad_postings_min,
                    layer_docs_min,
                    shared_bytes,
                    limits,
                    values_bytes_max,
                }
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test] // some 4,000 queries
    fn a_live_shard_answers_as_the_definition_says_however_far_the_index_is_behind(
        seed: u64,
        picks in proptest::collection::vec(
            [1usize..1000, 0usize..40, 0usize..40]
                .prop_map(|[a, b, c]| [a, b.saturating_sub(25), c.saturating_sub(25)]),
            0..200,
        ),
        shape in any_shape(),
    ) {
        check(seed, &picks, shape);
    }
}

/// Values that rise: those that changed later are greater than all before, and the first documents
/// then have the greatest.
fn check_rising((batch, block_bits): (usize, u32)) {
    let document = |number: usize| {
        let tags: Vec<usize> = (0..number % 4).map(|tag| number / 4 + tag).collect();
        let cents = number as f64 / 100.0;
        let text =
            format!(r#"{{"n":{number},"cents":{cents},"tags":{tags:?},"mark":"m{number:05}"}}"#);
        Document::from_json(text.as_bytes()).unwrap()
    };
    let of = |moment: usize, doc: usize| {
        let last = (1..=moment)
            .rev()
            .find(|moment| (doc + moment).is_multiple_of(3));
        Some(document(last.map_or(doc, |last| 1000 * (last + 1) - doc)))
    };
    let moments = [0, 1, 2].map(|moment| Kept((0..700).map(|doc| of(moment, doc)).collect()));
    let mut queries = vec![find_all().limit(0)];
    for path in ["n", "cents", "tags", "mark"] {
        // Enough that all documents are looked at.
        queries.push(find_all().order_by(field(path).descending()).limit(120));
        let some = find(field("n").gte(100));
        queries.push(
            find_all()
                .order_by(field(path).descending())
                .limit(9)
                .with_count(),
        );
        queries.push(some.order_by(field(path).ascending()).limit(9).with_count());
        for what in [
            Measure::Sum,
            Measure::Avg,
            Measure::Min,
            Measure::Max,
            Measure::Distinct,
        ] {
            let last = queries.last_mut().unwrap();
            last.aggregates.push((
                format!("{}", last.aggregates.len()),
                what(path.into()).into(),
            ));
        }
        let terms = Aggregate::terms(path, 5).among(field(path).gt(3));
        let queries = queries.last_mut().unwrap();
        queries.aggregates.push(("terms".into(), terms));
        queries
            .aggregates
            .push(("histogram".into(), Aggregate::histogram(path, 2.5)));
    }
    for lag in 0..3 {
        let shape = Shape {
            batch,
            lag,
            block_bits,
            broad_postings_min: 0,
            layer_docs_min: 1,
            shared_bytes: 1 << 20,
            limits: Limits::default(),
            values_bytes_max: 4 << 20,
        };
        check_moments(&moments, &queries, shape, &|query| format!("{query:?}"));
    }
}

const RISING: [(usize, u32); 4] = [(1000, 8), (1000, 16), (64, 8), (3, 8)];

#[test]
fn the_first_documents_and_aggregates_are_right_where_blocks_have_several_layers() {
    RISING.into_iter().for_each(check_rising);
}

#[test]
fn each_bug_of_columns_is_found() {
    quire_seeded::assert_each_is_found(Bug::OF_COLUMNS, || {
        RISING.into_iter().for_each(check_rising);
        for seed in 0..200 {
            let pick = |doc: usize, moment: usize| match (doc * 7 + moment * 3 + seed) % 3 {
                0 => doc * 13 + moment * 5 + seed,
                _ => 0,
            };
            let picks = (0..400).map(|doc| [doc + 1, pick(doc, 1), pick(doc, 2)]);
            let shape = Shape {
                batch: 1000,
                lag: 0,
                block_bits: 16,
                broad_postings_min: 0,
                layer_docs_min: 1,
                shared_bytes: 1 << 20,
                limits: Limits::default(),
                values_bytes_max: 4 << 20,
            };
            check(seed as u64, &picks.collect::<Vec<_>>(), shape);
        }
    });
}

#[test]
fn equal_values_of_a_document_take_the_room_of_few() {
    let mut indexer = Indexer::new(Arc::new(FieldSet::new(IndexedFields::all())));
    let text = "t".repeat(300);
    let items = (0..30_000).map(|n| match n % 3 {
        0 => format!("{}", n % 10),
        1 => format!("\"{}\"", n % 70),
        _ => format!("\"{text}{}\"", n % 2),
    });
    let items = items.collect::<Vec<_>>().join(",");
    let of = |indexer: &mut Indexer, items: &str| {
        let json = format!("{{\"a\":[{items}],\"b\":[true,{items}]}}");
        indexer.values(
            &Document::from_json(json.as_bytes()).unwrap(),
            &Key::from(7_u64),
        )
    };
    let many = of(&mut indexer, &items);
    let once: std::collections::BTreeSet<&str> = items.split(',').collect();
    let few = of(
        &mut indexer,
        &once.into_iter().collect::<Vec<_>>().join(","),
    );
    each_changed(&few, &many, |slot, _, _| panic!("{slot:?} differs"));
    let lengths: Vec<_> = many.fields().map(|(_, terms)| terms.len()).collect();
    assert_eq!(lengths, [82, 83, 1]);
    assert!(many.bytes() < 1 << 20, "{} bytes", many.bytes());
}

#[test]
fn which_fields_have_too_many_values_follows_from_the_document_alone() {
    let limits = Limits {
        field: 5_000,
        document: 9_000,
    };
    let fields = Arc::new(FieldSet::new(IndexedFields::all()));
    let mut indexer = Indexer::with_limits(fields, limits);
    let list = |values: Vec<usize>| -> String {
        let values: Vec<_> = values.iter().map(usize::to_string).collect();
        values.join(",")
    };
    // Of the counts of different values, each field's terms: one that stands for too many.
    for (counts, kept) in [
        ([5_000, 3_998, 1], [5_000, 3_998, 1]),
        ([5_001, 3_998, 1], [1, 1, 1]),
        ([5_001, 3_900, 1], [1, 3_900, 1]),
        ([300_000, 3_998, 0], [1, 3_998, 0]),
        ([300_000, 300_000, 1], [1, 1, 1]),
        ([3_000, 3_000, 3_000], [1, 1, 1]),
    ] {
        let orders: [&dyn Fn(usize) -> Vec<usize>; 3] = [
            &|count| (0..count).collect(),
            &|count| (0..count).rev().chain(0..count).collect(),
            &|count| (0..count).flat_map(|n| [n, n, n]).collect(),
        ];
        let mut all = Vec::new();
        for order in orders {
            let [a, b, c] = counts.map(|count| list(order(count)));
            let json = format!("{{\"a\":[{a}],\"b\":[{b}],\"c\":[{c}]}}");
            let document = Document::from_json(json.as_bytes()).unwrap();
            let values = indexer.values(&document, &Key::parse("k").unwrap());
            assert!(values.bytes() < 2 << 20, "{} bytes", values.bytes());
            let of_fields = values.fields().map(|(_, terms)| terms.len());
            let expected = kept.into_iter().filter(|count| *count > 0).chain([1]);
            assert_eq!(of_fields.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
            let too_many = counts.iter().zip(kept).filter(|(all, kept)| **all > *kept);
            assert_eq!(values.many().count(), too_many.count(), "{counts:?}");
            all.push(values);
        }
        for values in &all {
            each_changed(&all[0], values, |slot, _, _| panic!("{slot:?} differs"));
        }
    }
}
