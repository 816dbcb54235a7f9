//! A random order of hits that a seed decides: each order is equally likely, so its first hits are
//! a uniform sample of all that match.

use crate::Hit;
use crate::meter::Meter;
use crate::mix::mixed;
use crate::sort::{SortKey, TopHits, offer};
use crate::{Options, Result};
use quire_index::DocSet;

/// Docids between two calls of `stop`.
const DOCS_AT_ONCE: usize = 1 << 16;

/// What a hit is ordered by.
pub(crate) fn key(seed: u64, hit: Hit) -> SortKey {
    let place = u64::from(hit.shard) << 32 | u64::from(hit.doc);
    SortKey::from_slice(&mixed(mixed(seed) ^ place).to_be_bytes())
}

/// Offers the hits of one shard to `top`.
pub(crate) fn offer_all(
    seed: u64,
    shard: u32,
    docs: &DocSet,
    options: &Options<'_>,
    top: &mut TopHits,
    meter: &mut Meter,
) -> Result<()> {
    for (count, doc) in docs.iter().enumerate() {
        if count % DOCS_AT_ONCE == 0 {
            options.check_stop()?;
        }
        let hit = Hit { shard, doc };
        let key = key(seed, hit);
        if top.worst().is_none_or(|(worst, _)| key < *worst) {
            offer(top, key, hit, meter)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::{Answer, Hit, ModelShard, Options, Query, Shard, field, find, find_all};
    use quire_model::Document;
    use std::collections::BTreeSet;

    /// Documents of 0 to 99, in two shards.
    fn documents() -> Vec<Document> {
        let json = (0..100).map(|number| format!("{{\"number\":{number}}}"));
        json.map(|json| Document::from_json(json.as_bytes()).unwrap())
            .collect()
    }

    fn answer(query: Query) -> Answer {
        let all = documents();
        let (one, other) = all.split_at(40);
        let shards = [one, other].map(|part| ModelShard::from_iter(part.to_vec()));
        let prepared = query.prepare().unwrap();
        let of_shards: Vec<_> = shards.iter().map(|shard| shard as &dyn Shard).collect();
        let options = Options::default();
        let answer = prepared.answer(&of_shards, &options).unwrap();
        let mut scan = prepared.scan(&options);
        for (shard, part) in (0..).zip([one, other]) {
            for (doc, document) in (0..).zip(part) {
                scan.see(Hit { shard, doc }, document).unwrap();
            }
        }
        assert_eq!(scan.finish().unwrap(), answer, "documents give the same");
        answer
    }

    #[test]
    fn a_seed_decides_the_order_and_pages_are_parts_of_it() {
        let all = answer(find_all().shuffle(7)).hits;
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 100);
        assert_eq!(answer(find_all().shuffle(7)).hits, all);
        assert_ne!(answer(find_all().shuffle(8)).hits, all);
        let page = find_all().shuffle(7).skip(10).limit(20);
        assert_eq!(answer(page).hits, all[10..30]);
    }

    #[test]
    fn a_sample_is_of_those_that_match_and_counts_are_of_all() {
        let few = find(field("number").lt(30))
            .shuffle(1)
            .limit(5)
            .with_count();
        let found = answer(few);
        assert_eq!((found.hits.len(), found.count), (5, Some(30)));
        assert!(found.hits.iter().all(|hit| hit.shard == 0 && hit.doc < 30));
    }

    #[test]
    fn each_document_is_in_about_as_many_samples_as_any_other() {
        let mut drawn = [0_u32; 100];
        for seed in 0..1_000 {
            for hit in answer(find_all().shuffle(seed).limit(10)).hits {
                drawn[(hit.shard * 40 + hit.doc) as usize] += 1;
            }
        }
        // 100 on average, by a deviation of less than 10; no seed is left to chance.
        assert_eq!(drawn.iter().sum::<u32>(), 10_000);
        assert!(
            drawn.iter().all(|count| (60..=140).contains(count)),
            "{drawn:?}"
        );
    }

    #[test]
    fn an_order_beside_it_is_refused() {
        let both = find_all().shuffle(1).order_by(field("number").ascending());
        assert!(both.prepare().is_err());
    }
}
