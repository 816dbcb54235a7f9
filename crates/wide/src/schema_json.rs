//! The schema as JSON: a subset of JSON Schema, and what Quire adds (`group`, `groups`).
//!
//! The stored form is the same, with the numbers of columns (`column`, `nextColumn`).

use crate::group_tiers::{age_text, parse_age};
use crate::schema::{Column, ColumnType, FILTER_BITS, Group, GroupCodec, Schema};
use crate::{Error, GroupTiers, Result};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct SchemaJson {
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    properties: Map<String, Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    additional_properties: Option<bool>,
    #[serde(default)]
    groups: Map<String, Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    next_column: Option<u32>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct PropertyJson {
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    format: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    content_encoding: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    additional_properties: Option<Box<PropertyJson>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    group: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    column: Option<u32>,
    /// How long cells are there: a number and a unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    time_to_live: Option<String>,
    /// The group that the column was in at first, of one that has moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    moved_from: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct GroupJson {
    #[serde(default)]
    codec: GroupCodec,
    #[serde(default = "block_bytes")]
    block_bytes: u32,
    #[serde(default = "filter_bits", skip_serializing_if = "is_usual")]
    filter_bits: u32,
    /// The name of a medium.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tier: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tiers: Option<GroupTiers>,
}

impl GroupJson {
    /// The group that this describes.
    fn named(self, name: &str) -> Result<Group> {
        let tier = self.tier.map(|tier| tier.parse()).transpose();
        Ok(Group {
            codec: self.codec,
            block_bytes: self.block_bytes,
            filter_bits: self.filter_bits,
            tier: tier.map_err(|error: quire_env::Error| {
                Error::Invalid(format!("group {name:?}: tier: {error}"))
            })?,
            tiers: self.tiers,
            ..Group::new(name)
        })
    }
}

fn block_bytes() -> u32 {
    Group::new("").block_bytes
}

fn filter_bits() -> u32 {
    FILTER_BITS
}

/// What an older program need not know.
fn is_usual(bits: &u32) -> bool {
    *bits == FILTER_BITS
}

impl Schema {
    /// From a subset of JSON Schema: see the page "Wide documents".
    ///
    /// # Errors
    /// `Invalid`: what is unknown, or contradicts itself, is named.
    pub fn from_json(json: &[u8]) -> Result<Schema> {
        serde_json::from_slice(json).map_err(|error| Error::Invalid(format!("schema: {error}")))
    }

    /// As JSON that [`from_json`](Schema::from_json) takes.
    pub fn to_json(&self) -> String {
        serde_json::json!(self).to_string()
    }

    /// Adds a column as JSON Schema describes it, such as `{"type":"integer","group":"meta"}`.
    ///
    /// # Errors
    /// As of [`with_column`](Schema::with_column), and for what is no such description.
    pub fn with_property(self, name: &str, json: &[u8]) -> Result<Schema> {
        let wrong = |error| Error::Invalid(format!("column {name:?}: {error}"));
        let property: PropertyJson = serde_json::from_slice(json).map_err(wrong)?;
        if property.column.is_some() || property.moved_from.is_some() {
            let what = format!(
                "column {name:?}: leave \"column\" and \"movedFrom\" out: it gets the next number"
            );
            return Err(Error::Invalid(what));
        }
        property.add_to(self, name)
    }

    /// As [`with_time_to_live`](Schema::with_time_to_live), of a time such as `7d`.
    ///
    /// # Errors
    /// As there, and for what is no time.
    pub fn with_time_to_live_text(self, name: &str, text: Option<&str>) -> Result<Schema> {
        let time = text
            .map(parse_age)
            .transpose()
            .map_err(|what| Error::Invalid(format!("column {name:?}: timeToLive: {what}")))?;
        self.with_time_to_live(name, time)
    }

    /// Adds a group, or shapes one that there is otherwise, as JSON describes it, such as
    /// `{"codec":"zstd","tiers":{"hot":"ssd","cold":"hdd","after":"7d"}}`.
    ///
    /// # Errors
    /// As of [`with_group`](Schema::with_group), and for what is no such description.
    pub fn with_group_json(self, name: &str, json: &[u8]) -> Result<Schema> {
        let wrong = |error| Error::Invalid(format!("group {name:?}: {error}"));
        let group: GroupJson = serde_json::from_slice(json).map_err(wrong)?;
        self.with_group(group.named(name)?)
    }
}

impl Serialize for Schema {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        SchemaJson::from(self.clone()).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Schema {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Schema, D::Error> {
        let json = SchemaJson::deserialize(deserializer)?;
        Schema::try_from(json).map_err(serde::de::Error::custom)
    }
}

impl TryFrom<SchemaJson> for Schema {
    type Error = Error;

    fn try_from(json: SchemaJson) -> Result<Schema> {
        if json.kind.as_deref().is_some_and(|kind| kind != "object") {
            return Err(Error::Invalid(
                "the type of a document is \"object\"".into(),
            ));
        }
        let mut schema = Schema::new().keep_undeclared(json.additional_properties == Some(true));
        for (name, value) in json.groups {
            let wrong = |error| Error::Invalid(format!("group {name:?}: {error}"));
            let group: GroupJson = serde_json::from_value(value).map_err(wrong)?;
            schema = schema.with_group(group.named(&name)?)?;
        }
        let (mut numbered, mut moved) = (0, false);
        for (name, value) in json.properties {
            let wrong = |error| Error::Invalid(format!("column {name:?}: {error}"));
            let property: PropertyJson = serde_json::from_value(value).map_err(wrong)?;
            numbered += usize::from(property.column.is_some());
            moved |= property.moved_from.is_some();
            schema = property.add_to(schema, &name)?;
        }
        let next = json.next_column.unwrap_or(schema.next_number);
        // The stored form: all of them, and the next.
        let is_stored = json.next_column.is_some() && numbered == schema.columns.len();
        if (numbered > 0 || moved) && !is_stored || next < schema.next_number {
            return Err(Error::Invalid(
                "schema: give each column a number, \"column\", and \"nextColumn\", which is \
                 greater than all of them; or none of these"
                    .into(),
            ));
        }
        schema.next_number = next;
        Ok(schema)
    }
}

impl From<Schema> for SchemaJson {
    fn from(schema: Schema) -> SchemaJson {
        let properties = schema.columns.iter().map(|column| {
            let moved_from = schema.first_group_of(column);
            let property = PropertyJson::of(column, schema.group_of(column), moved_from);
            (column.name.clone(), serde_json::json!(property))
        });
        let groups = schema.groups.iter().map(|group| {
            let json = GroupJson {
                codec: group.codec,
                block_bytes: group.block_bytes,
                filter_bits: group.filter_bits,
                tier: group.tier.map(|tier| tier.to_string()),
                tiers: group.tiers,
            };
            (group.name.clone(), serde_json::json!(json))
        });
        SchemaJson {
            kind: Some("object".into()),
            properties: properties.collect(),
            additional_properties: Some(schema.keeps_rest),
            groups: groups.collect(),
            next_column: Some(schema.next_number),
        }
    }
}

impl PropertyJson {
    /// Adds the column that this describes.
    fn add_to(&self, schema: Schema, name: &str) -> Result<Schema> {
        let group = self.group.as_deref().unwrap_or("default");
        let wrong = |what: String| Error::Invalid(format!("column {name:?}: {what}"));
        let schema = match &self.additional_properties {
            None => {
                let kind = self.scalar().map_err(wrong)?;
                schema.add(name, kind, false, group, self.column)?
            }
            Some(members) if self.kind.as_deref().is_none_or(|kind| kind == "object") => {
                let is_nested = members.additional_properties.is_some()
                    || members.group.is_some()
                    || members.column.is_some()
                    || members.time_to_live.is_some()
                    || members.moved_from.is_some();
                if is_nested {
                    return Err(wrong("members of a family are plain values".into()));
                }
                let kind = members.scalar().map_err(wrong)?;
                schema.add(name, kind, true, group, self.column)?
            }
            Some(_) => {
                let what = "additionalProperties is for the type \"object\"".into();
                return Err(wrong(what));
            }
        };
        let schema = schema.with_time_to_live_text(name, self.time_to_live.as_deref())?;
        match &self.moved_from {
            Some(group) => schema.with_first_group(name, group),
            None => Ok(schema),
        }
    }

    fn scalar(&self) -> std::result::Result<ColumnType, String> {
        let (format, encoding) = (self.format.as_deref(), self.content_encoding.as_deref());
        Ok(match (self.kind.as_deref(), format, encoding) {
            (Some("string"), None, None) => ColumnType::String,
            (Some("string"), None, Some("base64")) => ColumnType::Bytes,
            (Some("integer"), None, None) => ColumnType::Int,
            (Some("integer"), Some("timestamp"), None) => ColumnType::Timestamp,
            (Some("number"), None, None) => ColumnType::Float,
            (Some("boolean"), None, None) => ColumnType::Bool,
            (None | Some("object" | "array"), None, None) => ColumnType::Json,
            _ => {
                return Err(
                    "use one of the types string (with contentEncoding base64: bytes), integer \
                     (with format timestamp: microseconds since 1970 UTC), number, boolean, or \
                     object, array or no type for JSON"
                        .into(),
                );
            }
        })
    }

    /// A column in a group, which it moved to from its first one if that is another.
    fn of(column: &Column, group: &str, moved_from: Option<&str>) -> PropertyJson {
        let mut scalar = PropertyJson::default();
        let kind = match column.kind {
            ColumnType::String | ColumnType::Bytes => Some("string"),
            ColumnType::Int | ColumnType::Timestamp => Some("integer"),
            ColumnType::Float => Some("number"),
            ColumnType::Bool => Some("boolean"),
            ColumnType::Json => None,
        };
        scalar.kind = kind.map(str::to_string);
        scalar.format = (column.kind == ColumnType::Timestamp).then(|| "timestamp".into());
        scalar.content_encoding = (column.kind == ColumnType::Bytes).then(|| "base64".into());
        let mut property = match column.family {
            false => scalar,
            true => PropertyJson {
                kind: Some("object".into()),
                additional_properties: Some(Box::new(scalar)),
                ..PropertyJson::default()
            },
        };
        property.group = Some(group.to_string());
        property.column = Some(column.number);
        property.time_to_live = column.time_to_live.map(age_text);
        property.moved_from = moved_from.map(str::to_string);
        property
    }
}
