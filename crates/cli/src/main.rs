//! The `quire` command: see the library for what it does.

mod allocator;

use std::process::ExitCode;

/// Returns memory to the system sooner and scales better over threads than the system's allocator.
#[global_allocator]
static ALLOCATOR: allocator::Allocator = allocator::Allocator;

fn main() -> ExitCode {
    allocator::set_up();
    quire_cli::main()
}
