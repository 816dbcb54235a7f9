//! A live shard answers as the definition says, however far behind its postings are.

use super::column_blocks::{ColumnBlocks, block_key};
use super::column_changes::ColumnChanges;
use super::column_merger::MergeColumns;
use super::indexer::Indexer;
use super::inversion::Inversion;
use super::postings::{FoundPosting, Postings, SeePosting};
use super::segments::LiveColumns;
use super::shard::Changed;
use super::shard::{Documents, LiveShard};
use super::values::{Slot, Values, each_changed};
use super::{FieldSet, IndexedFields};
use crate::Result;
use proptest::prelude::*;
use quire_index::Posting;
use quire_lsm::{Merger, SmallBytes, ValueParts};
use quire_model::{DocId, Document};
use quire_query::testing::{Case, naive};
use quire_query::{Answer, Hit, Options};
use std::collections::BTreeMap;
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
            posting.apply(&change.of_posting());
            let mut value = Vec::new();
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

/// Column blocks in a map: values and operands, kept as a tree keeps them.
#[derive(Default)]
struct MapColumns {
    blocks: BTreeMap<Vec<u8>, (Option<Vec<u8>>, Vec<Vec<u8>>)>,
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
) {
    let values_of = |indexer: &mut Indexer, kept: &Kept, doc: usize| {
        let document = kept.0.get(doc).and_then(Option::as_ref);
        document.map_or(Values::default(), |document| indexer.values(document, ""))
    };
    let docs: Vec<usize> = (0..after.0.len()).collect();
    for docs in docs.chunks(batch) {
        let mut indexer = Indexer::new(Arc::new(FieldSet::new(IndexedFields::all())));
        let (mut inversion, mut changes) = (Inversion::default(), ColumnChanges::new(block_bits));
        for doc in docs {
            let old = values_of(&mut indexer, before, *doc);
            let new = values_of(&mut indexer, after, *doc);
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
fn right(kept: &Kept, query: &quire_query::Query) -> Answer {
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
        batch in 1usize..300,
        lag in 0usize..3,
        block_bits in prop_oneof![Just(6u32), Just(16)],
        broad_postings_min in prop_oneof![Just(0usize), 0usize..20],
        layer_docs_min in prop_oneof![Just(1u64), 1u64..20],
    ) {
        let case = Case::from_seed(seed);
        let moments = moments(&case, &picks);
        let (mut postings, mut columns) = (MapPostings::default(), MapColumns::default());
        let mut indexed = &Kept(Vec::new());
        for moment in &moments[..3 - lag] {
            index((&mut postings, &mut columns), indexed, moment, batch, block_bits);
            indexed = moment;
        }
        let now = &moments[2];
        let is_changed = |doc: &usize| indexed.0.get(*doc) != Some(&now.0[*doc]);
        let changed = (0..now.0.len()).filter(is_changed);
        let changed = changed.map(|doc| (doc as u32, now.0[doc].clone()));
        let changed: Arc<Changed> = Arc::new(changed.collect());
        for query in &case.queries {
            let mut shard = LiveShard::new(
                &postings,
                Box::new(now),
                now.0.len() as u32,
                Arc::clone(&changed),
                LiveColumns::new(&columns, block_bits),
            ).unwrap();
            shard.columns.layer_docs_min = layer_docs_min;
            shard.broad_postings_min = broad_postings_min;
            let prepared = query.clone().prepare().unwrap();
            let found = prepared.answer(&[&shard], &Options::default()).unwrap();
            let text = Case { queries: vec![query.clone()], ..case.clone() };
            prop_assert_eq!(&found, &right(now, query), "{}", text);
        }
    }
}
