//! How a change by query is done, as parameters and the body say it.

use serde_json::Value as Json;

use crate::http::failure::{Failure, Outcome};
use crate::http::params::Params;

/// Documents of a batch, unless the request says fewer.
const BATCH: usize = 1000;

/// The most slices.
const SLICES_MAX: u32 = 1024;

/// How the work is done.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Manner {
    /// The most documents.
    pub(crate) most: u64,
    /// Documents of a batch.
    pub(crate) batch: usize,
    /// Whether conflicts are counted only, and do not end the work.
    pub(crate) proceeds: bool,
    /// Documents a second.
    pub(crate) rate: Option<f64>,
    /// Whether the caller waits for the end.
    pub(crate) waits: bool,
    /// In how many parts it is done; none is one for each partition.
    pub(crate) slices: Option<u32>,
}

impl Manner {
    /// Reads the parameters, and the members of the body, which are taken out.
    pub(crate) fn of(params: &Params, body: &mut serde_json::Map<String, Json>) -> Outcome<Manner> {
        let in_body = |body: &mut serde_json::Map<String, Json>, name: &str| {
            body.remove(name).filter(|value| !value.is_null())
        };
        let conflicts = in_body(body, "conflicts");
        let conflicts = params
            .text("conflicts")
            .or(conflicts.as_ref().and_then(Json::as_str));
        let proceeds = match conflicts {
            None | Some("abort") => false,
            Some("proceed") => true,
            Some(other) => {
                return Err(Failure::illegal_argument(format!(
                    "conflicts may only be \"proceed\" or \"abort\" but was [{other}]"
                )));
            }
        };
        params.only(
            "refresh",
            &["", "true", "false"],
            "only [true] and [false] are allowed",
        )?;
        let most = match (params.number("max_docs")?, in_body(body, "max_docs")) {
            (Some(most), _) => most,
            (None, None) => u64::MAX,
            (None, Some(most)) => most.as_u64().ok_or_else(|| {
                Failure::illegal_argument("[max_docs] must be a whole number from 0 on")
            })?,
        };
        Ok(Manner {
            most,
            batch: match params.number::<usize>("scroll_size")? {
                Some(0) => return Err(no_batch("scroll_size")),
                size => size.unwrap_or(BATCH).min(BATCH),
            },
            proceeds,
            rate: rate(params)?,
            waits: params.flag("wait_for_completion")?.unwrap_or(true),
            slices: slices(params)?,
        })
    }

    /// Checks that it can be done to one slice of the documents, if that is what the query is
    /// about.
    ///
    /// # Errors
    /// 400 if it has slices itself.
    pub(crate) fn check_slice(&self, is_of_slice: bool) -> Outcome<()> {
        match is_of_slice && self.slices != Some(1) {
            true => Err(Failure::validation(
                "can't specify both a [slice] of the documents and [slices]",
            )),
            false => Ok(()),
        }
    }
}

/// The documents of a batch, as a body says it; by default as parameters do.
///
/// # Errors
/// 400 if it is no positive number.
pub(crate) fn batch(size: Option<&Json>, default: usize) -> Outcome<usize> {
    match size {
        None | Some(Json::Null) => Ok(default),
        Some(size) => match size.as_u64().filter(|size| *size > 0) {
            Some(size) => Ok(usize::try_from(size).unwrap_or(BATCH).min(BATCH)),
            None => Err(no_batch("size")),
        },
    }
}

fn no_batch(name: &str) -> Failure {
    Failure::illegal_argument(format!("[{name}] must be a positive number"))
}

/// `slices`: none for `auto`.
fn slices(params: &Params) -> Outcome<Option<u32>> {
    let text = match params.text("slices") {
        None => return Ok(Some(1)),
        Some("auto") => return Ok(None),
        Some(text) => text,
    };
    let number = text.parse().ok();
    match number.filter(|number| (1..=SLICES_MAX).contains(number)) {
        Some(number) => Ok(Some(number)),
        None => Err(Failure::illegal_argument(format!(
            "[slices] must be [auto] or a number from 1 to {SLICES_MAX}, not [{text}]"
        ))),
    }
}

/// `requests_per_second`: none if it is -1.
pub(crate) fn rate(params: &Params) -> Outcome<Option<f64>> {
    match params.number::<f64>("requests_per_second")? {
        None | Some(-1.0) => Ok(None),
        Some(rate) if rate.is_finite() && rate > 0.0 => Ok(Some(rate)),
        Some(rate) => Err(Failure::illegal_argument(format!(
            "[requests_per_second] must be a float greater than 0, or -1 to disable throttling; it \
             is [{rate}]"
        ))),
    }
}
