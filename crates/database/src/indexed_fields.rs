//! [`IndexedFields`] as JSON: `"all"`, `"none"`, or an object such as
//! `{"default":"all","abstract":"none"}`; what has no default is not indexed.

use quire_collection::IndexedFields;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;

/// The name of what holds for fields that are not named.
const DEFAULT: &str = "default";

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Word {
    All,
    None,
}

impl Word {
    fn new(indexed: bool) -> Word {
        match indexed {
            true => Word::All,
            false => Word::None,
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Shape {
    Word(Word),
    Fields(BTreeMap<String, Word>),
}

pub(crate) fn serialize<S: Serializer>(
    fields: &IndexedFields,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut words: BTreeMap<String, Word> = fields
        .exceptions()
        .map(|(path, indexed)| (path.to_string(), Word::new(indexed)))
        .collect();
    let default = Word::new(fields.by_default());
    let shape = match words.is_empty() {
        true => Shape::Word(default),
        false => {
            words.insert(DEFAULT.to_string(), default);
            Shape::Fields(words)
        }
    };
    shape.serialize(serializer)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<IndexedFields, D::Error> {
    let expected = "index is \"all\", \"none\", or an object that says it of fields, such as \
                    {\"default\":\"all\",\"abstract\":\"none\"}";
    let shape = Shape::deserialize(deserializer).map_err(|_| D::Error::custom(expected))?;
    let fields = |word: &Word| match word {
        Word::All => IndexedFields::all(),
        Word::None => IndexedFields::none(),
    };
    Ok(match shape {
        Shape::Word(word) => fields(&word),
        Shape::Fields(mut words) => {
            let default = words.remove(DEFAULT).map(|word| fields(&word));
            let exceptions = words.into_iter();
            exceptions.fold(default.unwrap_or_default(), |fields, (path, word)| {
                fields.with(&path, matches!(word, Word::All))
            })
        }
    })
}
