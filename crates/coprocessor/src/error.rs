//! What can be wrong with code, and with a call of it.

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// What a caller can act on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The module, or a use of it can't be taken.
    Invalid,
    /// A call failed by the code, or went over a limit.
    Failed,
}

/// An error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The module is too long.
    #[error("the module has {bytes} bytes, and may have {bytes_max}; build it for size")]
    TooLong {
        /// Its length.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// The bytes are no module that can run here.
    #[error("no WebAssembly module that can be used: {0}")]
    NotWasm(String),
    /// It imports something that there is not.
    #[error(
        "the module imports {module}.{name}, and a coprocessor has only the functions of quire_1; \
         build it without WASI, for wasm32-unknown-unknown"
    )]
    Import {
        /// The module that it names.
        module: String,
        /// What it wants of it.
        name: String,
    },
    /// An export is missing, or of another type.
    #[error("the module {what}; see the page \"Coprocessors\" for what it exports")]
    Export {
        /// What is wrong.
        what: String,
    },
    /// The code is not of the kind that it is to be used as.
    #[error("coprocessor {code} is no {wanted}: it is {kinds}")]
    WrongKind {
        /// Its name and version.
        code: String,
        /// What it is to be.
        wanted: &'static str,
        /// What it is.
        kinds: String,
    },
    /// A call failed.
    #[error("coprocessor {code}, {call}{}: {cause}", of_row(.row))]
    Call {
        /// Its name and version.
        code: String,
        /// The function.
        call: &'static str,
        /// The key of the row, if the call was about one.
        row: Option<String>,
        /// Why.
        cause: Cause,
    },
}

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Cause {
    /// The code did what WebAssembly forbids.
    #[error("trap: {0}")]
    Trap(String),
    /// The call took too long.
    #[error("it used its {0} units of fuel; make it shorter, or raise the limit of fuel")]
    Fuel(u64),
    /// It wanted more memory than it may have.
    #[error("it wanted more than its {0} bytes of memory; raise the limit of memory")]
    Memory(usize),
    /// It emitted more than it may.
    #[error("it emitted more than {0} bytes; emit less, or raise the limit of output")]
    Output(usize),
    /// It gave the host something that makes no sense.
    #[error("{0}")]
    Abi(String),
    /// The code itself said so.
    #[error("it failed: {0}")]
    Failed(String),
}

impl Error {
    /// What a caller can act on.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Call { .. } => ErrorKind::Failed,
            _ => ErrorKind::Invalid,
        }
    }
}

fn of_row(row: &Option<String>) -> String {
    match row {
        Some(key) => format!(" of row {key:?}"),
        None => String::new(),
    }
}
