//! The columns of a file as a tree: which belong to one struct, list or map.

use crate::value::Kind;
use parquet::basic::{ConvertedType, LogicalType, Repetition};
use parquet::schema::types::{SchemaDescriptor, Type, TypePtr};
use std::ops::Range;

/// Documents are nested no deeper.
const DEPTH_MAX: usize = 128;

/// A field, an element of a list, or a value of a map.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) name: String,
    /// The definition level from which on there is a value; none where there always is.
    pub(crate) present: Option<i16>,
    /// The columns below it, at least one.
    pub(crate) columns: Range<usize>,
    pub(crate) shape: Shape,
}

/// What a value is.
#[derive(Debug)]
pub(crate) enum Shape {
    /// One of a column.
    Scalar(Kind),
    Object(Vec<Node>),
    List(Repeated, Box<Node>),
    /// Its keys are of a column; a map without values has keys only.
    Map(Repeated, Box<Node>, Option<Box<Node>>),
}

/// Levels of what is repeated.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Repeated {
    /// The definition level from which on there is an element.
    pub(crate) definition: i16,
    /// The repetition level with which a further element comes.
    pub(crate) repetition: i16,
}

/// The levels of the node above.
#[derive(Debug, Clone, Copy)]
struct Level {
    definition: i16,
    repetition: i16,
    depth: usize,
}

/// The fields of a file's rows.
///
/// # Errors
/// If the schema is nested too deeply, or has a type that can't be read.
pub(crate) fn fields(schema: &SchemaDescriptor) -> Result<Vec<Node>, String> {
    let top = Level {
        definition: 0,
        repetition: 0,
        depth: 0,
    };
    let mut columns = 0;
    let fields = schema.root_schema().get_fields().iter();
    fields
        .map(|field| node(field, top, schema, &mut columns))
        .collect()
}

/// The next node, whose columns begin at `columns`.
fn node(
    of: &Type,
    above: Level,
    schema: &SchemaDescriptor,
    columns: &mut usize,
) -> Result<Node, String> {
    let info = of.get_basic_info();
    let repetition = info.has_repetition().then(|| info.repetition());
    if repetition != Some(Repetition::REPEATED) {
        return single(of, above, schema, columns);
    }
    // A list of an old writer, which nothing else marks.
    let (mut level, first) = (above, *columns);
    let repeated = repeat(&mut level);
    let element = single(of, level, schema, columns)?;
    Ok(Node {
        name: of.name().to_owned(),
        present: None,
        columns: first..*columns,
        shape: Shape::List(repeated, Box::new(element)),
    })
}

/// As [`node`], of one element if it is repeated.
fn single(
    of: &Type,
    above: Level,
    schema: &SchemaDescriptor,
    columns: &mut usize,
) -> Result<Node, String> {
    if above.depth >= DEPTH_MAX {
        return Err(format!("its schema is nested deeper than {DEPTH_MAX}"));
    }
    let mut level = Level {
        depth: above.depth + 1,
        ..above
    };
    let info = of.get_basic_info();
    let is_optional = info.has_repetition() && info.repetition() == Repetition::OPTIONAL;
    level.definition += i16::from(is_optional);
    let first = *columns;
    let shape = shape(of, level, schema, columns)?;
    if first == *columns {
        return Err(format!("its group {:?} has no columns", of.name()));
    }
    Ok(Node {
        name: of.name().to_owned(),
        present: is_optional.then_some(level.definition),
        columns: first..*columns,
        shape,
    })
}

fn shape(
    of: &Type,
    mut level: Level,
    schema: &SchemaDescriptor,
    columns: &mut usize,
) -> Result<Shape, String> {
    if of.is_primitive() {
        let column = *columns;
        *columns += 1;
        return Ok(Shape::Scalar(Kind::of(&schema.column(column))?));
    }
    let children = of.get_fields();
    let repeated = match children {
        [only] if is_repeated(only) => Some(only),
        _ => None,
    };
    let info = of.get_basic_info();
    let (logical, converted) = (info.logical_type_ref(), info.converted_type());
    if let Some(list) = repeated
        && (matches!(logical, Some(LogicalType::List)) || converted == ConvertedType::LIST)
    {
        let repeated = repeat(&mut level);
        let element = single(element(list, of.name()), level, schema, columns)?;
        return Ok(Shape::List(repeated, Box::new(element)));
    }
    let is_map = matches!(logical, Some(LogicalType::Map))
        || matches!(converted, ConvertedType::MAP | ConvertedType::MAP_KEY_VALUE);
    if let Some(entries) = repeated
        && is_map
        && entries.is_group()
        && let [key, values @ ..] = entries.get_fields()
        && key.is_primitive()
        && !is_repeated(key)
        && values.len() < 2
    {
        let repeated = repeat(&mut level);
        let key = node(key, level, schema, columns)?;
        let value = values.first();
        let value = value.map(|value| node(value, level, schema, columns));
        let value = value.transpose()?.map(Box::new);
        return Ok(Shape::Map(repeated, Box::new(key), value));
    }
    let fields = children.iter();
    let fields = fields.map(|field| node(field, level, schema, columns));
    Ok(Shape::Object(fields.collect::<Result<_, _>>()?))
}

fn repeat(level: &mut Level) -> Repeated {
    level.definition += 1;
    level.repetition += 1;
    Repeated {
        definition: level.definition,
        repetition: level.repetition,
    }
}

fn is_repeated(of: &TypePtr) -> bool {
    let info = of.get_basic_info();
    info.has_repetition() && info.repetition() == Repetition::REPEATED
}

/// What the elements of a list are. The repeated group is a wrapper of one field, but with old
/// writers, which its name and its fields show.
///
/// Source: the Parquet format's "LogicalTypes", rules for backward compatibility of lists.
fn element<'t>(repeated: &'t TypePtr, list: &str) -> &'t Type {
    match repeated.is_group().then(|| repeated.get_fields()) {
        Some([only])
            if repeated.name() != "array"
                && repeated.name() != format!("{list}_tuple")
                && !is_repeated(only) =>
        {
            only
        }
        _ => repeated,
    }
}
