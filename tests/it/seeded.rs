//! Seeded bugs: each is found, or the harness is too weak.
//!
//! Every bug of `quire_seeded` is hunted with the means of the other tests, which all pass without
//! it: most with random histories of documents and of counters, in turns, up to [`SEEDS_MAX`] of
//! each; some with short histories that have a failure at every single step; some with damage to
//! every byte. One that survives fails the test.
//!
//! `QUIRE_SEEDED=BUG` hunts one alone and shows how it was found. `QUIRE_SEEDED=table` writes the
//! table in `docs/RELIABILITY.md` anew.

use crate::live_index;
use crate::quire::root;
use crate::sim_damage;
use quire_seeded::{Bug, Seeded, seed_bug};
use quire_tests::sim::{
    self, Failure, History, Profile, RunStats, counters, exhaustive, kept_histories, quietly,
};
use std::fmt::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// No bug that random histories find takes more seeds than this. All of them pass without bugs:
/// `histories.rs` runs more.
const SEEDS_MAX: u64 = 300;

/// Those of wide collections that histories find; their own tests do, too.
const OF_ROWS: [Bug; 8] = [
    Bug::WideGroupsApart,
    Bug::MovedCopyLeft,
    Bug::ColdBeforeCells,
    Bug::ColdCellsForgotten,
    Bug::MovedColumnLeft,
    Bug::SplitNotLevel,
    Bug::SplitNamedUnsynced,
    Bug::SplitBoundaryMoved,
];

const BEGIN: &str = "<!-- seeded bugs: begin -->";
const END: &str = "<!-- seeded bugs: end -->";

/// What found a bug.
#[derive(Debug, Clone)]
struct Found {
    /// The method, and the work that it took.
    by: String,
    failure: String,
    took: Duration,
}

/// Seeds a bug, and searches for it.
fn hunt(bug: Bug) -> Option<Found> {
    if let Some(by) = elsewhere(bug) {
        return Some(Found {
            by: by.into(),
            failure: String::new(),
            took: Duration::ZERO,
        });
    }
    let begun = Instant::now();
    let (by, failure) = match second_defence(bug) {
        Some(other) => {
            let _away = seed_bug(other);
            let found = search(bug, &|| Some(seed_bug(bug)))?;
            // What the other bug causes alone does not count.
            if search(bug, &|| None).is_some() {
                return None;
            }
            (format!("{}, with `{other:?}` too", found.0), found.1)
        }
        None => search(bug, &|| Some(seed_bug(bug)))?,
    };
    Some(Found {
        by,
        failure,
        took: begun.elapsed(),
    })
}

/// The bug that takes away a second defence, without which nobody would notice the first missing.
fn second_defence(bug: Bug) -> Option<Bug> {
    match bug {
        Bug::FoundSegmentNameBelieved | Bug::DamageTakenForTornTail | Bug::ShortLogAccepted => {
            Some(Bug::EndOfLogUnread)
        }
        Bug::FoundCatalogBelieved => Some(Bug::CatalogCopyStale),
        _ => None,
    }
}

/// Searches for a bug, with what `seed` seeds.
fn search(bug: Bug, seed: &dyn Fn() -> Option<Seeded>) -> Option<(String, String)> {
    let _seeded = seed();
    match bug {
        Bug::DamageTakenForTornTail => first_failure(&[(
            "damage to every byte of a log before its last write",
            sim_damage::damage_before_the_last_write_is_told_from_a_torn_tail,
        )]),
        Bug::ShortLogAccepted => first_failure(&[(
            "each file cut or missing",
            sim_damage::a_file_that_is_cut_or_missing_is_an_error_and_never_a_wrong_answer,
        )]),
        // Bugs that need damage: bytes that change by themselves.
        Bug::LogChecksumUnchecked
        | Bug::TableChecksumUnchecked
        | Bug::ManifestChecksumUnchecked
        | Bug::EndOfLogUnread
        | Bug::CatalogCopyStale => damage(),
        // Bugs that show only if a second fault follows a first one at the right step.
        Bug::FoundSegmentNameBelieved
        | Bug::UnprovenBelieved
        | Bug::FoundManifestBelieved
        | Bug::DoubtfulManifestGivenUp => counters_exhaustive(),
        Bug::FoundCatalogBelieved => documents_exhaustive("a fault, then a crash,", |history| {
            exhaustive::fault_then_crash(history, 2)
        }),
        // Bugs at one or two of many steps.
        Bug::CompactedRemovedFirst | Bug::LeftoversBelieved => {
            documents_exhaustive("a crash", |history| {
                exhaustive::crash_at_every_step(history, 6)
            })
        }
        bug if OF_ROWS.contains(&bug) => rows_exhaustive(),
        Bug::FrozenChecksumUnchecked => frozen_damage(),
        Bug::RefusedFieldSearched => refused_fields(),
        Bug::ManyValuesForgotten => many_values(),
        Bug::DamagedIndexUsed => damaged_index(),
        bug if Bug::OF_LIVE_INDEXES.contains(&bug) => live_indexes(),
        Bug::RepairUnmarked => first_failure(&[(
            "a crash at every seventh step of a repair",
            crate::repair::a_repair_that_stops_is_no_database_and_can_begin_anew,
        )]),
        Bug::LockOnFileAlone => first_failure(&[(
            "the file `LOCK` removed under an open database",
            crate::two_holders::removing_the_lock_file_lets_nobody_else_write,
        )]),
        _ => random(),
    }
}

/// The tests of `store` search the bugs of added trees themselves, and those of `collection` the
/// bugs of columns, and those of `wide` the bugs of wide collections. The simulation has one
/// thread: bugs that show only between threads are searched where those are checked.
fn elsewhere(bug: Bug) -> Option<&'static str> {
    if OF_ROWS.contains(&bug) {
        return None;
    }
    let [memtables, frames] = Bug::UNDER_LOOM;
    let [trees, stores] = Bug::UNDER_SHUTTLE;
    let checked = [
        (
            Bug::OF_ADDED_TREES,
            "a crash and a fault at every step, in `store`",
        ),
        (Bug::OF_COLUMNS, "queries at any lag, in `collection`"),
        (
            Bug::OF_FOLLOWED,
            "queries while documents change, in `collection`",
        ),
        (Bug::OF_VOLUMES, "disks that are not mounted, in `quiredb`"),
        (Bug::OF_SPLITS, "splits and crashes, in `database`"),
        (Bug::OF_MERGES, "merges and crashes, in `database`"),
        (Bug::OF_WIDE_SPLITS, "splits of wide partitions, in `wide`"),
        (Bug::OF_WIDE_MERGES, "merges of wide partitions, in `wide`"),
        (Bug::OF_ROW_INDEXES, "indexes of rows, in `wide`"),
        (Bug::OF_TRIGGERS, "a crash at every step, in `database`"),
        (Bug::OF_EXPIRY, "documents that expire, in `database`"),
        (Bug::OF_WIDE, "a crash at every step, in `wide`"),
        (Bug::OF_TIERS, "a crash at every step of moves, in `wide`"),
        (
            Bug::OF_CELL_EXPIRY,
            "a crash at every step of expiry, in `wide`",
        ),
        (
            Bug::OF_COLUMN_MOVES,
            "a crash at every step of a moving column, in `wide`",
        ),
        (memtables, "orders of steps under loom, in `lsm`"),
        (frames, "orders of steps under loom, in `lsm`"),
        (trees, "orders of steps under shuttle, in `lsm`"),
        (stores, "orders of steps under shuttle, in `store`"),
    ];
    let by = checked.iter().find(|(bugs, _)| bugs.contains(&bug));
    by.map(|(_, by)| *by)
}

fn random() -> Option<(String, String)> {
    (0..SEEDS_MAX).find_map(|seed| {
        let profile = Profile::ALL[seed as usize % Profile::ALL.len()];
        let documents = sim::run(&sim::generate(seed, profile)).err();
        let found = |failure: Failure, of: &str| {
            let plural = if seed == 0 { "" } else { "s" };
            (
                format!("{} seed{plural} of {of}", seed + 1),
                failure.to_string(),
            )
        };
        if let Some(failure) = documents {
            return Some(found(failure, "documents"));
        }
        let counted = counters::run(&counters::generate(seed, seed % 2 == 1));
        Some(found(counted.err()?, "counters"))
    })
}

fn counters_exhaustive() -> Option<(String, String)> {
    let failure = counters::fail_twice(&counters::short(), 12).err()?;
    Some((
        "counters, two failures at every step".into(),
        failure.to_string(),
    ))
}

fn documents_exhaustive(
    what: &str,
    act: impl Fn(&History) -> Result<RunStats, Failure>,
) -> Option<(String, String)> {
    let short = kept_histories("short");
    let mut plain = short.iter().filter(|(_, history)| !history.has_wide());
    let failure = plain.find_map(|(_, history)| act(history).err())?;
    let by = format!("documents, {what} at every step");
    Some((by, failure.to_string()))
}

/// As [`documents_exhaustive`], with the short history that has a wide collection.
fn rows_exhaustive() -> Option<(String, String)> {
    let short = kept_histories("short");
    let wide = short.iter().find(|(_, history)| history.has_wide());
    let failure = exhaustive::crash_at_every_step(&wide?.1, 2).err()?;
    let by = "rows and documents, a crash at every step".to_string();
    Some((by, failure.to_string()))
}

/// A method to search for a bug, in words, and the test that fails if it is there.
type Hunt = (&'static str, fn());

fn live_indexes() -> Option<(String, String)> {
    (0..SEEDS_MAX).find_map(|seed| {
        let (failure, place) = quietly(|| _ = live_index::run(seed)).err()?;
        let plural = if seed == 0 { "" } else { "s" };
        let by = format!("{} seed{plural} of live indexes", seed + 1);
        Some((by, format!("{failure} ({place})")))
    })
}

fn refused_fields() -> Option<(String, String)> {
    let test =
        live_index::bad_input::fields_past_the_limit_are_refused_by_name_and_found_all_the_same;
    first_failure(&[("documents with more fields than an index takes", test)])
}

fn many_values() -> Option<(String, String)> {
    use live_index::bad_input;
    let test = bad_input::documents_with_too_many_values_to_index_are_counted_by_field_and_found;
    first_failure(&[("documents of too many values", test)])
}

fn damaged_index() -> Option<(String, String)> {
    let test = live_index::damage::damage_that_a_query_finds_has_the_index_built_anew;
    first_failure(&[("damage that a query finds in an index", test)])
}

fn frozen_damage() -> Option<(String, String)> {
    let test = crate::frozen::a_changed_bit_in_any_byte_of_a_frozen_partition_is_found;
    first_failure(&[("damage to every byte of a frozen partition", test)])
}

fn damage() -> Option<(String, String)> {
    first_failure(&[
        (
            "damage to every byte of a log that was not closed",
            sim_damage::damage_to_a_log_that_was_not_closed_is_told_from_a_torn_tail,
        ),
        (
            "damage to every byte of each copy of the catalog",
            sim_damage::a_damaged_copy_of_the_catalog_costs_nothing,
        ),
        (
            "each file cut or missing",
            sim_damage::a_file_that_is_cut_or_missing_is_an_error_and_never_a_wrong_answer,
        ),
        (
            "each file exchanged for another database's",
            sim_damage::a_file_of_another_database_is_told_and_never_served,
        ),
        (
            "damage to every byte",
            sim_damage::a_changed_bit_in_any_byte_is_found_and_never_served,
        ),
    ])
}

fn first_failure(hunts: &[Hunt]) -> Option<(String, String)> {
    hunts.iter().find_map(|(what, test)| {
        let (failure, place) = quietly(test).err()?;
        Some((what.to_string(), format!("{failure} ({place})")))
    })
}

/// Searches for bugs, one per core at a time. In their order.
fn hunt_all(bugs: &[Bug]) -> Vec<(Bug, Option<Found>)> {
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some((index, bug)) = {
            let index = next.fetch_add(1, Ordering::Relaxed);
            bugs.get(index).map(|bug| (index, *bug))
        } {
            let result = hunt(bug);
            println!("{bug:?}: {:?}", result.as_ref().map(|found| found.took));
            found.lock().unwrap().push((index, bug, result));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let mut found = found.into_inner().unwrap();
    found.sort_by_key(|(index, ..)| *index);
    found
        .into_iter()
        .map(|(_, bug, found)| (bug, found))
        .collect()
}

/// The table of the documentation.
fn table(found: &[(Bug, Option<Found>)]) -> String {
    let mut table = String::from("| bug | what it is | found after |\n| --- | --- | --- |\n");
    for (bug, found) in found {
        let by = found.as_ref().map_or("(survives)", |found| &found.by);
        let words = bug.words().trim_end_matches('.');
        let _ = writeln!(table, "| `{bug:?}` | {words} | {by} |");
    }
    table
}

/// The page, and its parts before, inside and after the marks.
fn page() -> (std::path::PathBuf, [String; 3]) {
    let path = root().join("docs/RELIABILITY.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(BEGIN).expect(BEGIN);
    let (inside, after) = rest.split_once(END).expect(END);
    let parts = [before, inside, after].map(str::to_string);
    (path, parts)
}

#[test]
fn every_seeded_bug_is_found() {
    let wanted = std::env::var("QUIRE_SEEDED").ok();
    let named = |bug: &&Bug| Some(format!("{bug:?}")) == wanted;
    let one: Vec<_> = Bug::ALL.iter().filter(named).copied().collect();
    let bugs = if one.is_empty() { Bug::ALL } else { &one };
    let found = hunt_all(bugs);
    println!("{}", table(&found));
    for (bug, found) in &found {
        if let Some(Found { by, failure, took }) = found {
            let failure: String = failure.chars().take(400).collect();
            println!("{bug:?}, {took:.1?}, {by}: {failure}\n");
        }
    }
    let survivors: Vec<_> = found
        .iter()
        .filter(|(_, found)| found.is_none())
        .map(|(bug, _)| bug)
        .collect();
    assert!(survivors.is_empty(), "not found: {survivors:?}");
    if wanted.as_deref() == Some("table") {
        let (path, [before, _, after]) = page();
        let text = format!("{before}{BEGIN}\n{}{END}{after}", table(&found));
        std::fs::write(path, text).unwrap();
    }
}

#[test]
fn every_seeded_bug_is_in_the_documentation() {
    let (_, [_, inside, _]) = page();
    let rows: Vec<_> = inside
        .lines()
        .skip(3)
        .filter(|line| !line.is_empty())
        .collect();
    for bug in Bug::ALL {
        let begin = format!("| `{bug:?}` | {} |", bug.words().trim_end_matches('.'));
        assert!(
            rows.iter().any(|row| row.starts_with(&begin)),
            "no row {begin}: QUIRE_SEEDED=table writes the table anew"
        );
    }
    assert_eq!(rows.len(), Bug::ALL.len(), "rows of bugs that are no more");
}
