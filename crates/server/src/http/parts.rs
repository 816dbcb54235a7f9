//! Which parts of its figures a request names.

use super::call::Call;
use super::failure::{Failure, Outcome};
use crate::unknown_fields::nearest;

/// The parts that a request names; all if it names none.
#[derive(Debug, Clone)]
pub(crate) struct Parts(Option<Vec<String>>);

impl Parts {
    /// Reads the parameter `param` of the path: names of `known` between commas.
    ///
    /// # Errors
    /// 400 for another name; it says which one is like it.
    pub(crate) fn of<S>(call: &Call<S>, param: &str, known: &[&str]) -> Outcome<Parts> {
        match call.path_param(param) {
            Some(names) => Parts::named(names, known, call.path()),
            None => Ok(Parts(None)),
        }
    }

    /// All of them.
    pub(crate) fn all() -> Parts {
        Parts(None)
    }

    fn named(names: &str, known: &[&str], path: &str) -> Outcome<Parts> {
        let names: Vec<String> = names.split(',').map(str::to_owned).collect();
        if names.iter().any(|name| name == "_all") {
            return Ok(Parts(None));
        }
        let is_known = |name: &&String| known.contains(&name.as_str());
        if let Some(unknown) = names.iter().find(|name| !is_known(name)) {
            let like = match nearest(unknown, known.iter().copied()) {
                Some(like) => format!(" -> did you mean [{like}]?"),
                None => format!(": known are {}", known.join(", ")),
            };
            return Err(Failure::illegal_argument(format!(
                "request [{path}] contains unrecognized metric: [{unknown}]{like}"
            )));
        }
        Ok(Parts(Some(names)))
    }

    /// Whether none is named, which is all.
    pub(crate) fn are_all(&self) -> bool {
        self.0.is_none()
    }

    /// Whether a part is named.
    pub(crate) fn has(&self, part: &str) -> bool {
        let named = self.0.as_ref();
        named.is_none_or(|names| names.iter().any(|name| name == part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_is_refused_with_one_that_is_like_it() {
        let known = ["docs", "fielddata"];
        let failure = Parts::named("docs,fieldata", &known, "/_stats/x").unwrap_err();
        let text = failure.cause().to_string();
        assert!(
            text.contains("request [/_stats/x] contains unrecognized metric: [fieldata]")
                && text.contains("-> did you mean [fielddata]?"),
            "{text}"
        );
        assert!(Parts::named("zebra", &known, "/").is_err());
        let one = Parts::named("docs", &known, "/").unwrap();
        assert!(one.has("docs") && !one.has("fielddata"));
        assert!(
            Parts::named("docs,_all", &known, "/")
                .unwrap()
                .has("fielddata")
        );
    }
}
