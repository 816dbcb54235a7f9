//! The `quire` command: see the library for what it does.

use std::process::ExitCode;

/// Returns memory to the system sooner and scales better over threads than the system's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    return_memory_soon();
    quire_cli::main()
}

/// Has the allocator return memory 10 ms after it was freed, rather than 1 s: what threads free as
/// they end would otherwise stay until more is allocated. At once would cost a set of 60 kB as much
/// time again. The variable `MIMALLOC_PURGE_DELAY` takes precedence.
#[allow(
    unsafe_code,
    reason = "mimalloc's options have no safe function; after a thousand clients of memcached \
              became idle, 65 MiB stay resident instead of up to 270"
)]
fn return_memory_soon() {
    use std::ffi::{c_int, c_long};
    /// `mi_option_purge_delay` of `mimalloc.h`, the same in its versions 2 and 3.
    const PURGE_DELAY: c_int = 15;
    const MILLISECONDS: c_long = 10;
    unsafe extern "C" {
        fn mi_option_set_default(option: c_int, value: c_long);
    }
    // SAFETY: it is linked in with the allocator, with this signature. It sets a number in a table,
    // checks the bounds, and no other thread runs yet.
    unsafe { mi_option_set_default(PURGE_DELAY, MILLISECONDS) };
}
