//! Frames on real threads.

use super::*;
use std::sync::atomic::{AtomicBool, AtomicU32};

/// The first word of a line, if the page was there all the while; every word of a page is the same
/// here.
pub(super) fn word(frames: &Frames, place: &FramePlace, line: usize) -> Option<u64> {
    let held = place.held()?;
    let line = frames.line(held, line)?;
    let words: Vec<_> = line
        .iter()
        .map(|word| word.load(Ordering::Relaxed))
        .collect();
    place.is_still(held).then(|| {
        assert!(words.iter().all(|word| *word == words[0]), "{words:?}");
        words[0]
    })
}

pub(super) fn page(of: u64) -> Vec<u8> {
    of.to_le_bytes().repeat(PAGE_WORDS)
}

#[test]
fn a_page_is_found_until_it_is_freed_and_no_more_than_there_is_room_for() {
    let frames = Frames::new(2 * PAGE_BYTES + 7);
    let places: [FramePlace; 3] = Default::default();
    assert_eq!(word(&frames, &places[0], 0), None);
    assert!(frames.put(&places[0], &page(1)) && frames.put(&places[1], &page(2)));
    assert!(!frames.put(&places[2], &page(3)));
    assert_eq!(frames.used_bytes(), 2 * PAGE_BYTES);
    assert_eq!(word(&frames, &places[1], PAGE_LINES - 1), Some(2));
    let held = places[0].held().unwrap();
    frames.free(&places[0]);
    frames.free(&places[0]);
    assert!(frames.put(&places[2], &page(3)) && !places[0].is_still(held));
    assert_eq!(word(&frames, &places[2], 0), Some(3));
    // The same page in the same frame again is another load.
    let held = places[2].held().unwrap();
    frames.free(&places[2]);
    assert!(frames.put(&places[2], &page(3)) && !places[2].is_still(held));
}

#[test]
fn a_reader_while_frames_are_used_anew_sees_one_page_or_none() {
    let frames = Frames::new(2 * PAGE_BYTES);
    let places: [FramePlace; 8] = Default::default();
    let (stop, readers) = (AtomicBool::new(false), AtomicU32::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut round = 0u64;
            // Both readers have seen a page by then, also on a machine that is busy.
            while round < 40_000 || readers.load(Ordering::Relaxed) < 2 {
                let place = &places[round as usize % 8];
                frames.free(&places[(round as usize + 6) % 8]);
                assert!(frames.put(place, &page(round)));
                round += 1;
            }
            stop.store(true, Ordering::Relaxed);
        });
        for _ in 0..2 {
            scope.spawn(|| {
                let mut seen = 0;
                while !stop.load(Ordering::Relaxed) {
                    for (number, place) in places.iter().enumerate() {
                        if let Some(round) = word(&frames, place, number) {
                            assert_eq!(round as usize % 8, number);
                            if seen == 0 {
                                readers.fetch_add(1, Ordering::Relaxed);
                            }
                            seen += 1;
                        }
                    }
                }
                assert!(seen > 0);
            });
        }
    });
}
