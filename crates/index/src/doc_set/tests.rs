use super::*;
use crate::SetView;
use crate::encode_set;
use proptest::collection::btree_set;
use proptest::prelude::*;
use std::collections::BTreeSet;

/// Sparse, dense and in runs, over several clusters.
fn docids() -> impl Strategy<Value = BTreeSet<u32>> {
    let run = (0u32..200_000, 1u32..9_000).prop_map(|(start, count)| start..start + count);
    let runs = proptest::collection::vec(run, 0..6);
    (btree_set(0u32..200_000, 0..300), runs, 1usize..4).prop_map(|(mut set, runs, step)| {
        set.extend(runs.into_iter().flat_map(|run| run.step_by(step)));
        set
    })
}

fn set(docids: &BTreeSet<u32>) -> DocSet {
    docids.iter().copied().collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn it_is_the_set_that_a_btree_set_is(a in docids(), b in docids(), at in 0u32..220_000) {
        let (x, y) = (set(&a), set(&b));
        let expect = |found: DocSet, docids: Vec<u32>| {
            assert_eq!(found.len(), docids.len() as u64);
            assert!(found.iter().eq(docids.iter().copied()));
            assert_eq!(found, docids.into_iter().collect());
        };
        expect(&x & &y, a.intersection(&b).copied().collect());
        expect(&x | &y, a.union(&b).copied().collect());
        expect(&x - &y, a.difference(&b).copied().collect());
        expect(x.complement(at), (0..at).filter(|docid| !a.contains(docid)).collect());
        prop_assert_eq!(x.intersection_len(&y), a.intersection(&b).count() as u64);
        let z: DocSet = (0..at).step_by(3).collect();
        prop_assert_eq!(x.intersection_len_of(&[&y, &z]), (&(&x & &y) & &z).len());
        prop_assert_eq!(z.intersection_len_of(&[&y]), (&y & &z).len());
        prop_assert_eq!(x.intersection_len_of(&[]), x.len());
        let (mut and, mut or, mut less, mut kept) = (x.clone(), x.clone(), x.clone(), x.clone());
        and &= &y;
        or |= &y;
        less -= &y;
        kept.retain(|docid| b.contains(&docid));
        prop_assert_eq!((&and, or, less), (&(&x & &y), &x | &y, &x - &y));
        prop_assert_eq!(kept, and);

        prop_assert_eq!((x.min(), x.max()), (a.first().copied(), a.last().copied()));
        prop_assert_eq!(x.is_empty(), a.is_empty());
        prop_assert_eq!(x.contains(at), a.contains(&at));
        let ordinal = a.range(..at).count() as u64;
        prop_assert_eq!(x.ordinal(at), ordinal);
        prop_assert_eq!(x.select(ordinal), a.range(at..).next().copied());
        let mut from = x.iter();
        from.advance_to(at);
        let mut some = [0; 100];
        let count = from.next_many(&mut some);
        prop_assert_eq!(&some[..count], &a.range(at..).take(100).copied().collect::<Vec<_>>());
        prop_assert!(from.eq(a.range(at..).skip(100).copied()));
        let mut last = None;
        for range in x.ranges() {
            prop_assert!(range.start < range.end && last.is_none_or(|last| last < range.start));
            last = Some(range.end);
        }
        prop_assert!(x.ranges().flatten().eq(a.iter().copied()));
        let mut grown = DocSet::empty();
        for docid in a.iter().rev() {
            prop_assert!(grown.insert(*docid) && !grown.insert(*docid));
        }
        prop_assert_eq!(grown, x);
    }
}

/// The bytes of a set, which must be read back as it.
fn encoded(set: &DocSet) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_set(set, &mut bytes);
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_set_in_a_file_is_worked_on_as_one_in_memory(
        a in docids(),
        b in docids(),
        at in 0u32..220_000,
    ) {
        let (x, y) = (set(&a), set(&b));
        let (x_bytes, y_bytes) = (encoded(&x), encoded(&y));
        let (in_x, in_y) = (
            SetView::new(&x_bytes).unwrap(),
            SetView::new(&y_bytes).unwrap(),
        );
        prop_assert_eq!((in_x.len(), in_x.is_empty()), (x.len(), x.is_empty()));
        prop_assert_eq!(in_x.contains(at), x.contains(at));
        prop_assert_eq!(&in_x.to_doc_set(), &x);
        prop_assert_eq!(in_x.and(in_y), &x & &y);
        prop_assert_eq!(in_x.intersection_len(in_y), x.intersection_len(&y));
        prop_assert_eq!(x.intersection_len_view(in_y), x.intersection_len(&y));
        let mut bits = vec![0; 3_500];
        in_x.add_to_bits(&mut bits);
        in_y.add_to_bits(&mut bits);
        prop_assert_eq!(DocSet::from_bits(&bits), &x | &y);
        let (mut words, mut of_words) = (Vec::new(), Vec::new());
        in_x.each_word(|first, bits| words.push((first, bits)));
        for (first, bits) in &words {
            of_words.extend((0..64).filter(|bit| bits >> bit & 1 == 1).map(|bit| first + bit));
        }
        prop_assert!(words.is_sorted_by(|a, b| a.0 < b.0) && words.iter().all(|one| one.1 != 0));
        prop_assert!(of_words.into_iter().eq(a.iter().copied()));
        let (mut and, mut or, mut less) = (x.clone(), x.clone(), x.clone());
        and.and_view(in_y);
        or.or_view(in_y);
        less.and_not_view(in_y);
        prop_assert_eq!((and, or, less), (&x & &y, &x | &y, &x - &y));
        prop_assert_eq!(in_x.kinds().iter().sum::<usize>(), x.clusters().count());
        prop_assert!(
            x_bytes.len() <= 4 + 16 * 4 + 2 * a.len(),
            "a list is never shorter"
        );
    }

    #[test]
    fn bytes_that_are_no_set_are_refused_or_harmless(
        docids in docids(),
        at: prop::sample::Index,
        to: u8,
        cut: prop::sample::Index,
    ) {
        let x = set(&docids);
        let mut bytes = encoded(&x);
        prop_assert!(SetView::new(&bytes[..cut.index(bytes.len())]).is_err());
        let at = at.index(bytes.len());
        bytes[at] = to;
        let Ok(view) = SetView::new(&bytes) else {
            return Ok(());
        };
        let mut set = view.to_doc_set();
        view.add_to_bits(&mut [0; 1_500]);
        let _ = (
            view.len(),
            view.contains(5),
            view.intersection_len(view),
            view.and(view),
        );
        set.or_view(view);
        set.and_not_view(view);
        set.and_view(view);
        let _ = (
            &set | &x,
            set.ranges().count(),
            set.ordinal(70_000),
            set.select(3),
            set.iter().count(),
        );
    }
}
