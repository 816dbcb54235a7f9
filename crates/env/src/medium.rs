//! [`Medium`]: the kind of a disk.

use crate::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// The kind of disk of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Medium {
    /// Random reads are cheap.
    Ssd,
    /// Random reads cost a seek.
    Hdd,
}

impl fmt::Display for Medium {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Medium::Ssd => "ssd",
            Medium::Hdd => "hdd",
        })
    }
}

impl FromStr for Medium {
    type Err = Error;

    fn from_str(text: &str) -> Result<Medium> {
        match text {
            "ssd" => Ok(Medium::Ssd),
            "hdd" => Ok(Medium::Hdd),
            _ => {
                let what = format!("{text:?} is no medium; use ssd or hdd");
                Err(Error::invalid_argument(what))
            }
        }
    }
}
