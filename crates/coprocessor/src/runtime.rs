//! The runtime: the one file that names wasmtime, so that another one can take its place.
//!
//! A module is compiled to machine code. What it reads and writes is checked by that code, not by
//! signals of the operating system: a process that embeds Quire keeps its own handlers, and a
//! memory takes no more addresses than it may have bytes.

use crate::abi::{Answer, Host, Place};
use crate::error::Cause;
use crate::kind::Kind;
use crate::metered::metered;
use crate::{ABI, Error, Limits, MODULE_BYTES_MAX, Result};
use std::sync::OnceLock;
use wasmtime::{
    Caller, Config, Engine, ExternType, Instance, InstancePre, Linker, Memory, OptLevel,
    ResourceLimiter, Store, Trap, TypedFunc, ValType,
};

/// What a call of the host costs, beside a unit for each byte that it works through.
const HOST_CALL_FUEL: u64 = 16;

/// Elements of the table of a module, which has one at most. Each has 8 bytes, beside its memory.
const TABLE_ELEMENTS_MAX: usize = 100_000;

/// Bytes of the stack of a call.
const STACK_BYTES: usize = 256 << 10;

/// A module that was checked and compiled.
#[derive(Clone)]
pub(crate) struct Module {
    linked: InstancePre<Guest>,
    kinds: Vec<Kind>,
    reads_key: bool,
}

/// What a store holds.
struct Guest {
    host: Host,
    memory_bytes: usize,
    /// `None` until the module is instantiated.
    memory: Option<Memory>,
}

/// Why the host ended a call.
#[derive(Debug)]
struct Ended(Cause);

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Ended {}

/// What all modules share.
struct Shared {
    engine: Engine,
    linker: Linker<Guest>,
}

impl Shared {
    fn get() -> Result<&'static Shared> {
        static SHARED: OnceLock<std::result::Result<Shared, String>> = OnceLock::new();
        let shared = SHARED.get_or_init(|| Shared::new().map_err(|error| told(&error)));
        shared.as_ref().map_err(|what| {
            Error::NotWasm(format!(
                "WebAssembly can't be compiled on this machine: {what}"
            ))
        })
    }

    fn new() -> wasmtime::Result<Shared> {
        let mut config = Config::new();
        config
            .consume_fuel(true)
            // Optimising a long function takes minutes.
            .cranelift_opt_level(OptLevel::None)
            .max_wasm_stack(STACK_BYTES)
            .signals_based_traps(false)
            .memory_reservation(0)
            .memory_guard_size(0)
            .memory_reservation_for_growth(0)
            .memory_init_cow(false)
            .wasm_backtrace(false)
            // A trigger gives the same bytes everywhere.
            .cranelift_nan_canonicalization(true)
            .wasm_relaxed_simd(false)
            .wasm_multi_memory(false)
            .wasm_memory64(false);
        let engine = Engine::new(&config)?;
        let mut linker = Linker::new(&engine);
        define(&mut linker)?;
        Ok(Shared { engine, linker })
    }
}

impl ResourceLimiter for Guest {
    fn memory_growing(
        &mut self,
        _: usize,
        desired: usize,
        _: Option<usize>,
    ) -> wasmtime::Result<bool> {
        match desired <= self.memory_bytes {
            true => Ok(true),
            false => Err(Ended(Cause::Memory(self.memory_bytes)).into()),
        }
    }

    fn table_growing(
        &mut self,
        _: usize,
        desired: usize,
        _: Option<usize>,
    ) -> wasmtime::Result<bool> {
        match desired <= TABLE_ELEMENTS_MAX {
            true => Ok(true),
            false => {
                let what = format!("a table has {TABLE_ELEMENTS_MAX} elements at most");
                Err(Ended(Cause::Trap(what)).into())
            }
        }
    }

    fn instances(&self) -> usize {
        1
    }

    fn tables(&self) -> usize {
        1
    }

    fn memories(&self) -> usize {
        1
    }
}

impl std::fmt::Debug for Module {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Module")
            .field("kinds", &self.kinds)
            .finish_non_exhaustive()
    }
}

impl Module {
    /// Checks and compiles a module, which runs none of it.
    pub(crate) fn new(wasm: &[u8]) -> Result<Module> {
        if wasm.len() > MODULE_BYTES_MAX {
            return Err(Error::TooLong {
                bytes: wasm.len(),
                bytes_max: MODULE_BYTES_MAX,
            });
        }
        let not_wasm = |error: &wasmtime::Error| Error::NotWasm(told(error));
        let shared = Shared::get()?;
        let module = wasmtime::Module::from_binary(&shared.engine, &metered(wasm)?);
        let module = module.map_err(|error| not_wasm(&error))?;
        for import in module.imports() {
            check_import(import.module(), import.name(), &import.ty())?;
        }
        if !matches!(module.get_export("memory"), Some(ExternType::Memory(_))) {
            let what = "does not export its memory as \"memory\"".to_string();
            return Err(Error::Export { what });
        }
        let kinds = kinds(&module)?;
        if kinds.is_empty() {
            let what = "exports no function of a coprocessor, as quire_1_filter is one".to_string();
            return Err(Error::Export { what });
        }
        let linked = shared.linker.instantiate_pre(&module);
        let reads_key = module.imports().any(|import| import.name() == KEY);
        Ok(Module {
            reads_key,
            linked: linked.map_err(|error| not_wasm(&error))?,
            kinds,
        })
    }

    pub(crate) fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    /// Whether it may read the key of a row.
    pub(crate) fn reads_key(&self) -> bool {
        self.reads_key
    }
}

/// Refuses an import that is none of the ABI.
fn check_import(module: &str, name: &str, ty: &ExternType) -> Result<()> {
    let mut functions = FUNCTIONS.iter().filter(|_| module == ABI);
    let Some((_, params, results)) = functions.find(|function| function.0 == name) else {
        return Err(Error::Import {
            module: module.to_string(),
            name: name.to_string(),
        });
    };
    let is_right = match ty {
        ExternType::Func(ty) => {
            let mut types = ty.params().chain(ty.results());
            (ty.params().len(), ty.results().len()) == (*params, *results)
                && types.all(|ty| matches!(ty, ValType::I32))
        }
        _ => false,
    };
    match is_right {
        true => Ok(()),
        false => Err(Error::Export {
            what: format!("imports {ABI}.{name} with other parameters than it has"),
        }),
    }
}

/// The kinds whose functions a module exports.
fn kinds(module: &wasmtime::Module) -> Result<Vec<Kind>> {
    let mut kinds = Vec::new();
    for kind in Kind::ALL {
        let has = |name: &&&str| module.get_export(name).is_some();
        let functions = kind.functions();
        match functions.iter().filter(has).count() {
            0 => continue,
            some if some < functions.len() => {
                return Err(Error::Export {
                    what: format!("exports some of {}, and not all", functions.join(", ")),
                });
            }
            _ => kinds.push(kind),
        }
        for name in functions {
            let is_right = match module.get_export(name) {
                Some(ExternType::Func(ty)) => {
                    let results = usize::from(kind == Kind::Filter);
                    (ty.params().len(), ty.results().len()) == (0, results)
                        && ty.results().all(|ty| matches!(ty, ValType::I32))
                }
                _ => false,
            };
            if !is_right {
                let wanted = match kind {
                    Kind::Filter => "() -> i32",
                    _ => "()",
                };
                return Err(Error::Export {
                    what: format!("exports {name} as something else than a function {wanted}"),
                });
            }
        }
    }
    Ok(kinds)
}

impl Guest {
    fn new(limits: &Limits) -> Guest {
        Guest {
            host: Host::new(limits.output_bytes),
            memory_bytes: limits.memory_bytes,
            memory: None,
        }
    }
}

/// A module with a memory of its own.
pub(crate) struct Instantiated {
    store: Store<Guest>,
    instance: Instance,
    limits: Limits,
    /// The function that was called last.
    last: Option<(&'static str, Function)>,
}

enum Function {
    Tells(TypedFunc<(), i32>),
    Acts(TypedFunc<(), ()>),
}

impl Instantiated {
    /// Instantiates a module and runs its start function, if it has one.
    pub(crate) fn new(module: &Module, limits: &Limits) -> std::result::Result<Self, Cause> {
        let mut store = Store::new(module.linked.module().engine(), Guest::new(limits));
        store.limiter(|guest| guest);
        refuel(&mut store, limits)?;
        let instance = module.linked.instantiate(&mut store);
        let instance = instance.map_err(|error| cause_of(&error, limits))?;
        store.data_mut().memory = instance.get_memory(&mut store, "memory");
        Ok(Instantiated {
            store,
            instance,
            limits: *limits,
            last: None,
        })
    }

    /// What the next call is about.
    pub(crate) fn host(&mut self) -> &mut Host {
        &mut self.store.data_mut().host
    }

    /// Calls an exported function; one that returns nothing gives 0.
    pub(crate) fn call(&mut self, name: &'static str) -> std::result::Result<i32, Cause> {
        self.host().begin();
        refuel(&mut self.store, &self.limits)?;
        let (_, function) = match self.last.take() {
            Some(last) if last.0 == name => self.last.insert(last),
            _ => {
                let function = self.function(name)?;
                self.last.insert((name, function))
            }
        };
        let called = match function {
            Function::Tells(function) => function.call(&mut self.store, ()),
            Function::Acts(function) => function.call(&mut self.store, ()).map(|()| 0),
        };
        called.map_err(|error| cause_of(&error, &self.limits))
    }

    fn function(&mut self, name: &str) -> std::result::Result<Function, Cause> {
        let (instance, store) = (&self.instance, &mut self.store);
        let tells = instance.get_typed_func::<(), i32>(&mut *store, name);
        let function = tells.map(Function::Tells).or_else(|_| {
            let acts = instance.get_typed_func::<(), ()>(store, name);
            acts.map(Function::Acts)
        });
        function.map_err(|_| Cause::Abi(format!("the module does not export {name}")))
    }
}

/// The function that gives the key of a row.
const KEY: &str = "key";

/// The functions that `define` defines, each with its numbers of parameters and results, all i32.
const FUNCTIONS: [(&str, usize, usize); 9] = [
    ("type", 3, 1),
    ("get_i64", 4, 1),
    ("get_f64", 4, 1),
    ("get_string", 5, 1),
    ("get_json", 5, 1),
    (KEY, 2, 1),
    ("state", 2, 1),
    ("emit", 2, 0),
    ("fail", 2, 0),
];

type Called = wasmtime::Result<i32>;

fn place(start: i32, bytes: i32) -> Place {
    Place { start, bytes }
}

/// Defines the functions of the ABI.
fn define(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    type C<'a> = Caller<'a, Guest>;
    linker.func_wrap(ABI, "type", |mut c: C<'_>, s: i32, p: i32, n: i32| {
        serve(&mut c, |host, memory| host.type_of(memory, s, place(p, n)))
    })?;
    let get_i64 = |mut c: C<'_>, s: i32, p: i32, n: i32, out: i32| {
        serve(&mut c, |host, memory| {
            host.get_i64(memory, s, place(p, n), out)
        })
    };
    linker.func_wrap(ABI, "get_i64", get_i64)?;
    let get_f64 = |mut c: C<'_>, s: i32, p: i32, n: i32, out: i32| {
        serve(&mut c, |host, memory| {
            host.get_f64(memory, s, place(p, n), out)
        })
    };
    linker.func_wrap(ABI, "get_f64", get_f64)?;
    let get_string = |mut c: C<'_>, s: i32, p: i32, n: i32, out: i32, cap: i32| {
        serve(&mut c, |host, memory| {
            host.get_string(memory, s, place(p, n), place(out, cap))
        })
    };
    linker.func_wrap(ABI, "get_string", get_string)?;
    let get_json = |mut c: C<'_>, s: i32, p: i32, n: i32, out: i32, cap: i32| {
        serve(&mut c, |host, memory| {
            host.get_json(memory, s, place(p, n), place(out, cap))
        })
    };
    linker.func_wrap(ABI, "get_json", get_json)?;
    linker.func_wrap(ABI, KEY, |mut c: C<'_>, out: i32, cap: i32| {
        serve(&mut c, |host, memory| host.key(memory, place(out, cap)))
    })?;
    linker.func_wrap(ABI, "state", |mut c: C<'_>, out: i32, cap: i32| {
        serve(&mut c, |host, memory| host.state(memory, place(out, cap)))
    })?;
    linker.func_wrap(ABI, "emit", |mut c: C<'_>, from: i32, bytes: i32| {
        serve(&mut c, |host, memory| host.emit(memory, place(from, bytes))).map(|_| ())
    })?;
    linker.func_wrap(ABI, "fail", |mut c: C<'_>, from: i32, bytes: i32| {
        serve(&mut c, |host, memory| host.fail(memory, place(from, bytes))).map(|_| ())
    })?;
    Ok(())
}

/// Answers a call of the module, and takes the fuel for it.
fn serve(
    caller: &mut Caller<'_, Guest>,
    answer: impl FnOnce(&mut Host, &mut [u8]) -> Answer,
) -> Called {
    let Some(memory) = caller.data().memory else {
        let what = "a start function calls the host; do that when a row is there".to_string();
        return Err(Ended(Cause::Abi(what)).into());
    };
    let (memory, guest) = memory.data_and_store_mut(&mut *caller);
    let answered = answer(&mut guest.host, memory);
    let (value, bytes) = answered.map_err(Ended)?;
    let left = caller.get_fuel()?;
    let left = left.checked_sub(HOST_CALL_FUEL + bytes as u64);
    caller.set_fuel(left.ok_or(Trap::OutOfFuel)?)?;
    Ok(value)
}

fn refuel(store: &mut Store<Guest>, limits: &Limits) -> std::result::Result<(), Cause> {
    let fueled = store.set_fuel(limits.fuel);
    fueled.map_err(|error| Cause::Trap(error.to_string()))
}

fn cause_of(error: &wasmtime::Error, limits: &Limits) -> Cause {
    if let Some(Ended(cause)) = error.downcast_ref::<Ended>() {
        return cause.clone();
    }
    match error.downcast_ref::<Trap>() {
        Some(Trap::OutOfFuel) => Cause::Fuel(limits.fuel),
        Some(trap) => Cause::Trap(trap.to_string()),
        None => Cause::Trap(told(error)),
    }
}

/// An error and what it is of, in one line.
fn told(error: &wasmtime::Error) -> String {
    let causes: Vec<String> = error.chain().map(ToString::to_string).collect();
    causes.join(": ")
}
