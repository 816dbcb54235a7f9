//! Modules that were compiled, so that a request for a few rows does not compile one again.
//!
//! # Invariants
//! 1. A module is found by all of its bytes.
//! 2. There are at most [`MODULES_MAX`], and their WebAssembly has [`BYTES_MAX`] bytes at most; the
//!    one that was used least recently goes first. A module that is run stays as long as the run.

use crate::runtime::Module;
use crate::{MODULE_BYTES_MAX, Result};
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

const MODULES_MAX: usize = 64;
const BYTES_MAX: usize = 4 * MODULE_BYTES_MAX;

/// The last one that was used is at the end.
static MODULES: Mutex<VecDeque<(Box<[u8]>, Module)>> = Mutex::new(VecDeque::new());

/// A module, compiled now or before.
///
/// # Errors
/// Those of [`Module::new`].
pub(crate) fn compiled(wasm: &[u8]) -> Result<Module> {
    if let Some(known) = known(wasm) {
        return Ok(known);
    }
    // Without the lock: it may take seconds.
    let module = Module::new(wasm)?;
    if known(wasm).is_none() {
        keep(wasm.into(), module.clone());
    }
    Ok(module)
}

fn known(wasm: &[u8]) -> Option<Module> {
    let mut modules = MODULES.lock().unwrap_or_else(PoisonError::into_inner);
    let place = modules.iter().position(|(known, _)| **known == *wasm)?;
    let known = modules.remove(place)?;
    let module = known.1.clone();
    modules.push_back(known);
    Some(module)
}

fn keep(wasm: Box<[u8]>, module: Module) {
    let mut modules = MODULES.lock().unwrap_or_else(PoisonError::into_inner);
    modules.push_back((wasm, module));
    let bytes = |modules: &VecDeque<(Box<[u8]>, Module)>| {
        let all = modules.iter().map(|(wasm, _)| wasm.len());
        all.sum::<usize>()
    };
    while modules.len() > MODULES_MAX || bytes(&modules) > BYTES_MAX {
        modules.pop_front();
    }
}
