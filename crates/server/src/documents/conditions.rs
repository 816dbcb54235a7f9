//! The conditions of a write, and the parameters that a write may have.

use quiredb::{Condition, Position};

use crate::engine::Engine;
use crate::http::failure::{Failure, Outcome};
use crate::http::params::Params;

/// What OpenSearch calls the version of a request that has none.
pub(crate) const NO_VERSION: i64 = -3;

/// The same, of one that only creates.
const NO_VERSION_OF_CREATE: i64 = -4;

/// Refuses parameters of a write that Quire does not support.
pub(crate) fn check_write(params: &Params) -> Outcome<()> {
    params.only("pipeline", &["_none"], "there are no ingest pipelines")?;
    params.only(
        "refresh",
        &["", "true", "false", "wait_for"],
        "only [true], [false] and [wait_for] are allowed",
    )?;
    params.flag("require_alias")?;
    params.only(
        "wait_for_active_shards",
        &["", "0", "1", "all", "-1"],
        "there is one copy of each document",
    )
}

/// Refuses a write that requires an alias, to a name that is none.
///
/// # Errors
/// 404.
pub(crate) fn check_alias(engine: &Engine, params: &Params, index: &str) -> Outcome<()> {
    match params.flag("require_alias")?.unwrap_or(false) {
        true => require_alias(engine, index),
        false => Ok(()),
    }
}

/// Refuses a name that is no alias.
///
/// # Errors
/// 404.
pub(crate) fn require_alias(engine: &Engine, index: &str) -> Outcome<()> {
    match engine.database().alias(index) {
        Some(_) => Ok(()),
        None => Err(Failure::index_not_found(index).because(&format!(
            " and [require_alias] request flag is [true] and [{index}] is not an alias"
        ))),
    }
}

/// The condition of a write, from its parameters.
pub(crate) fn condition(params: &Params, only_create: bool) -> Outcome<Condition> {
    params.only(
        "op_type",
        &["index", "create"],
        "only [index] and [create] are allowed",
    )?;
    let only_create = only_create || params.text("op_type") == Some("create");
    let version = version_condition(
        params.number("if_seq_no")?,
        params.number("if_primary_term")?,
    )?;
    let external = external(
        params.number("version")?,
        params.text("version_type"),
        only_create,
        version,
    )?;
    match (only_create, version) {
        (true, None) => Ok(Condition::IfAbsent),
        (true, Some(_)) => Err(Failure::validation(
            "create operations do not support compare and set. use index instead",
        )),
        (false, Some(version)) => Ok(Condition::IfVersion(version)),
        (false, None) => Ok(external.unwrap_or_default()),
    }
}

/// What a `version_type` says, if versions are those of another system.
pub(crate) struct External {
    /// The condition of a write with a version.
    pub(crate) condition: fn(u64) -> Condition,
    /// As errors name it.
    name: &'static str,
}

impl External {
    /// None if versions are given by Quire.
    ///
    /// # Errors
    /// For an unknown type.
    pub(crate) fn of_type(version_type: Option<&str>) -> Outcome<Option<External>> {
        let (condition, name): (fn(u64) -> Condition, _) = match version_type {
            None | Some("internal") => return Ok(None),
            Some("external" | "external_gt") => (Condition::External, "EXTERNAL"),
            Some("external_gte") => (Condition::ExternalOrEqual, "EXTERNAL_GTE"),
            Some(other) => {
                let what = format!("No version type match [{other}]");
                return Err(Failure::illegal_argument(what));
            }
        };
        Ok(Some(External { condition, name }))
    }

    /// Why a write that only creates has none.
    pub(crate) fn refused_by_create() -> Failure {
        Failure::validation("create operations only support internal versioning. use index instead")
    }
}

/// The condition of `version` and `version_type`.
///
/// # Errors
/// Where the version is not of another system, or there is another condition.
pub(crate) fn external(
    version: Option<i64>,
    version_type: Option<&str>,
    only_create: bool,
    required: Option<Position>,
) -> Outcome<Option<Condition>> {
    let Some(External { condition, name }) = External::of_type(version_type)? else {
        return match version {
            None | Some(NO_VERSION) => Ok(None),
            Some(NO_VERSION_OF_CREATE) if only_create => Ok(None),
            Some(_) => Err(Failure::validation(
                "internal versioning can not be used for optimistic concurrency control. Please \
                 use `if_seq_no` and `if_primary_term` instead",
            )),
        };
    };
    if only_create {
        return Err(External::refused_by_create());
    }
    if required.is_some() {
        return Err(Failure::validation(
            "compare and write operations can not use versioning",
        ));
    }
    match version.and_then(|version| u64::try_from(version).ok()) {
        Some(version) => Ok(Some(condition(version))),
        None => Err(Failure::validation(&format!(
            "illegal version value [{}] for version type [{name}]",
            version.unwrap_or(NO_VERSION)
        ))),
    }
}

/// The version that `if_seq_no` and `if_primary_term` require. With another term than 1 that is
/// version 0, which no document has.
pub(crate) fn version_condition(
    seq_no: Option<u64>,
    term: Option<u64>,
) -> Outcome<Option<Position>> {
    match (seq_no, term) {
        (None, None) => Ok(None),
        (Some(seq_no), Some(1)) => Ok(Some(Position(seq_no))),
        (Some(_), Some(0)) | (Some(_), None) => Err(Failure::validation(
            "ifSeqNo is set, but primary term is [0]",
        )),
        (Some(_), Some(_)) => Ok(Some(Position(0))),
        (None, Some(term)) => Err(Failure::validation(&format!(
            "ifSeqNo is unassigned, but primary term is [{term}]"
        ))),
    }
}
