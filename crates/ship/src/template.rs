//! Text with places for values: `{country}-{id}`. A brace of its own is written twice.

/// A template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Template(Vec<Part>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Name(String),
}

impl Template {
    /// Reads a template.
    ///
    /// # Errors
    /// If a brace has no other one, or nothing is between: a sentence.
    pub(crate) fn parse(text: &str) -> Result<Template, String> {
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            let (before, from) = rest.split_at(at);
            plain.push_str(before);
            let wrong = |what: &str| Err(format!("{text:?} has {what} at {from:?}"));
            if let Some(after) = from.strip_prefix("{{").or_else(|| from.strip_prefix("}}")) {
                plain.push_str(&from[..1]);
                rest = after;
                continue;
            }
            let Some((name, after)) = from.strip_prefix('{').and_then(|from| from.split_once('}'))
            else {
                return wrong("a brace without its other one; write it twice for itself");
            };
            if name.is_empty() || name.contains('{') {
                return wrong("no name between braces");
            }
            if !plain.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut plain)));
            }
            parts.push(Part::Name(name.to_owned()));
            rest = after;
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            parts.push(Part::Text(plain));
        }
        Ok(Template(parts))
    }

    /// The names that it has places for.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|part| match part {
            Part::Name(name) => Some(name.as_str()),
            Part::Text(_) => None,
        })
    }

    /// The text with the values of names.
    ///
    /// # Errors
    /// The first one of `value`.
    pub(crate) fn fill<E>(
        &self,
        mut value: impl FnMut(&str) -> Result<String, E>,
    ) -> Result<String, E> {
        let mut text = String::new();
        for part in &self.0 {
            match part {
                Part::Text(plain) => text.push_str(plain),
                Part::Name(name) => text.push_str(&value(name)?),
            }
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_values_and_braces_twice_are_braces() {
        let template = Template::parse("{a}-{{x}}:{b c}é").unwrap();
        assert_eq!(template.names().collect::<Vec<_>>(), ["a", "b c"]);
        let filled = template.fill(|name| Ok::<_, ()>(name.to_uppercase()));
        assert_eq!(filled.unwrap(), "A-{x}:B Cé");
        assert_eq!(template.fill(|name| Err::<String, _>(name.len())), Err(1));
        for (text, part) in [
            ("a{", "without its other one"),
            ("a}b", "without its other one"),
            ("{}", "no name"),
            ("{a{b}}", "no name"),
        ] {
            let why = Template::parse(text).unwrap_err();
            assert!(why.contains(part), "{why}");
        }
    }
}
