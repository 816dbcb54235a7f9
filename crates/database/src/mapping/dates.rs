//! `format` of a field of dates.

use quire_model::ValueRef;
use quire_query::{DateFormats, Value as QueryValue};
use serde_json::Value;

use super::error::MappingError;
use super::field::{FieldKind, shown};

/// The formats of a field that names none.
const DEFAULT: &str = "strict_date_optional_time||epoch_millis";

/// Formats that say no more than text of ISO 8601 and milliseconds since 1970. Each has a name with
/// `strict_` too.
const USUAL: [&str; 23] = [
    "strict_date_optional_time",
    "strict_date_optional_time_nanos",
    "date_optional_time",
    "rfc3339_lenient",
    "iso8601",
    "epoch_millis",
    "date_time",
    "date_time_no_millis",
    "date",
    "date_hour",
    "date_hour_minute",
    "date_hour_minute_second",
    "date_hour_minute_second_fraction",
    "date_hour_minute_second_millis",
    "year_month_day",
    "year_month",
    "yyyy-MM",
    "yyyy-MM-dd",
    "yyyy-MM-dd HH:mm:ss",
    "yyyy-MM-dd HH:mm:ss.SSS",
    "yyyy-MM-dd'T'HH:mm:ss",
    "yyyy-MM-dd'T'HH:mm:ss.SSSX",
    "yyyy-MM-dd'T'HH:mm:ss.SSSXXX",
];

/// Whether formats say no more than text of ISO 8601 and milliseconds since 1970.
pub(super) fn is_usual(formats: &str) -> bool {
    let is_known = |format: &str| {
        USUAL.contains(&format) || USUAL.contains(&format.trim_start_matches("strict_"))
    };
    formats.split("||").all(is_known)
}

/// The formats of a field.
///
/// # Errors
/// The format and the part of it that is not known.
pub(super) fn formats(
    kind: FieldKind,
    name: &str,
    format: &Value,
) -> Result<DateFormats, MappingError> {
    let text = format.as_str().unwrap_or_default();
    let formats = DateFormats::parse(text).map_err(|part| {
        MappingError(format!(
            "date format [{text}] of field [{name}] has [{part}], which is not supported"
        ))
    })?;
    match kind == FieldKind::DateNanos && !is_usual(text) {
        true => Err(MappingError(format!(
            "date format [{text}] of field [{name}] is not supported for [date_nanos], whose dates \
             are text of ISO 8601 or milliseconds since 1970: use the type [date]"
        ))),
        false => Ok(formats),
    }
}

/// Refuses another name of a field that reads its dates by other formats.
///
/// # Errors
/// The names of both.
pub(super) fn check_sub_field(
    (name, format): (&str, Option<&Value>),
    (sub_field, own): (&str, Option<&Value>),
) -> Result<(), MappingError> {
    let text = |format: Option<&Value>| match format.and_then(Value::as_str) {
        Some(text) if !is_usual(text) => text.to_owned(),
        _ => DEFAULT.to_owned(),
    };
    match text(format) == text(own) {
        true => Ok(()),
        false => Err(MappingError(format!(
            "[format] of [{sub_field}] in [fields] must be that of [{name}]: a document has one \
             value for both"
        ))),
    }
}

/// Why a mapping can't be given other formats; none if they read dates as those before.
pub(super) fn changed(
    path: &str,
    now: Option<&DateFormats>,
    wanted: Option<&DateFormats>,
) -> Option<String> {
    let text =
        |formats: Option<&DateFormats>| formats.map_or(DEFAULT, DateFormats::as_str).to_owned();
    let (now, wanted) = (text(now), text(wanted));
    let is_same = now == wanted || is_usual(&now) && is_usual(&wanted);
    (!is_same).then(|| {
        format!(
            "Mapper for [{path}] conflicts with existing mapper: Cannot update parameter [format] \
             from [{now}] to [{wanted}]"
        )
    })
}

/// Why a value is no date of these formats.
pub(super) fn refuses(formats: &DateFormats, value: ValueRef<'_>) -> Option<String> {
    let date = QueryValue::from_document(value);
    let millis = date.and_then(|date| formats.millis_of(&date));
    millis.is_none().then(|| {
        let (shown, formats) = (shown(value), formats.as_str());
        format!("failed to parse date field [{shown}] with format [{formats}]")
    })
}
