//! What a module is made into before it is compiled: bulk instructions cost fuel for each byte.
//!
//! The runtime takes one unit of fuel for an instruction. One `memory.fill` writes megabytes, so
//! ten million of them would run for hours. Before each bulk instruction a loop is added that
//! counts its length down and does nothing else: the instructions of the loop are what is paid.
//! ```text
//! local.tee $left                      the length is on the stack
//! (local.set $left (i32.shr_u (local.get $left) (i32.const SHIFT)))
//! (block (loop
//!   (br_if 1 (i32.eqz (local.get $left)))
//!   (local.set $left (i32.sub (local.get $left) (i32.const 1)))
//!   (br 0)))
//! ```
//! No function, type or import is added, so all indices stay as they are.
//!
//! # Invariants
//! 1. Each bulk instruction is preceded by such a loop, with a local that only these loops use.
//! 2. A module whose compilation would take much time or memory is refused: one with functions that
//!    are very long or very many, or that have many locals and many blocks at once. A compiler in
//!    static single assignment makes up to one value for each local in each block.

use crate::{Error, Result};
use std::borrow::Cow;
use wasm_encoder::{BlockType, CodeSection, Encode, Instruction, RawSection, ValType};
use wasmparser::{BinaryReaderError, CompositeInnerType, FunctionBody, Operator, Parser, Payload};

/// Locals times blocks: of a function, and of all functions together.
const FUNCTION_VALUES_MAX: u64 = 512 << 10;
const VALUES_MAX: u64 = 2 << 20;

/// Longest function, in bytes of code.
const FUNCTION_BYTES_MAX: usize = 128 << 10;

/// Functions of a module.
const FUNCTIONS_MAX: u32 = 10_000;

/// A bulk instruction of memory pays for a loop of seven instructions for two to the power of this
/// number of bytes; one of a table does for as many elements.
const BYTES_SHIFT: i32 = 6;
const ELEMENTS_SHIFT: i32 = 2;

/// The module with loops before its bulk instructions; as it is if it has none.
///
/// # Errors
/// `NotWasm` if its functions can't be read, or if one is too large. What it returns is not
/// validated otherwise.
pub(crate) fn metered(wasm: &[u8]) -> Result<Cow<'_, [u8]>> {
    let mut module = wasm_encoder::Module::new();
    let mut code = CodeSection::new();
    let (mut params_of_types, mut types_of_functions) = (Vec::new(), Vec::new());
    let (mut functions, mut values, mut has_bulk) = (0, 0, false);
    for payload in Parser::new(0).parse_all(wasm) {
        let payload = payload.map_err(unreadable)?;
        match &payload {
            Payload::TypeSection(types) => {
                for group in types.clone() {
                    for ty in group.map_err(unreadable)?.types() {
                        params_of_types.push(match &ty.composite_type.inner {
                            CompositeInnerType::Func(ty) => ty.params().len(),
                            _ => 0,
                        });
                    }
                }
            }
            Payload::FunctionSection(types) => {
                for ty in types.clone() {
                    types_of_functions.push(ty.map_err(unreadable)? as usize);
                }
            }
            Payload::CodeSectionStart { count, .. } => {
                functions = *count;
                if functions > FUNCTIONS_MAX {
                    let what =
                        format!("it has {functions} functions, and may have {FUNCTIONS_MAX}");
                    return Err(Error::NotWasm(what));
                }
                continue;
            }
            Payload::CodeSectionEntry(body) => {
                let ty = types_of_functions.get(code.len() as usize);
                let params = ty.and_then(|ty| params_of_types.get(*ty));
                let added = add_function(&mut code, body, params.copied().unwrap_or(0))?;
                has_bulk |= added.has_bulk;
                values += added.values;
                if values > VALUES_MAX {
                    let what = "its functions have too many locals and blocks; build it for size";
                    return Err(Error::NotWasm(what.into()));
                }
                if code.len() == functions {
                    module.section(&code);
                }
                continue;
            }
            _ => {}
        }
        if let Some((id, range)) = payload.as_section() {
            let data = wasm.get(range).unwrap_or_default();
            module.section(&RawSection { id, data });
        }
    }
    Ok(match has_bulk {
        true => Cow::Owned(module.finish()),
        false => Cow::Borrowed(wasm),
    })
}

/// What a function has.
struct Added {
    has_bulk: bool,
    /// Its locals times its blocks.
    values: u64,
}

/// Adds a function with loops before its bulk instructions.
fn add_function(code: &mut CodeSection, body: &FunctionBody<'_>, params: usize) -> Result<Added> {
    let (bytes, start) = (body.as_bytes(), body.range().start);
    let too_large = |what: String| {
        let number = code.len();
        Error::NotWasm(format!("its function {number} {what}; build it for size"))
    };
    if bytes.len() > FUNCTION_BYTES_MAX {
        let (is, may) = (bytes.len(), FUNCTION_BYTES_MAX);
        return Err(too_large(format!("has {is} bytes, and may have {may}")));
    }
    let mut declared = body.get_locals_reader().map_err(unreadable)?;
    let (groups, groups_at) = (declared.get_count(), declared.original_position());
    let mut locals = params as u64;
    for _ in 0..groups {
        locals += u64::from(declared.read().map_err(unreadable)?.0);
    }
    let mut operators = body.get_operators_reader().map_err(unreadable)?;
    let operators_at = operators.original_position();
    let (mut metered, mut copied) = (Vec::new(), operators_at);
    let mut blocks = 1;
    while !operators.eof() {
        let at = operators.original_position();
        let shift = match operators.read().map_err(unreadable)? {
            Operator::Block { .. } | Operator::Loop { .. } | Operator::If { .. } => {
                blocks += 1;
                continue;
            }
            Operator::MemoryFill { .. }
            | Operator::MemoryCopy { .. }
            | Operator::MemoryInit { .. } => BYTES_SHIFT,
            Operator::TableFill { .. }
            | Operator::TableCopy { .. }
            | Operator::TableInit { .. }
            | Operator::TableGrow { .. } => ELEMENTS_SHIFT,
            _ => continue,
        };
        metered.extend_from_slice(&bytes[copied - start..at - start]);
        copied = at;
        // More locals than 2^32 are refused by the compiler.
        count_down(locals as u32, shift, &mut metered);
    }
    let values = locals.saturating_mul(blocks);
    if values > FUNCTION_VALUES_MAX {
        return Err(too_large(format!(
            "has {locals} locals and {blocks} blocks"
        )));
    }
    let has_bulk = !metered.is_empty();
    if !has_bulk {
        code.raw(bytes);
        return Ok(Added { has_bulk, values });
    }
    let mut with_locals = Vec::with_capacity(bytes.len() + metered.len());
    (groups + 1).encode(&mut with_locals);
    with_locals.extend_from_slice(&bytes[groups_at - start..operators_at - start]);
    1u32.encode(&mut with_locals);
    ValType::I32.encode(&mut with_locals);
    with_locals.extend_from_slice(&metered);
    with_locals.extend_from_slice(&bytes[copied - start..]);
    code.raw(&with_locals);
    Ok(Added { has_bulk, values })
}

/// The loop of the module's description, for the length on the stack.
fn count_down(left: u32, shift: i32, code: &mut Vec<u8>) {
    let instructions = [
        Instruction::LocalTee(left),
        Instruction::LocalGet(left),
        Instruction::I32Const(shift),
        Instruction::I32ShrU,
        Instruction::LocalSet(left),
        Instruction::Block(BlockType::Empty),
        Instruction::Loop(BlockType::Empty),
        Instruction::LocalGet(left),
        Instruction::I32Eqz,
        Instruction::BrIf(1),
        Instruction::LocalGet(left),
        Instruction::I32Const(1),
        Instruction::I32Sub,
        Instruction::LocalSet(left),
        Instruction::Br(0),
        Instruction::End,
        Instruction::End,
    ];
    for instruction in instructions {
        instruction.encode(code);
    }
}

fn unreadable(error: BinaryReaderError) -> Error {
    Error::NotWasm(error.to_string())
}
