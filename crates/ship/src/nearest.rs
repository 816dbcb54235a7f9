//! The name that was perhaps meant.

/// Names that are alike by this much or more, of 1, are suggested.
const ALIKE_MIN: f64 = 0.6;

/// `; did you mean "x"?` for the name most like this one; empty if none is.
pub fn suggestion<'n>(name: &str, known: impl IntoIterator<Item = &'n str>) -> String {
    let scored = known
        .into_iter()
        .map(|known| (strsim::normalized_damerau_levenshtein(name, known), known));
    let best = scored.max_by(|(one, _), (other, _)| one.total_cmp(other));
    match best {
        Some((alike, known)) if alike >= ALIKE_MIN => format!("; did you mean {known:?}?"),
        _ => String::new(),
    }
}
