//! The `quire` command: see the library for what it does.

use std::process::ExitCode;

/// Returns memory to the system sooner and scales better over threads than the system's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    quire_cli::main()
}
