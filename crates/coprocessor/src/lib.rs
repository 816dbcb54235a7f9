//! User code beside the data: WebAssembly modules and Rust closures, with limits. No I/O.
//!
//! [`Code`] is a module that was checked, or a closure. [`Code::start`] gives a [`Run`], which is
//! called with one row after the other. A module has no imports but those of [`ABI`], so it has no
//! files, no sockets, no clock and no randomness: the same calls give the same answers.
//!
//! # Invariants
//! 1. A call of a module ends: each instruction costs fuel, and so do the bytes that a bulk
//!    instruction or the host works through for it. A call has [`Limits::fuel`] of it.
//! 2. A module's memory, and what a call emits, stay within [`Limits`].
//! 3. No module and no argument of it panics the host, or reads memory of the host.
//!
//! # ABI `quire_1`
//! A module exports its linear memory as `memory`, and the functions of its kinds:
//! ```text
//! quire_1_filter() -> i32     0: leave the row out, 1: keep it
//! quire_1_map()               emits 0 or more documents for the row
//! quire_1_fold()              takes a row into its state; a run of each partition of its own
//! quire_1_partial()           emits its state, as bytes of its own choice
//! quire_1_merge()             takes the state of another run, which it reads with `state`
//! quire_1_finish()            emits one document, the result
//! quire_1_trigger()           emits a JSON merge patch of the document as it is to be, or nothing
//! ```
//! It reads and emits through functions of the import module `quire_1`. Pointers and lengths are
//! bytes of its memory; a path is the name of a field, or names with dots between them; an empty
//! one is the whole document. `source` is 0 for the row (of a trigger: the document as it is to
//! be, absent if it is removed), 1 for the document before the change, 2 for the argument of the
//! run, 3 for the write that a trigger sees: `time`, in microseconds since 1970 UTC.
//! ```text
//! type(source, path, path_len) -> i32                0 absent, 1 null, 2 false, 3 true,
//!                                                    4 integer, 5 other number, 6 string,
//!                                                    7 array, 8 object
//! get_i64(source, path, path_len, out) -> i32        1 and 8 bytes at `out`, or 0: no integer
//! get_f64(source, path, path_len, out) -> i32        1 and 8 bytes at `out`, or 0: no number
//! get_string(source, path, path_len, out, cap) -> i32  its length, or -1: no string
//! get_json(source, path, path_len, out, cap) -> i32  the length of the JSON text, or -1: absent
//! key(out, cap) -> i32                               the length of the key's text
//! state(out, cap) -> i32                             the length of the state to merge
//! emit(ptr, len)                                     adds to what the call gives
//! fail(ptr, len)                                     ends the call with this message
//! ```
//! Numbers are little-endian. A text that is longer than `cap` bytes is not written at all: call
//! again with as much room as it takes.

mod abi;
mod change;
mod code;
mod compiled;
mod error;
mod kind;
mod limits;
mod metered;
mod row;
mod run;
mod runtime;
#[cfg(test)]
mod tests;
mod trigger;

pub use change::Change;
pub use code::{Code, Emit, Fold};
pub use error::{Cause, Error, ErrorKind, Result};
pub use kind::Kind;
pub use limits::{Limits, MODULE_BYTES_MAX};
pub use row::Row;
pub use run::Run;
pub use trigger::{Trigger, TriggerOptions};

/// The name of the ABI, which is that of the module that a WebAssembly module imports.
pub const ABI: &str = "quire_1";
