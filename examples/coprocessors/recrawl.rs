//! A coprocessor in Rust, which picks the pages that are due: those with `fetched + period <= now`.
//! `now` is in the argument of the run.
//!
//! ```text
//! rustup target add wasm32-unknown-unknown
//! rustc --edition 2024 --target wasm32-unknown-unknown --crate-type cdylib -O -C strip=symbols \
//!     -o recrawl.wasm recrawl.rs
//! ```
#![no_std]

#[link(wasm_import_module = "quire_1")]
unsafe extern "C" {
    fn get_i64(source: i32, path: *const u8, path_len: usize, out: *mut i64) -> i32;
}

const ROW: i32 = 0;
const ARGUMENT: i32 = 2;

/// The integer at `path`; 0 if there is none.
fn number(source: i32, path: &str) -> i64 {
    let mut value = 0;
    // SAFETY: the host reads the path and writes 8 bytes, within the memory of this module.
    unsafe { get_i64(source, path.as_ptr(), path.len(), &mut value) };
    value
}

#[unsafe(no_mangle)]
pub extern "C" fn quire_1_filter() -> i32 {
    let due = number(ROW, "fetched").saturating_add(number(ROW, "period"));
    i32::from(due <= number(ARGUMENT, "now"))
}

#[panic_handler]
fn trap(_: &core::panic::PanicInfo<'_>) -> ! {
    core::arch::wasm32::unreachable()
}
