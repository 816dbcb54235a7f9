//! The pager at work on a tree of six runs.

use crate::testing::context;
use crate::{FilterPager, Op, RunMeta, Tree, TreeContext, TreeSpec};
use quire_env::{BlockCache, Env, SimEnv};
use quire_model::Position;
use std::sync::Arc;
use std::time::Duration;

/// Sixty-three flushes of this many keys leave six runs.
const FLUSH_KEYS: u64 = 4000;
const KEYS: u64 = 63 * FLUSH_KEYS;

fn mix(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb)
}

fn key(number: u64) -> [u8; 8] {
    mix(number + 1).to_be_bytes()
}

fn spec() -> TreeSpec {
    TreeSpec {
        block_bytes: 512,
        table_bytes_max: 256 << 10,
        ..TreeSpec::new(1, "t")
    }
}

/// Six runs as flushes and compactions leave them: each twice as large as the next newer.
fn build(env: &Arc<SimEnv>) -> Vec<RunMeta> {
    let tree = Tree::open(spec(), context(env), Vec::new()).unwrap();
    let mut keys = 0..KEYS;
    for flushes in [32, 16, 8, 4, 2, 1] {
        for number in keys.by_ref().take((flushes * FLUSH_KEYS) as usize) {
            let value = number.to_le_bytes();
            tree.write(&key(number), Position(number), Op::Put(&value))
                .unwrap();
        }
        tree.freeze();
        let edit = tree.flush().unwrap().unwrap();
        tree.install(edit);
    }
    assert_eq!(tree.runs().len(), 6);
    assert!(tree.pick_compaction().is_none());
    tree.runs()
}

/// A tree of `runs` whose filters have a pager of their own and `filter_bytes`.
fn open(env: &Arc<SimEnv>, runs: &[RunMeta], filter_bytes: u64) -> (Tree, Arc<FilterPager>) {
    let pager = FilterPager::new(Arc::clone(env) as Arc<dyn Env>, filter_bytes);
    let context = TreeContext {
        filters: Arc::clone(&pager),
        // Every look at a block is a read.
        cache: BlockCache::new(0),
        ..context(env)
    };
    (Tree::open(spec(), context, runs.to_vec()).unwrap(), pager)
}

/// Numbers of keys, the n-th most frequent with a probability of n to the power of −0.99; which
/// those are is mixed up.
fn zipfian(count: u64) -> impl Iterator<Item = u64> {
    let mut sums = Vec::with_capacity(KEYS as usize);
    let mut sum = 0.0;
    for ordinal in 1..=KEYS {
        sum += (ordinal as f64).powf(-0.99);
        sums.push(sum);
    }
    (0..count).map(move |draw| {
        let at = mix(draw ^ 0xabcd) as f64 / u64::MAX as f64 * sum;
        mix(sums.partition_point(|sum| *sum < at) as u64) % KEYS
    })
}

/// Reads keys that are there; between reads, `meanwhile` is done. Returns the block reads.
fn read(tree: &Tree, count: u64, meanwhile: impl Fn()) -> u64 {
    let before = tree.stats().block_reads;
    for (index, number) in zipfian(count).enumerate() {
        let value = tree.reader(Position(u64::MAX)).get(&key(number)).unwrap();
        assert_eq!(value.as_deref(), Some(&number.to_le_bytes()[..]));
        if index % 100 == 0 {
            meanwhile();
        }
    }
    tree.stats().block_reads - before
}

#[test]
fn a_tenth_of_the_bytes_saves_half_of_the_block_reads_that_random_pages_leave() {
    let env = SimEnv::new(1);
    let runs = build(&env);
    let (tree, all) = open(&env, &runs, u64::MAX);
    let pages = all.stats().pages;
    all.run();
    assert_eq!(all.stats().resident_pages, pages);
    let budget = all.stats().resident_bytes / 10;
    drop(tree);

    let (tree, pager) = open(&env, &runs, budget);
    let jobs = || {
        env.advance(Duration::from_millis(20));
        env.run_due();
    };
    read(&tree, 10_000, jobs);
    let reads = read(&tree, 10_000, jobs);
    let stats = pager.stats();
    assert!(
        stats.resident_bytes <= budget && stats.resident_bytes > budget / 2,
        "{stats:?}"
    );
    // Settled: what is measured does not drive pages in and out.
    assert!(
        stats.evicted < stats.loaded && stats.loaded < 4 * pages,
        "{stats:?}"
    );
    drop(tree);

    let (tree, random) = open(&env, &runs, budget);
    random.load_picked(|page| mix(page).is_multiple_of(10));
    let random_reads = read(&tree, 10_000, || {});
    let held = random.stats().resident_bytes;
    assert!(held > budget / 2, "{held} of {budget}");
    assert!(
        reads * 2 <= random_reads,
        "{reads} reads, with random pages {random_reads}"
    );
}
