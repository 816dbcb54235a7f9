//! A store that follows another: it has a prefix of the other's history, whole groups only,
//! whatever happens to it.

use super::*;
use crate::Shipped;

/// Groups of one to four words.
fn history() -> Vec<Vec<String>> {
    let words = |n: u8| (0..=n % 4).map(move |m| word(n.wrapping_mul(37).wrapping_add(m)));
    (0..40).map(|n| words(n).collect()).collect()
}

fn write_all(store: &Store<Words>, groups: &[Vec<String>], durability: Durability) {
    for group in groups {
        let words: Vec<_> = group.iter().map(String::as_str).collect();
        write(store, &words, durability).unwrap();
    }
}

/// Takes all that the leader ships, a few bytes at a time, until the two differ in nothing or the
/// follower fails.
fn catch_up(leader: &Store<Words>, follower: &Store<Words>) -> crate::Result<()> {
    loop {
        let seen = follower.extent().last;
        match leader.ship(seen, 9)? {
            Shipped::Nothing => return Ok(()),
            Shipped::Gap => panic!("nothing was removed"),
            Shipped::Records { records, whole } => {
                let durability = Durability::Async(Duration::from_millis(5));
                follower.ingest(seen.next(), &records, whole, durability)?;
            }
        }
    }
}

/// The store holds the first groups of `history` and nothing else; how many.
fn groups_in(store: &Store<Words>, history: &[Vec<String>]) -> usize {
    let found = contents(store).unwrap();
    let model = |count: usize| Model::of(history[..count].iter().flatten().map(String::as_str));
    let count = (0..=history.len()).find(|count| model(*count) == found);
    count.unwrap_or_else(|| panic!("no prefix of the history: {found:?}"))
}

#[test]
fn a_follower_that_crashes_at_any_step_has_a_prefix_of_the_history_and_goes_on() {
    let history = history();
    let leader = open(&SimEnv::new(1)).unwrap();
    write_all(&leader, &history, Durability::Sync);
    let whole = {
        let env = SimEnv::new(2);
        let follower = open(&env).unwrap();
        catch_up(&leader, &follower).unwrap();
        follower.close().unwrap();
        env.operations()
    };
    for step in 0..whole {
        let env = SimEnv::new(step);
        env.crash_at(step);
        if let Ok(follower) = open(&env) {
            let _ = catch_up(&leader, &follower).and_then(|()| follower.close());
        }
        let env = env.after_crash(step);
        let follower = open(&env).unwrap();
        groups_in(&follower, &history);
        catch_up(&leader, &follower).unwrap();
        assert_eq!(
            groups_in(&follower, &history),
            history.len(),
            "crash at {step}"
        );
        assert_eq!(follower.extent().last, leader.extent().last);
        for position in (1..=leader.extent().last.0).map(Position) {
            let fingerprint = |store: &Store<Words>| store.fingerprint(position).unwrap();
            assert_eq!(fingerprint(&follower), fingerprint(&leader));
        }
    }
}

#[test]
fn only_what_is_durable_is_shipped() {
    let leader = open(&SimEnv::new(3)).unwrap();
    let history = history();
    write_all(&leader, &history[..3], Durability::Sync);
    let durable = leader.extent().last;
    write_all(&leader, &history[3..5], Durability::None);
    assert_eq!(leader.ship(durable, 100).unwrap(), Shipped::Nothing);
    leader.sync_log().unwrap();
    assert_eq!(leader.extent().durable, leader.extent().last);
    let Shipped::Records { records, whole } = leader.ship(durable, 1).unwrap() else {
        panic!("there is more")
    };
    assert!(whole);
    let records: Vec<_> = records.iter().map(|word| word.to_vec()).collect();
    let groups = history[3..5].iter().map(|group| {
        let words = group.iter().map(|word| word.clone().into_bytes());
        words.collect::<Vec<_>>()
    });
    let groups: Vec<_> = groups.collect();
    assert!(records == groups[0] || records == groups.concat());
}

#[test]
fn what_does_not_follow_or_makes_no_sense_is_refused_and_nothing_is_written() {
    let follower = open(&SimEnv::new(4)).unwrap();
    let words = |words: &[&'static str]| -> Vec<Bytes> {
        words
            .iter()
            .map(|word| Bytes::from_static(word.as_bytes()))
            .collect()
    };
    let ingest = |first, records: &[Bytes]| {
        follower.ingest(Position(first), records, true, Durability::Sync)
    };
    ingest(1, &words(&["a", "b"])).unwrap();
    let before = contents(&follower).unwrap();
    for first in [0, 1, 2, 4, u64::MAX] {
        let error = ingest(first, &words(&["c"])).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
    let error = ingest(3, &words(&["c", ""])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert_eq!(contents(&follower).unwrap(), before);
    ingest(3, &words(&["c"])).unwrap();
}

#[test]
fn readers_never_see_half_of_what_was_written_together() {
    let follower = open(&SimEnv::new(5)).unwrap();
    let ingest = |first, word: &'static str, visible| {
        let records = [Bytes::from_static(word.as_bytes())];
        follower.ingest(Position(first), &records, visible, Durability::None)
    };
    ingest(1, "a", true).unwrap();
    ingest(2, "b", false).unwrap();
    assert_eq!(follower.position(), Position(1));
    ingest(3, "c", true).unwrap();
    assert_eq!(follower.position(), Position(3));
}
