//! The parameters of a request's query string. Parameters that a route does not know are refused by
//! name.

use std::collections::BTreeMap;
use std::str::FromStr;

use axum::extract::Query;
use axum::http::Uri;

use super::failure::{Failure, Outcome};

/// The parameters of every route: how the answer is formatted, and two that are ignored.
pub(crate) const COMMON: &[&str] = &["pretty", "filter_path", "human", "error_trace"];

/// The parameters of one request.
#[derive(Debug, Default, Clone)]
pub(crate) struct Params(BTreeMap<String, String>);

impl Params {
    /// Reads the query string; every name must be in `known` or [`COMMON`].
    pub(crate) fn parse(uri: &Uri, known: &[&str]) -> Outcome<Params> {
        let Ok(Query(pairs)) = Query::<Vec<(String, String)>>::try_from_uri(uri) else {
            return Err(Failure::illegal_argument(
                "the query string is not valid form encoding in UTF-8",
            ));
        };
        let is_known = |name: &str| COMMON.contains(&name) || known.contains(&name);
        if let Some((name, _)) = pairs.iter().find(|(name, _)| !is_known(name)) {
            return Err(Failure::illegal_argument(format!(
                "request [{}] contains unrecognized parameter: [{name}]",
                uri.path()
            )));
        }
        Ok(Params(pairs.into_iter().collect()))
    }

    /// The parameter's text, if it was given.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// A switch; without a value it is true.
    pub(crate) fn flag(&self, name: &str) -> Outcome<Option<bool>> {
        match self.text(name) {
            None => Ok(None),
            Some("" | "true") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            Some(value) => Err(Failure::illegal_argument(format!(
                "Failed to parse value [{value}] of parameter [{name}] as only [true] or [false] \
                 are allowed."
            ))),
        }
    }

    /// A number.
    pub(crate) fn number<N: FromStr>(&self, name: &str) -> Outcome<Option<N>> {
        self.text(name)
            .map(|value| {
                value.parse().map_err(|_| {
                    Failure::illegal_argument(format!(
                        "Failed to parse value [{value}] of parameter [{name}]: a number is \
                         expected"
                    ))
                })
            })
            .transpose()
    }

    /// `rate_bytes`, in bytes a second: none if it is 0, `default` if it is absent.
    pub(crate) fn rate(&self, default: Option<u64>) -> Outcome<Option<u64>> {
        let given = self.number("rate_bytes")?;
        Ok(given.map_or(default, |rate| (rate != 0).then_some(rate)))
    }

    /// Refuses the parameter unless it is absent or its value is in `allowed`.
    pub(crate) fn only(&self, name: &str, allowed: &[&str], why: &str) -> Outcome<()> {
        match self.text(name) {
            Some(value) if !allowed.contains(&value) => Err(Failure::illegal_argument(format!(
                "parameter [{name}] can't be [{value}]: {why}"
            ))),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(uri: &'static str) -> Outcome<Params> {
        Params::parse(&Uri::from_static(uri), &["refresh", "if_seq_no"])
    }

    #[test]
    fn parameters_are_decoded_and_unknown_ones_named() {
        let params = parse("/a/_doc/1?refresh&if_seq_no=12&filter_path=a%2Cb+c").unwrap();
        assert_eq!(params.flag("refresh").unwrap(), Some(true));
        assert_eq!(params.number::<u64>("if_seq_no").unwrap(), Some(12));
        assert_eq!(params.text("filter_path"), Some("a,b c"));
        assert_eq!(params.flag("pretty").unwrap(), None);
        let failure = parse("/a/_doc/1?ttl=5").unwrap_err();
        assert!(
            failure
                .cause()
                .to_string()
                .contains("request [/a/_doc/1] contains unrecognized parameter: [ttl]")
        );
        for bad in ["/?if_seq_no=x", "/?if_seq_no=-1", "/?if_seq_no="] {
            assert!(parse(bad).unwrap().number::<u64>("if_seq_no").is_err());
        }
        assert!(parse("/?refresh=maybe").unwrap().flag("refresh").is_err());
    }
}
