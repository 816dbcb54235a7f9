//! Live indexes: queries get the answers of the documents, whatever the index is, however far it is
//! behind, and whatever happened to its files; so do all copies of a database.

mod bad_input;
mod copies;
mod damage;
mod text;
mod world;

use text::Text;
use world::World;

/// Runs the operations text of a seed, and compares the copies of what it leaves.
fn run(seed: u64) -> world::Tally {
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
