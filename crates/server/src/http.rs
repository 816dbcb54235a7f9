//! HTTP: a request as handlers see it, its body and parameters, its answer, and its errors.

pub(crate) mod answer;
pub(crate) mod audited;
pub(crate) mod auth;
pub(crate) mod body;
pub(crate) mod buffers;
pub(crate) mod call;
pub(crate) mod endpoint;
pub(crate) mod failure;
pub(crate) mod fields;
pub(crate) mod framing;
pub(crate) mod lines;
pub(crate) mod metered;
pub(crate) mod names;
pub(crate) mod openapi;
pub(crate) mod params;
pub(crate) mod parts;
mod pretty;
pub(crate) mod product;
pub(crate) mod table;
pub(crate) mod tables;
pub(crate) mod unique;
