//! The fields of frozen files, as their tables have them.

use crate::Result;
use crate::field_stats::{CollectionFields, FieldStats, FieldType};
use crate::frozen_view::FrozenView;
use quire_index::term;
use quire_model::ordered::OrderedValue;
use quire_query::{Path, Shard};
use std::collections::{BTreeMap, BTreeSet};

/// The fields that were frozen and that a document has. Values are counted in each file, and the
/// types are those of the smallest and the largest value.
pub(crate) fn fields_of(view: &FrozenView) -> Result<CollectionFields> {
    let mut by_path: BTreeMap<String, FieldStats> = BTreeMap::new();
    let mut types: BTreeMap<String, BTreeSet<FieldType>> = BTreeMap::new();
    let files = view.files();
    for file in &files {
        for (path, _) in file.fields() {
            let Some(info) = file.field(&Path::new(path))? else {
                continue;
            };
            let field = by_path.entry(path.to_owned()).or_default();
            field.path = path.to_owned();
            field.documents += info.docs;
            field.several |= info.many;
            field.values += info.distinct.unwrap_or_default();
            field.estimated |= files.len() > 1;
            if let Some((least, greatest)) = &info.range {
                let ends = [type_of(least), type_of(greatest)];
                let types = types.entry(path.to_owned()).or_default();
                types.extend(ends.into_iter().flatten());
            }
        }
    }
    Ok(CollectionFields {
        documents: view.count(),
        from_index: true,
        fields: by_path
            .into_values()
            .map(|field| FieldStats {
                types: types.remove(&field.path).into_iter().flatten().collect(),
                ..field
            })
            .collect(),
        omitted: 0,
    })
}

fn type_of(value: &[u8]) -> Option<FieldType> {
    Some(match term::decode(value)? {
        OrderedValue::Null => FieldType::Null,
        OrderedValue::Bool(_) => FieldType::Boolean,
        OrderedValue::Int(_) | OrderedValue::UInt(_) => FieldType::Integer,
        OrderedValue::Float(_) => FieldType::Float,
        _ => FieldType::String,
    })
}
