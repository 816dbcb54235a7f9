//! `minimum_should_match`: how many clauses of `should` a document must match.

use quiredb::query::Filter;
use serde_json::Value as Json;

use super::clause::{WholeTexts, unsupported};
use crate::http::failure::Outcome;

/// The most clauses of what says that some of a number of clauses match. It allows any number of
/// eleven clauses, 2 of 64, and all but one of 64.
const CLAUSES_MAX: usize = 4096;

/// How many of `count` clauses must match: a number, or a percentage, which is rounded down; of a
/// negative one as many may not match. `3<90%` holds for more than three clauses; up to there all
/// must match. Several of these stand between spaces: the last of the first ones that hold counts.
///
/// # Errors
/// 400 for anything else.
pub(super) fn minimum(said: &Json, count: usize) -> Outcome<u64> {
    let text = match said {
        Json::Number(number) => number.to_string(),
        Json::String(text) => text.clone(),
        _ => String::new(),
    };
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    let wanted = match text.contains('<') {
        true => conditional(&text, count),
        false => simple(text.trim(), count),
    };
    let wanted = wanted.ok_or_else(|| {
        unsupported(format!(
            "[minimum_should_match] must be a number, a percentage, or conditions such as 3<90%, \
             not {said}"
        ))
    })?;
    Ok(wanted.try_into().unwrap_or(0))
}

fn conditional(text: &str, count: i64) -> Option<i64> {
    // Spaces may be around the sign.
    let parts: Vec<&str> = text.split('<').map(str::trim).collect();
    let text = parts.join("<");
    let conditions = text.split_whitespace().map(|one| {
        let (bound, of_more) = one.split_once('<')?;
        Some((bound.parse::<i64>().ok()?, simple(of_more, count)?))
    });
    // All are read, as which of them hold depends on the number of clauses.
    let conditions: Vec<(i64, i64)> = conditions.collect::<Option<_>>()?;
    let holding = conditions.iter().take_while(|(bound, _)| count > *bound);
    Some(holding.last().map_or(count, |(_, wanted)| *wanted))
}

fn simple(text: &str, count: i64) -> Option<i64> {
    let (number, part) = match text.strip_suffix('%') {
        Some(percent) => {
            let percent: i32 = percent.parse().ok()?;
            let percent = i64::from(percent);
            (percent, count.saturating_mul(percent) / 100)
        }
        None => {
            let number: i32 = text.parse().ok()?;
            (number.into(), number.into())
        }
    };
    Some(match number < 0 {
        true => count.saturating_add(part),
        false => part,
    })
}

/// What matches at least `wanted` of some filters, 1 or more.
///
/// # Errors
/// 400 if that takes more than [`CLAUSES_MAX`] clauses, or with others of the query more bytes than
/// combinations may.
pub(super) fn at_least(
    wanted: u64,
    filters: Vec<Filter>,
    texts: &mut WholeTexts,
) -> Outcome<Filter> {
    let count = filters.len();
    let wanted = match usize::try_from(wanted) {
        Ok(wanted) if wanted <= count => wanted,
        _ => return Ok(Filter::none()),
    };
    if wanted == 1 {
        return Ok(Filter::Or(filters));
    }
    if wanted == count {
        return Ok(Filter::And(filters));
    }
    // Either all of one of these sets match, or one of each of the other sets: if none of a set
    // that is one larger than what may be missing matches, too few do.
    let missing = count - wanted + 1;
    let sizes = [wanted, missing].map(|size| clauses(count, size));
    let (size, clauses) = match sizes[0] <= sizes[1] {
        true => (wanted, sizes[0]),
        false => (missing, sizes[1]),
    };
    if clauses > CLAUSES_MAX {
        return Err(unsupported(format!(
            "[minimum_should_match] of [bool] is {wanted} of {count} clauses, which takes too many \
             combinations of them; use fewer clauses, a smaller number, or one near to all"
        )));
    }
    // Each filter is in as many of the sets as any other.
    let bytes: usize = filters.iter().map(|filter| filter.to_string().len()).sum();
    texts.combine(bytes.saturating_mul(clauses / count))?;
    let mut sets = Vec::new();
    each_set(&filters, size, &mut Vec::new(), &mut |set| {
        sets.push(match size == wanted {
            true => Filter::And(set.to_vec()),
            false => Filter::Or(set.to_vec()),
        });
    });
    Ok(match size == wanted {
        true => Filter::Or(sets),
        false => Filter::And(sets),
    })
}

/// The elements of all sets of `size` of `count` elements, at the most `usize::MAX`.
fn clauses(count: usize, size: usize) -> usize {
    let sets = (0..size).try_fold(1usize, |sets, at| {
        Some(sets.checked_mul(count - at)? / (at + 1))
    });
    sets.map_or(usize::MAX, |sets| sets.saturating_mul(size))
}

fn each_set(
    filters: &[Filter],
    size: usize,
    set: &mut Vec<Filter>,
    see: &mut impl FnMut(&[Filter]),
) {
    if size == 0 {
        return see(set);
    }
    for (at, filter) in filters.iter().enumerate() {
        if filters.len() - at < size {
            return;
        }
        set.push(filter.clone());
        each_set(&filters[at + 1..], size - 1, set, see);
        set.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::filter::filter;
    use quiredb::query::{field, find};
    use quiredb::{Database, Document};
    use serde_json::json;

    #[test]
    fn the_number_is_read_as_opensearch_does() {
        for (said, count, wanted) in [
            (json!(2), 5, 2),
            (json!("2"), 5, 2),
            (json!(-2), 5, 3),
            (json!(-9), 5, 0),
            (json!(9), 5, 9),
            (json!("75%"), 5, 3),
            (json!("-25%"), 5, 4),
            (json!("-10%"), 5, 5),
            (json!("3<90%"), 3, 3),
            (json!("3<90%"), 4, 3),
            (json!("2<-25% 9<-3"), 2, 2),
            (json!("2<-25% 9<-3"), 9, 7),
            (json!("2 < -25%  9 < -3"), 10, 7),
            (json!("0%"), 5, 0),
        ] {
            assert_eq!(minimum(&said, count).unwrap(), wanted, "{said} of {count}");
        }
        for said in [
            json!("x"),
            json!(""),
            json!(1.5),
            json!("3<"),
            json!("<3"),
            json!([1]),
            json!("%"),
        ] {
            assert!(minimum(&said, 3).is_err(), "{said}");
        }
    }

    #[test]
    fn as_many_match_as_are_wanted() {
        const CLAUSES: usize = 7;
        let dir = tempfile::tempdir().unwrap();
        let database = Database::open(dir.path().join("db")).unwrap();
        let sets = database.collection_or_create("sets", Default::default);
        let sets = sets.unwrap();
        for bits in 0..1u32 << CLAUSES {
            let fields = (0..CLAUSES).filter(|at| bits & (1 << at) != 0);
            let fields: String = fields.map(|at| format!(r#","f{at}":1"#)).collect();
            let document = format!(r#"{{"_id":{bits}{fields}}}"#);
            let document = Document::from_json(document.as_bytes()).unwrap();
            sets.put(&document).unwrap();
        }
        for count in 1..=CLAUSES {
            let filters = (0..count).map(|at| field(&format!("f{at}")).eq(1));
            let filters: Vec<Filter> = filters.collect();
            for wanted in 1..=count + 1 {
                let filter =
                    at_least(wanted as u64, filters.clone(), &mut Default::default()).unwrap();
                let found = sets.query(find(filter).limit(1 << CLAUSES)).unwrap();
                let mask = (1u32 << count) - 1;
                let all = 0..1u32 << CLAUSES;
                let expected = all.filter(|bits| (bits & mask).count_ones() as usize >= wanted);
                let name = format!("{wanted} of {count}");
                assert_eq!(found.documents.len(), expected.count(), "{name}");
            }
        }
    }

    #[test]
    fn what_takes_too_many_combinations_is_refused() {
        let of = |count: usize| {
            (0..count)
                .map(|at| field(&format!("f{at}")).eq(1))
                .collect()
        };
        for (wanted, count) in [(2, 64), (63, 64), (5, 11), (64, 64), (1, 1000)] {
            at_least(wanted, of(count), &mut Default::default()).unwrap();
        }
        for (wanted, count) in [(10, 20), (500, 1000)] {
            let failure = at_least(wanted, of(count), &mut Default::default()).unwrap_err();
            assert!(failure.reason().contains("combinations"));
        }
    }
    #[test]
    fn combinations_of_combinations_take_bounded_memory() {
        // Each level has ten times what is within it.
        let mut query = json!({"term": {"a": 1}});
        for _ in 0..40 {
            query = json!({"bool": {
                "should": [query, {"term": {"b": 1}}, {"term": {"c": 1}}, {"term": {"d": 1}},
                           {"term": {"e": 1}}, {"term": {"f": 1}}],
                "minimum_should_match": 3
            }});
        }
        let failure = filter(&query, 0).unwrap_err();
        assert!(failure.reason().contains("combinations"));
        // Beside each other too, and of long texts.
        let long = "x".repeat(10_000);
        let some = ["a", "b", "c", "d"].map(|field| json!({"term": {field: long}}));
        let one = json!({"bool": {"should": some, "minimum_should_match": 2}});
        filter(&one, 0).unwrap();
        let failure = filter(&json!({"bool": {"must": vec![one; 20]}}), 0).unwrap_err();
        assert!(failure.reason().contains("combinations"));
    }
}
