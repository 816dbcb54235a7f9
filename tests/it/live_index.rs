//! Live indexes: queries get the answers of the documents, whatever the index is, however far it is
//! behind, and whatever happened to its files; so do all copies of a database.

pub(crate) mod bad_input;
mod copies;
pub(crate) mod damage;
mod text;
mod world;

use quire_tests::sim::quietly;
use text::Text;
use world::World;

/// Runs the operations text of a seed, and compares the copies of what it leaves.
pub(crate) fn run(seed: u64) -> world::Tally {
    let text = Text::of_seed(seed);
    let mut world = World::new(&text);
    for step in 0..text.steps() {
        world.step(&text, step);
    }
    world.end();
    if seed.is_multiple_of(4) {
        copies::check(&world, &text);
    }
    world.tally()
}

#[test]
pub(crate) fn one_operations_text_gives_one_answer_through_every_path() {
    let mut tally = world::Tally::default();
    for seed in 0..200 {
        tally += run(seed);
    }
    println!("{tally:?}");
    assert!(
        tally.absent > 500 && tally.building > 100 && tally.behind > 1_000 && tally.level > 500,
        "the index is in each state often: {tally:?}"
    );
}

/// `store` finds it by itself, with other trees.
#[test]
fn an_index_that_is_read_before_it_is_complete_gives_wrong_answers_that_are_found() {
    let _seeded = quire_seeded::seed_bug(quire_seeded::Bug::BuildingTreeRead);
    let found = (0..50).any(|seed| quietly(|| _ = run(seed)).is_err());
    assert!(found, "not found");
}
