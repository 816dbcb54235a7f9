//! A trigger in Rust: when a write changes the title of a page, it sets `changed` to the time of
//! the write and counts the change in `changes`. A title that is no string is refused.
//!
//! ```text
//! rustup target add wasm32-unknown-unknown
//! rustc --edition 2024 --target wasm32-unknown-unknown --crate-type cdylib -O -C strip=symbols \
//!     -o stamp.wasm stamp.rs
//! ```
#![no_std]

#[link(wasm_import_module = "quire_1")]
unsafe extern "C" {
    #[link_name = "type"]
    fn type_of(source: i32, path: *const u8, path_len: usize) -> i32;
    fn get_i64(source: i32, path: *const u8, path_len: usize, out: *mut i64) -> i32;
    fn get_string(
        source: i32,
        path: *const u8,
        path_len: usize,
        out: *mut u8,
        cap: usize,
    ) -> i32;
    fn emit(from: *const u8, bytes: usize);
    fn fail(from: *const u8, bytes: usize);
}

const AFTER: i32 = 0;
const BEFORE: i32 = 1;
const WRITE: i32 = 3;

const ABSENT: i32 = 0;
const STRING: i32 = 6;

/// The integer at `path`; 0 if there is none.
fn number(source: i32, path: &str) -> i64 {
    let mut value = 0;
    // SAFETY: the host reads the path and writes 8 bytes, within the memory of this module.
    unsafe { get_i64(source, path.as_ptr(), path.len(), &mut value) };
    value
}

/// What the host says of the title's type.
fn title_type(source: i32) -> i32 {
    // SAFETY: the host reads the path.
    unsafe { type_of(source, "title".as_ptr(), 5) }
}

/// The title, if it is a string of at most 1,000 bytes.
fn title(source: i32, room: &mut [u8; 1000]) -> Option<&[u8]> {
    // SAFETY: the host reads the path and writes the string if there is room for it.
    let bytes =
        unsafe { get_string(source, "title".as_ptr(), 5, room.as_mut_ptr(), room.len()) };
    room.get(..usize::try_from(bytes).ok()?)
}

/// Text that is made piece by piece.
struct Text {
    bytes: [u8; 100],
    length: usize,
}

impl Text {
    fn push(&mut self, piece: &[u8]) {
        let end = self.length + piece.len();
        self.bytes[self.length..end].copy_from_slice(piece);
        self.length = end;
    }

    fn push_number(&mut self, mut number: u64) {
        let mut digits = [0; 20];
        let mut first = digits.len();
        loop {
            first -= 1;
            digits[first] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                break;
            }
        }
        self.push(&digits[first..]);
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn quire_1_trigger() {
    let wrong = "the title is no string";
    if !matches!(title_type(AFTER), ABSENT | STRING) {
        // SAFETY: the host reads the message.
        return unsafe { fail(wrong.as_ptr(), wrong.len()) };
    }
    let (mut before, mut after) = ([0; 1000], [0; 1000]);
    // A row that is removed has no title either.
    let Some(new) = title(AFTER, &mut after) else {
        return;
    };
    if title(BEFORE, &mut before) == Some(new) {
        return;
    }
    let mut patch = Text {
        bytes: [0; 100],
        length: 0,
    };
    patch.push(b"{\"changed\":");
    patch.push_number(number(WRITE, "time").unsigned_abs());
    patch.push(b",\"changes\":");
    patch.push_number(number(BEFORE, "changes").unsigned_abs() + 1);
    patch.push(b"}");
    // SAFETY: the host reads the patch.
    unsafe { emit(patch.bytes.as_ptr(), patch.length) };
}

#[panic_handler]
fn trap(_: &core::panic::PanicInfo<'_>) -> ! {
    core::arch::wasm32::unreachable()
}
