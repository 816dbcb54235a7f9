//! [`Violation`]: how a document contradicts a mapping.

use std::fmt;

/// How a document contradicts the mapping of its collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Violation {
    /// A field that a strict mapping does not name.
    Unnamed {
        /// Its name.
        name: String,
        /// The object that it is in; empty for the document itself.
        within: String,
    },
    /// A value where an object should be.
    NoObject {
        /// The path of the field.
        path: String,
    },
    /// A value that is none of the field's type.
    WrongType {
        /// The path of the field.
        path: String,
        /// The name of its type.
        kind: &'static str,
        /// The document's key.
        key: String,
        /// The beginning of the value.
        preview: String,
        /// What is wrong with the value.
        why: String,
    },
}

impl Violation {
    /// All that is wrong, as one line.
    pub fn in_full(&self) -> String {
        match self.cause() {
            Some(why) => format!("{self}: {why}"),
            None => self.to_string(),
        }
    }

    /// What is wrong with the value, beside what is displayed.
    pub fn cause(&self) -> Option<&str> {
        match self {
            Violation::WrongType { why, .. } => Some(why),
            Violation::Unnamed { .. } | Violation::NoObject { .. } => None,
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Violation::Unnamed { name, within } => {
                let within = match within.as_str() {
                    "" => "_doc",
                    within => within,
                };
                write!(
                    f,
                    "mapping set to strict, dynamic introduction of [{name}] within [{within}] is \
                     not allowed"
                )
            }
            Violation::NoObject { path } => write!(
                f,
                "object mapping for [{path}] tried to parse field [{path}] as object, but found a \
                 concrete value"
            ),
            Violation::WrongType {
                path,
                kind,
                key,
                preview,
                ..
            } => write!(
                f,
                "failed to parse field [{path}] of type [{kind}] in document with id '{key}'. \
                 Preview of field's value: '{preview}'"
            ),
        }
    }
}
