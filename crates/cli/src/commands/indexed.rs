//! The option `--index`: which fields of a collection have a search index.

use quiredb::IndexedFields;
use std::str::FromStr;

/// `all`, `none`, or names with `=all` or `=none`.
#[derive(Debug, Clone)]
pub(super) struct Indexed(pub(super) IndexedFields);

impl FromStr for Indexed {
    type Err = String;

    fn from_str(text: &str) -> Result<Indexed, String> {
        let is_all = |word: &str| match word {
            "all" => Ok(true),
            "none" => Ok(false),
            _ => Err(format!(
                "{word:?} is neither `all` nor `none`; an example: all,abstract=none"
            )),
        };
        let (mut default, mut named) = (None, Vec::new());
        for part in text.split(',') {
            match part.rsplit_once('=') {
                Some((path, word)) => named.push((path, is_all(word)?)),
                None => default = Some(is_all(part)?),
            }
        }
        // Who names only fields without an index wants one of the others.
        let default = default.unwrap_or_else(|| named.iter().all(|(_, indexed)| !indexed));
        let fields = match default {
            true => IndexedFields::all(),
            false => IndexedFields::none(),
        };
        let named = named.into_iter();
        Ok(Indexed(named.fold(fields, |fields, (path, indexed)| {
            fields.with(path, indexed)
        })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_named_with_all_or_none() {
        let fields = |text: &str| text.parse::<Indexed>().map(|indexed| indexed.0);
        assert_eq!(fields("all"), Ok(IndexedFields::all()));
        assert_eq!(fields("none"), Ok(IndexedFields::none()));
        let all_but = IndexedFields::all().with("abstract", false);
        assert_eq!(fields("abstract=none"), Ok(all_but.clone()));
        assert_eq!(fields("all,abstract=none"), Ok(all_but));
        let one = IndexedFields::none().with("price", true);
        assert_eq!(fields("price=all"), Ok(one));
        assert!(fields("price").is_err() && fields("").is_err());
    }
}
