//! The pipeline as its users see it.

mod faults;
mod policy;
mod properties;
