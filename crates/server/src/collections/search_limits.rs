//! [`SearchLimits`]: what the settings of collections allow one search, `index.max_*`.

use quiredb::ApiSettings;
use serde_json::Value;

use crate::http::failure::{Failure, Outcome};

/// Fields in `docvalue_fields`, unless a setting says otherwise.
const VALUE_FIELDS_DEFAULT: u64 = 100;

/// The least of the limits of the collections that a search is about; none where no one sets it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SearchLimits {
    result_window: Option<u64>,
    terms: Option<u64>,
    value_fields: Option<u64>,
}

impl SearchLimits {
    /// Adds those of a collection.
    pub(super) fn add(&mut self, settings: &ApiSettings) {
        for (limit, name) in [
            (&mut self.result_window, "index.max_result_window"),
            (&mut self.terms, "index.max_terms_count"),
            (&mut self.value_fields, "index.max_docvalue_fields_search"),
        ] {
            let given = settings.settings.get(name).and_then(Value::as_str);
            let given = given.and_then(|text| text.parse::<u64>().ok());
            *limit = limit.iter().copied().chain(given).min();
        }
    }

    /// Checks the page of a search.
    ///
    /// # Errors
    /// 400 if it ends past the limit.
    pub(crate) fn check_page(&self, skip: u64, limit: u64, is_scroll: bool) -> Outcome<()> {
        let end = skip.saturating_add(limit);
        let Some(most) = self.result_window.filter(|most| end > *most) else {
            return Ok(());
        };
        Err(Failure::illegal_argument(match is_scroll {
            true => format!(
                "Batch size is too large, size must be less than or equal to: [{most}] but was \
                 [{limit}]. Scroll batch sizes cost as much memory as result windows so they are \
                 controlled by the [index.max_result_window] index level setting."
            ),
            false => format!(
                "Result window is too large, from + size must be less than or equal to: [{most}] \
                 but was [{end}]. See the scroll api for a more efficient way to request large \
                 data sets. This limit can be set by changing the [index.max_result_window] index \
                 level setting."
            ),
        }))
    }

    /// Checks the values of a `terms` query.
    ///
    /// # Errors
    /// 400 if they are more than the limit.
    pub(crate) fn check_terms(&self, count: usize) -> Outcome<()> {
        match self.terms.filter(|most| count as u64 > *most) {
            None => Ok(()),
            Some(most) => Err(Failure::illegal_argument(format!(
                "The number of terms [{count}] used in the Terms Query request has exceeded the \
                 allowed maximum of [{most}]. This maximum can be set by changing the \
                 [index.max_terms_count] index level setting."
            ))),
        }
    }

    /// Checks how many fields `docvalue_fields` has.
    ///
    /// # Errors
    /// 400 if they are more than the limit.
    pub(crate) fn check_value_fields(&self, count: usize) -> Outcome<()> {
        let most = self.value_fields.unwrap_or(VALUE_FIELDS_DEFAULT);
        match count as u64 > most {
            false => Ok(()),
            true => Err(Failure::illegal_argument(format!(
                "Trying to retrieve too many docvalue_fields. Must be less than or equal to: \
                 [{most}] but was [{count}]. This limit can be set by changing the \
                 [index.max_docvalue_fields_search] index level setting."
            ))),
        }
    }
}
