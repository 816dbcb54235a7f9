//! Every fuzz target, for `FUZZ_SECONDS` each, two at a time. A word on the command line selects
//! the targets whose names contain it.
//!
//! | variable | meaning |
//! | --- | --- |
//! | `FUZZ_SECONDS` | seconds for each target; 3 if not set |
//! | `FUZZ_SEED` | decides the mutations; always the same if not set |
//! | `FUZZ_KEEP` | if set, inputs that go a new way are added to `fuzz/corpus` |

#![allow(
    unsafe_code,
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "an allocator that counts is an unsafe trait; tests call the machine directly"
)]

use quire_seeded::{Bug, seed_bug};
use quire_tests::fuzz::run::{Settings, fuzz, keep_panics};
use quire_tests::fuzz::{TARGETS, Target};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// Targets that run at a time.
const THREADS: usize = 2;

/// The allocator of the system, with a count of the bytes that each thread holds.
struct Counting;

thread_local! {
    /// Bytes allocated and not freed by this thread; below 0 if it freed bytes of other threads.
    static HELD: Cell<isize> = const { Cell::new(0) };
    /// The highest value of `HELD` since the last call of `peak_bytes`, and its value at that call.
    static PEAK: Cell<(isize, isize)> = const { Cell::new((0, 0)) };
}

fn count(bytes: isize) {
    // The counters of an ending thread may be gone.
    let _ = HELD.try_with(|held| {
        held.set(held.get() + bytes);
        let _ = PEAK.try_with(|peak| {
            let (most, before) = peak.get();
            peak.set((most.max(held.get()), before));
        });
    });
}

/// The most bytes held on this thread since the last call, beyond those held at that call.
fn peak_bytes() -> usize {
    let (most, before) = PEAK.get();
    PEAK.set((HELD.get(), HELD.get()));
    usize::try_from(most - before).unwrap_or(0)
}

// SAFETY: every call is passed to the allocator of the system unchanged, and so is its result;
// counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        // SAFETY: the promises of the caller are those that the allocator of the system requires.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-layout.size().cast_signed());
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size.cast_signed() - layout.size().cast_signed());
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn variable<T: FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok()?.parse().ok()
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--list") {
        return ExitCode::SUCCESS;
    }
    let mut words = arguments.iter().filter(|word| !word.starts_with('-'));
    let word = words.next().map_or("", String::as_str);
    let targets: Vec<&Target> = TARGETS
        .iter()
        .filter(|target| target.name.contains(word))
        .collect();
    let settings = Settings {
        time: Duration::from_secs(variable("FUZZ_SECONDS").unwrap_or(3)),
        seed: variable("FUZZ_SEED").unwrap_or(2_026),
        keep: std::env::var_os("FUZZ_KEEP").is_some(),
        seed_bugs: || {
            let bugs = [
                Bug::LogChecksumUnchecked,
                Bug::TableChecksumUnchecked,
                Bug::ManifestChecksumUnchecked,
                Bug::FrozenChecksumUnchecked,
            ];
            Box::new(bugs.map(seed_bug))
        },
        peak_bytes,
    };
    keep_panics();
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while let Some(target) = targets.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let report = fuzz(target, &settings);
                    let (name, executions) = (target.name, report.executions);
                    println!("fuzz {name}: {executions} inputs, {} ways", report.ways);
                    if let Some(failure) = report.failure {
                        println!("fuzz {name} FAILED: {failure}");
                        failed.store(true, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    match failed.into_inner() {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    }
}
