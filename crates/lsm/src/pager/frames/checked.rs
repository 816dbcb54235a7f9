//! Frames under loom: readers of pages while their frame is used anew, in every order of
//! steps that the memory model allows.

use super::tests::{page, word};
use super::*;
use quire_seeded::assert_each_is_found;
use quire_sync::checker::{model::Builder, thread};
use std::sync::Arc;

/// One frame and two pages that take turns in it. A reader finds of each what was put there, or
/// nothing.
fn check() {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(|| {
        let shared = Arc::new((
            Frames::new(PAGE_BYTES),
            [FramePlace::default(), FramePlace::default()],
        ));
        assert!(shared.0.put(&shared.1[0], &page(1)));
        let reader = thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                let (frames, [one, other]) = &*shared;
                let found = word(frames, one, 0);
                assert!(
                    found.is_none_or(|found| found == 1 || found == 3),
                    "{found:?}"
                );
                let found = word(frames, other, 0);
                assert!(found.is_none_or(|found| found == 2), "{found:?}");
            }
        });
        let (frames, [one, other]) = &*shared;
        for (old, new, number) in [(one, other, 2), (other, one, 3)] {
            frames.free(old);
            assert!(frames.put(new, &page(number)));
        }
        reader.join().unwrap();
    });
}

#[test]
fn a_reader_sees_the_page_it_wants_or_none() {
    check();
}

#[test]
fn each_seeded_bug_is_found() {
    let [_, of_frames] = Bug::UNDER_LOOM;
    assert_each_is_found(of_frames, check);
}
