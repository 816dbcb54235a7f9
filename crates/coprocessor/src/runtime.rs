//! The runtime: the one file that names wasmi, so that another one can take its place.

use crate::abi::{Answer, Host, Place};
use crate::error::Cause;
use crate::kind::Kind;
use crate::{ABI, Error, Limits, MODULE_BYTES_MAX, Result};
use wasmi::{
    Caller, Config, EnforcedLimits, Engine, ExternType, Instance, Linker, Memory, Store,
    StoreLimits, StoreLimitsBuilder, TrapCode, TypedFunc, ValType,
};

/// What a call of the host costs, beside a unit for each byte that it works through.
const HOST_CALL_FUEL: u64 = 16;

/// Elements of the table of a module, which has one at most. Each has 4 bytes, beside its memory.
const TABLE_ELEMENTS_MAX: usize = 100_000;

/// A module that was checked and compiled.
#[derive(Debug, Clone)]
pub(crate) struct Module {
    module: wasmi::Module,
    kinds: Vec<Kind>,
}

/// What a store holds.
struct Guest {
    host: Host,
    limits: StoreLimits,
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

impl wasmi::errors::HostError for Ended {}

impl Module {
    /// Checks and compiles a module, which runs none of it.
    pub(crate) fn new(wasm: &[u8]) -> Result<Module> {
        if wasm.len() > MODULE_BYTES_MAX {
            return Err(Error::TooLong {
                bytes: wasm.len(),
                bytes_max: MODULE_BYTES_MAX,
            });
        }
        let mut config = Config::default();
        config
            .consume_fuel(true)
            .enforced_limits(EnforcedLimits::strict())
            .wasm_multi_memory(false)
            .ignore_custom_sections(true);
        let engine = Engine::new(&config);
        let module = wasmi::Module::new(&engine, wasm);
        let module = module.map_err(|error| Error::NotWasm(error.to_string()))?;
        for import in module.imports() {
            check_import(import.module(), import.name(), import.ty())?;
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
        Ok(Module { module, kinds })
    }

    pub(crate) fn kinds(&self) -> &[Kind] {
        &self.kinds
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
            let mut types = ty.params().iter().chain(ty.results());
            (ty.params().len(), ty.results().len()) == (*params, *results)
                && types.all(|ty| *ty == ValType::I32)
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
fn kinds(module: &wasmi::Module) -> Result<Vec<Kind>> {
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
            let results: &[ValType] = match kind {
                Kind::Filter => &[ValType::I32],
                _ => &[],
            };
            let is_right = match module.get_export(name) {
                Some(ExternType::Func(ty)) => ty.params().is_empty() && ty.results() == results,
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
            limits: StoreLimitsBuilder::new()
                .memory_size(limits.memory_bytes)
                .tables(1)
                .table_elements(TABLE_ELEMENTS_MAX)
                .trap_on_grow_failure(true)
                .build(),
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

#[derive(Clone, Copy)]
enum Function {
    Tells(TypedFunc<(), i32>),
    Acts(TypedFunc<(), ()>),
}

impl Instantiated {
    /// Instantiates a module and runs its start function, if it has one.
    pub(crate) fn new(module: &Module, limits: &Limits) -> std::result::Result<Self, Cause> {
        let module = &module.module;
        let engine = module.engine();
        if let Some(ExternType::Memory(memory)) = module.get_export("memory")
            && memory.minimum().saturating_mul(64 << 10) > limits.memory_bytes as u64
        {
            return Err(Cause::Memory(limits.memory_bytes));
        }
        let linker = Instantiated::linker(engine)?;
        let mut store = Store::new(engine, Guest::new(limits));
        store.limiter(|guest| &mut guest.limits);
        refuel(&mut store, limits)?;
        let instance = linker.instantiate_and_start(&mut store, module);
        let instance = instance.map_err(|error| cause_of(&error, limits))?;
        store.data_mut().memory = instance.get_memory(&store, "memory");
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
        let function = match self.last {
            Some((last, function)) if last == name => function,
            _ => self.function(name)?,
        };
        self.last = Some((name, function));
        let called = match function {
            Function::Tells(function) => function.call(&mut self.store, ()),
            Function::Acts(function) => function.call(&mut self.store, ()).map(|()| 0),
        };
        called.map_err(|error| cause_of(&error, &self.limits))
    }

    fn function(&self, name: &str) -> std::result::Result<Function, Cause> {
        let (instance, store) = (&self.instance, &self.store);
        let tells = instance.get_typed_func::<(), i32>(store, name);
        let function = tells.map(Function::Tells).or_else(|_| {
            let acts = instance.get_typed_func::<(), ()>(store, name);
            acts.map(Function::Acts)
        });
        function.map_err(|_| Cause::Abi(format!("the module does not export {name}")))
    }

    /// The functions of the ABI.
    fn linker(engine: &Engine) -> std::result::Result<Linker<Guest>, Cause> {
        let mut linker = Linker::new(engine);
        let defined = define(&mut linker);
        defined.map_err(|error| Cause::Abi(error.to_string()))?;
        Ok(linker)
    }
}

/// The functions that `define` defines, each with its numbers of parameters and results, all i32.
const FUNCTIONS: [(&str, usize, usize); 9] = [
    ("type", 3, 1),
    ("get_i64", 4, 1),
    ("get_f64", 4, 1),
    ("get_string", 5, 1),
    ("get_json", 5, 1),
    ("key", 2, 1),
    ("state", 2, 1),
    ("emit", 2, 0),
    ("fail", 2, 0),
];

type Called = std::result::Result<i32, wasmi::Error>;

fn place(start: i32, bytes: i32) -> Place {
    Place { start, bytes }
}

fn define(linker: &mut Linker<Guest>) -> std::result::Result<(), wasmi::errors::LinkerError> {
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
    linker.func_wrap(ABI, "key", |mut c: C<'_>, out: i32, cap: i32| {
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
        return Err(wasmi::Error::host(Ended(Cause::Abi(what))));
    };
    let (memory, guest) = memory.data_and_store_mut(&mut *caller);
    let answered = answer(&mut guest.host, memory);
    let (value, bytes) = answered.map_err(|cause| wasmi::Error::host(Ended(cause)))?;
    let left = caller.get_fuel()?;
    let left = left.checked_sub(HOST_CALL_FUEL + bytes as u64);
    caller.set_fuel(left.ok_or(TrapCode::OutOfFuel)?)?;
    Ok(value)
}

fn refuel(store: &mut Store<Guest>, limits: &Limits) -> std::result::Result<(), Cause> {
    let fueled = store.set_fuel(limits.fuel);
    fueled.map_err(|error| Cause::Trap(error.to_string()))
}

fn cause_of(error: &wasmi::Error, limits: &Limits) -> Cause {
    if let Some(Ended(cause)) = error.downcast_ref::<Ended>() {
        return cause.clone();
    }
    match error.as_trap_code() {
        Some(TrapCode::OutOfFuel) => Cause::Fuel(limits.fuel),
        Some(TrapCode::GrowthOperationLimited) => Cause::Memory(limits.memory_bytes),
        _ => Cause::Trap(error.to_string()),
    }
}
