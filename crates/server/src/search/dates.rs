//! Dates of a request: intervals, formats and date math.

mod interval;
mod math;
mod reading;

pub(crate) use interval::{calendar_unit, fixed_millis, offset_millis};
pub(crate) use math::{Moment, is_date_math, moment};
pub(crate) use reading::DateReading;
