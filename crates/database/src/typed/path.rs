//! The path of a field, kept on the stack while a value is read or written, for errors.

use crate::Error;
use std::fmt;

/// One step of a path, and the steps before it.
#[derive(Debug, Clone, Copy)]
pub(super) enum FieldPath<'p> {
    Root,
    Field(&'p FieldPath<'p>, &'p str),
    Index(&'p FieldPath<'p>, usize),
}

impl fmt::Display for FieldPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FieldPath::Root => Ok(()),
            FieldPath::Field(FieldPath::Root, name) => f.write_str(name),
            FieldPath::Field(before, name) => write!(f, "{before}.{name}"),
            FieldPath::Index(before, index) => write!(f, "{before}[{index}]"),
        }
    }
}

/// What is wrong with a value, and at which field if that is known yet.
#[derive(Debug)]
pub(super) struct Wrong {
    what: String,
    path: Option<String>,
}

impl Wrong {
    /// The same, at `path` unless a deeper one is known.
    pub(super) fn at(mut self, path: &FieldPath<'_>) -> Wrong {
        self.path.get_or_insert_with(|| path.to_string());
        self
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Wrong {}

impl serde::ser::Error for Wrong {
    fn custom<T: fmt::Display>(what: T) -> Wrong {
        Wrong {
            what: what.to_string(),
            path: None,
        }
    }
}

impl serde::de::Error for Wrong {
    fn custom<T: fmt::Display>(what: T) -> Wrong {
        <Wrong as serde::ser::Error>::custom(what)
    }
}

impl From<Wrong> for Error {
    fn from(wrong: Wrong) -> Error {
        Error::Typed {
            path: wrong.path.unwrap_or_default(),
            what: wrong.what,
        }
    }
}
