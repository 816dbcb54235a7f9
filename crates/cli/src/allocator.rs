//! The allocator of the process: mimalloc for what is small, the system's for what is large.
//!
//! mimalloc keeps freed memory for a while, and gives it back only when a thread allocates again.
//! For buffers of large documents that is up to all that ever was in use. The system's allocator
//! maps a large buffer for itself alone: it is resident while it is in use, and no longer. Such a
//! buffer also grows without a copy.

#![allow(
    unsafe_code,
    reason = "an allocator has no safe interface; after four documents of 15 MiB, written one \
              after another, 84 to 93 MiB stayed resident, and now 31"
)]

use mimalloc::MiMalloc;
use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::{c_int, c_long};

/// The size from which a buffer is mapped for itself alone, where the system's allocator does so.
/// With 1 MiB, threads that had handled documents of 400 kB kept their memory.
/// Each such buffer costs two calls into the system, and a page fault for each of its pages.
const LARGE_BYTES: usize = match cfg!(all(target_os = "linux", target_env = "gnu")) {
    true => 128 << 10,
    false => usize::MAX,
};

pub(crate) struct Allocator;

fn is_large(bytes: usize) -> bool {
    bytes >= LARGE_BYTES
}

// SAFETY: each block comes from one of two allocators that keep the contract. Which one depends on
// the size alone, and the caller gives the size of a block with the block.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract, which is the same.
        unsafe {
            match is_large(layout.size()) {
                true => System.alloc(layout),
                false => MiMalloc.alloc(layout),
            }
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as of `alloc`.
        unsafe {
            match is_large(layout.size()) {
                true => System.alloc_zeroed(layout),
                false => MiMalloc.alloc_zeroed(layout),
            }
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the block has this size, so it is from the same allocator.
        unsafe {
            match is_large(layout.size()) {
                true => System.dealloc(block, layout),
                false => MiMalloc.dealloc(block, layout),
            }
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: as of `dealloc`. A block that changes its allocator is copied as far as both its
        // sizes go, and freed only if that was possible; the caller promises that `bytes` is a
        // size that the alignment allows.
        unsafe {
            match (is_large(layout.size()), is_large(bytes)) {
                (true, true) => System.realloc(block, layout, bytes),
                (false, false) => MiMalloc.realloc(block, layout, bytes),
                _ => {
                    let new = self.alloc(Layout::from_size_align_unchecked(bytes, layout.align()));
                    if !new.is_null() {
                        new.copy_from_nonoverlapping(block, layout.size().min(bytes));
                        self.dealloc(block, layout);
                    }
                    new
                }
            }
        }
    }
}

/// Sets both allocators up: to be called before the process has threads.
pub(crate) fn set_up() {
    return_memory_soon();
    map_what_is_large();
}

/// Has mimalloc return memory 100 ms after it was freed, rather than 1 s: what threads free as they
/// end would otherwise stay until more is allocated. After 10 ms, a bulk load got from the system
/// anew what it had just returned, and took a tenth more CPU. The variable `MIMALLOC_PURGE_DELAY`
/// takes precedence.
fn return_memory_soon() {
    /// `mi_option_purge_delay` of `mimalloc.h`, the same in its versions 2 and 3.
    const PURGE_DELAY: c_int = 15;
    const MILLISECONDS: c_long = 100;
    unsafe extern "C" {
        fn mi_option_set_default(option: c_int, value: c_long);
    }
    // SAFETY: it is linked in with the allocator, with this signature. It sets a number in a table,
    // checks the bounds, and no other thread runs yet.
    unsafe { mi_option_set_default(PURGE_DELAY, MILLISECONDS) };
}

/// Has the system's allocator map all that is large. It would otherwise raise the bound to the size
/// of the largest block ever freed, and keep what is below.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn map_what_is_large() {
    /// `M_MMAP_THRESHOLD` of `malloc.h`.
    const MMAP_THRESHOLD: c_int = -3;
    unsafe extern "C" {
        fn mallopt(option: c_int, value: c_int) -> c_int;
    }
    // SAFETY: it is a function of the C library, with this signature, and no other thread runs yet.
    unsafe { mallopt(MMAP_THRESHOLD, LARGE_BYTES as c_int) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn map_what_is_large() {}
