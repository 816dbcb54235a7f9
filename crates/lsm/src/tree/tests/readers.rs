//! Readers on threads of their own, beside the writer, flushes and compactions.

use super::*;

/// Each record adds one to two counters and puts its position: in a snapshot all three agree,
/// whatever is flushed and compacted meanwhile.
#[test]
// Plain threads: what the store does with the machine's threads, without a store.
#[allow(clippy::disallowed_methods)]
fn readers_beside_writer_flushes_and_compactions_see_whole_records() {
    const RECORDS: u64 = 4000;
    let merger = FoldBytes::shared(Sum);
    let spec = TreeSpec {
        merger: Some(merger),
        ..spec()
    };
    let tree = Arc::new(Tree::open(spec, context(&SimEnv::new(1)), Vec::new()).unwrap());
    let published = Arc::new(AtomicU64::new(0));
    let done = |published: &AtomicU64| published.load(Ordering::Acquire) == RECORDS;
    let mut threads = Vec::new();
    for _ in 0..2 {
        let (tree, published) = (Arc::clone(&tree), Arc::clone(&published));
        threads.push(std::thread::spawn(move || {
            let mut looks = 0u64;
            loop {
                let last = done(&published);
                let at = Position(published.load(Ordering::Acquire));
                let snapshot = tree.snapshot(at);
                if snapshot.flushed() > at {
                    continue;
                }
                let expected = (at.0 > 0).then_some(at.0 as i64);
                for key in [b"a".as_slice(), b"m", b"z"] {
                    let found = snapshot.get(key).unwrap().map(|value| number(&value));
                    assert_eq!(found, expected, "{key:?} at {at}");
                }
                let scanned = snapshot.scan(Bound::Unbounded, Bound::Unbounded).unwrap();
                let counters = scanned
                    .map(Result::unwrap)
                    .filter(|(key, _)| key.len() == 1);
                assert!(
                    counters
                        .map(|(_, value)| number(&value))
                        .all(|found| Some(found) == expected)
                );
                looks += 1;
                if last {
                    return looks;
                }
            }
        }));
    }
    let background = {
        let (tree, published) = (Arc::clone(&tree), Arc::clone(&published));
        std::thread::spawn(move || {
            let mut installed = 0u64;
            loop {
                let last = done(&published);
                let flush = tree.flush().unwrap();
                let picked = tree.pick_compaction();
                let merge = picked.and_then(|picked| tree.compact(picked, &|| false).unwrap());
                for edit in [flush, merge].into_iter().flatten() {
                    tree.install(edit);
                    installed += 1;
                }
                if last {
                    return installed;
                }
            }
        })
    };
    for position in 1..=RECORDS {
        let at = Position(position);
        tree.write(b"a", at, Op::Merge(&1i64.to_le_bytes()))
            .unwrap();
        tree.write(
            format!("filler/{}", position % 97).as_bytes(),
            at,
            Op::Put(&[0; 50]),
        )
        .unwrap();
        tree.write(b"m", at, Op::Put(&(position as i64).to_le_bytes()))
            .unwrap();
        tree.write(b"z", at, Op::Merge(&1i64.to_le_bytes()))
            .unwrap();
        published.store(position, Ordering::Release);
        if position % 50 == 0 {
            tree.freeze();
        }
    }
    for reader in threads {
        assert!(reader.join().unwrap() > 0);
    }
    assert!(background.join().unwrap() > 0);
}
