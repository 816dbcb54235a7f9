//! Values of queries, converted to the types of mappings, as OpenSearch does it.
//!
//! Documents keep the values that they were written with. So a query about a field with a type is
//! about all forms in which a document may have the value: 5 and "5" for a `keyword`.

pub(crate) mod dates;
pub(crate) mod facets;

use std::ops::Bound;
use std::sync::Arc;

use quiredb::query::{
    Cast, DateFormat, DateFormats, Filter, Order, OrderedAs, Path, PatternKind, Query, Value,
};
use quiredb::{Aliases, Collection, FieldKind, ID, Mapping, View};

use super::search_limits::SearchLimits;
use super::selection::Searched;
use crate::engine::Engine;
use crate::http::failure::Outcome;
use crate::search::filter::{INDEX, unsupported};

/// The mappings of the collections that a request is about, and the limits that their settings set
/// to a search. By default there are none.
#[derive(Debug, Default, Clone)]
pub(crate) struct Mappings {
    mappings: Vec<Mapping>,
    /// Whether each collection has one.
    is_of_all: bool,
    limits: SearchLimits,
    /// The current time, for date math: milliseconds since 1970 UTC.
    now: i64,
    /// The most buckets of an answer.
    buckets_max: u64,
    aliases: Arc<Aliases>,
}

impl Mappings {
    /// Those of collections. A wide one has none: it has a schema.
    pub(crate) fn of_searched(engine: &Engine, collections: &[Searched]) -> Mappings {
        let plain = collections.iter().filter_map(Searched::plain);
        let mut mappings = Mappings::of(engine, plain);
        mappings.is_of_all &= collections.iter().all(|one| one.plain().is_some());
        mappings
    }

    pub(crate) fn of<'a>(
        engine: &Engine,
        collections: impl IntoIterator<Item = &'a Collection>,
    ) -> Mappings {
        let mut limits = SearchLimits::default();
        let mappings = collections.into_iter().map(|collection| {
            let settings = collection.settings();
            limits.add(&settings.api);
            settings.mapping.clone()
        });
        let (mappings, empty): (Vec<Mapping>, Vec<Mapping>) =
            mappings.partition(|mapping| !mapping.is_empty());
        Mappings {
            is_of_all: !mappings.is_empty() && empty.is_empty(),
            mappings,
            limits,
            now: engine.now_millis(),
            buckets_max: engine.buckets_max(),
            aliases: engine.database().aliases(),
        }
    }

    /// Of the collections of views; those that were dropped meanwhile have none.
    pub(crate) fn of_views(engine: &Engine, views: &[View]) -> Mappings {
        let collections = views.iter();
        let collections = collections.map(|view| engine.collection_named(view.collection_name()));
        let collections: Vec<Collection> = collections.flatten().collect();
        let mut mappings = Mappings::of(engine, &collections);
        mappings.is_of_all &= collections.len() == views.len();
        mappings
    }

    /// The current time, in milliseconds since 1970 UTC.
    pub(crate) fn now(&self) -> i64 {
        self.now
    }

    /// The most buckets that an answer may have.
    pub(crate) fn buckets_max(&self) -> u64 {
        self.buckets_max
    }

    /// What one search may want.
    pub(crate) fn limits(&self) -> &SearchLimits {
        &self.limits
    }

    /// Whether the mapping of each collection gives a field a type whose values are compared whole.
    pub(crate) fn is_whole(&self, path: &str) -> bool {
        let is_whole = |mapping: &Mapping| {
            let kind = mapping.kind(path);
            kind.is_some_and(|kind| !kind.is_analyzed())
        };
        self.is_of_all && self.mappings.iter().all(is_whole)
    }

    /// The type of a field, if all that name it agree.
    pub(crate) fn kind(&self, path: &Path) -> Option<FieldKind> {
        let kinds = self.mappings.iter();
        let mut kinds = kinds.filter_map(|mapping| mapping.kind(path.as_str()));
        let first = kinds.next()?;
        kinds.all(|other| other == first).then_some(first)
    }

    /// The formats that the dates of a field are read by, if these are not the usual ones.
    pub(crate) fn own_formats(&self, path: &Path) -> Option<&DateFormats> {
        let mut mappings = self.mappings.iter();
        mappings.find_map(|mapping| mapping.own_date_formats(path.as_str()))
    }

    /// Whether a mapping says how the dates of a field are written.
    pub(crate) fn has_formats(&self) -> bool {
        let mut mappings = self.mappings.iter();
        mappings.any(Mapping::has_date_formats)
    }

    /// How the dates of a field are shown, unless the request says it.
    pub(crate) fn shown_format(&self, path: &Path) -> DateFormat {
        let mut mappings = self.mappings.iter();
        let formats = mappings.find_map(|mapping| mapping.date_formats(path.as_str()));
        match (formats, self.kind(path)) {
            (Some(formats), _) => formats.shown().clone(),
            (None, Some(FieldKind::DateNanos)) => DateFormat::ISO_NANOS,
            (None, _) => DateFormat::ISO,
        }
    }

    /// The filter with its values converted, and fields as documents have them.
    ///
    /// # Errors
    /// 400 for a value that can't be one of its field.
    pub(crate) fn convert(&self, filter: Filter) -> Outcome<Filter> {
        let mut filter = self.converted(filter)?;
        filter.each_path_mut(&mut |path| self.rename(path));
        Ok(filter)
    }

    /// Takes another name of a field, one of the `fields` that a mapping gives it, for the field.
    pub(crate) fn rename(&self, path: &mut Path) {
        let mut mappings = self.mappings.iter();
        let field = mappings.find_map(|mapping| mapping.sub_field(path.as_str()));
        if let Some((field, _)) = field {
            *path = Path::new(field);
        }
    }

    /// The collections that a name stands for: those of the alias, or the one.
    fn collections(&self, name: &Value) -> Vec<Value> {
        let alias = name.as_str().and_then(|name| self.aliases.get(&*name));
        match alias {
            Some(collections) => collections.keys().map(|one| one.as_str().into()).collect(),
            None => vec![name.clone()],
        }
    }

    fn converted(&self, filter: Filter) -> Outcome<Filter> {
        let all = |filters: Vec<Filter>| -> Outcome<Vec<Filter>> {
            filters.into_iter().map(|one| self.converted(one)).collect()
        };
        if let Filter::In(path, values) = &filter
            && !matches!(path.as_str(), ID | INDEX)
        {
            self.limits.check_terms(values.len())?;
        }
        if let Filter::In(path, _) | Filter::Range(path, ..) | Filter::Cast(_, path, ..) = &filter {
            self.check_formats(path)?;
            self.check_leaf(&filter, path)?;
        }
        Ok(match filter {
            Filter::And(filters) => Filter::And(all(filters)?),
            Filter::Or(filters) => Filter::Or(all(filters)?),
            Filter::Not(one) => !self.converted(*one)?,
            Filter::Eq(path, value) => self.converted(Filter::In(path, vec![value]))?,
            Filter::In(path, values) if path.as_str() == INDEX => {
                let names = values.iter().flat_map(|name| self.collections(name));
                Filter::In(path, names.collect())
            }
            Filter::In(path, values) => match self.kind(&path) {
                Some(FieldKind::Date) => {
                    let on = |value: &Value| {
                        let bound = Bound::Included(value.clone());
                        self.dates_between(&path, &bound, &bound)
                    };
                    Filter::Or(values.iter().map(on).collect::<Outcome<_>>()?)
                }
                Some(FieldKind::DateNanos) => {
                    let on = |value: &Value| {
                        let bound = Bound::Included(value.clone());
                        dates::nanos(path.clone(), &bound, &bound, self.now)
                    };
                    Filter::Or(values.iter().map(on).collect::<Outcome<_>>()?)
                }
                Some(FieldKind::Ip) => {
                    let of = |value: Value| {
                        let bound = Bound::Included(value);
                        Filter::Cast(Cast::Address, path.clone(), bound.clone(), bound)
                    };
                    Filter::Or(values.into_iter().map(of).collect())
                }
                Some(kind) if !kind.is_searchable() => return refuse(kind, &path),
                Some(kind) if kind.is_number() => {
                    let equal = |value: Value| {
                        let bound = as_number(kind, Bound::Included(value))?;
                        Ok(Filter::Cast(
                            number_cast(kind),
                            path.clone(),
                            bound.clone(),
                            bound,
                        ))
                    };
                    Filter::Or(values.into_iter().map(equal).collect::<Outcome<_>>()?)
                }
                Some(kind) => {
                    let mut forms = Vec::new();
                    for value in &values {
                        forms.extend(self::forms(kind, value)?);
                    }
                    Filter::In(path, forms)
                }
                None if path.as_str() == ID => Filter::In(path, values),
                None => Filter::In(path, values.into_iter().flat_map(any_form).collect()),
            },
            // The field exists.
            Filter::Range(path, Bound::Unbounded, Bound::Unbounded) => {
                Filter::Range(path, Bound::Unbounded, Bound::Unbounded)
            }
            Filter::Range(path, lower, upper) => match self.kind(&path) {
                Some(kind) if kind.is_number() => {
                    let (lower, upper) = (as_number(kind, lower)?, as_number(kind, upper)?);
                    Filter::Cast(number_cast(kind), path, lower, upper)
                }
                Some(kind) if kind.is_text() => {
                    Filter::Cast(Cast::Text, path, as_text(lower), as_text(upper))
                }
                Some(FieldKind::Date) => self.dates_between(&path, &lower, &upper)?,
                Some(FieldKind::DateNanos) => dates::nanos(path, &lower, &upper, self.now)?,
                Some(FieldKind::Ip) => Filter::Cast(Cast::Address, path, lower, upper),
                Some(kind) if !kind.is_searchable() => return refuse(kind, &path),
                _ => Filter::Range(path, lower, upper),
            },
            // A range that said how its dates are to be read: its bounds are milliseconds, or text
            // of ISO 8601 to the millisecond.
            Filter::Cast(Cast::Date, path, lower, upper) => match self.kind(&path) {
                Some(FieldKind::Date) => match self.own_formats(&path) {
                    Some(formats) => dates::between_as(&path, formats, &lower, &upper, self.now)?,
                    None => dates::between(path, &lower, &upper, self.now)?,
                },
                Some(FieldKind::DateNanos) => dates::nanos(path, &lower, &upper, self.now)?,
                // Milliseconds are numbers, of which the field may be.
                _ if dates::are_millis(&lower, &upper) => {
                    self.converted(Filter::Range(path, lower, upper))?
                }
                None => Filter::Cast(Cast::Date, path, lower, upper),
                Some(kind) => {
                    return Err(unsupported(format!(
                        "[format] and [time_zone] of [range] are about dates, and [{}] has the \
                         type [{}]",
                        path.as_str(),
                        kind.name()
                    )));
                }
            },
            Filter::Prefix(path, prefix) => {
                self.check_searchable(&path)?;
                self.check_texts("prefix", &path)?;
                let strings = Filter::Prefix(path.clone(), prefix.clone());
                match self.kind(&path) {
                    // Numbers and booleans are in this range of texts if they begin so.
                    Some(kind) if kind.is_text() => {
                        let end = Value::from(format!("{prefix}{}", char::MAX));
                        let (lower, upper) = (Value::from(prefix), Bound::Excluded(end));
                        strings.or(Filter::Cast(
                            Cast::Text,
                            path,
                            Bound::Included(lower),
                            upper,
                        ))
                    }
                    _ => strings,
                }
            }
            Filter::Like(path, pattern) => {
                self.check_searchable(&path)?;
                let query = match pattern.kind() {
                    PatternKind::Wildcard => "wildcard",
                    PatternKind::Regexp => "regexp",
                    PatternKind::Fuzzy => "fuzzy",
                };
                self.check_texts(query, &path)?;
                Filter::Like(path, pattern)
            }
            other => other,
        })
    }

    /// Dates of a field between two bounds, which are read as the mapping says.
    fn dates_between(
        &self,
        path: &Path,
        lower: &Bound<Value>,
        upper: &Bound<Value>,
    ) -> Outcome<Filter> {
        match self.own_formats(path) {
            Some(formats) => dates::between_formatted(path, formats, lower, upper, self.now),
            None => dates::between(path.clone(), lower, upper, self.now),
        }
    }

    /// Refuses a field whose dates are read by other formats in one collection than in another:
    /// their values can't be compared in one search.
    ///
    /// # Errors
    /// 400.
    fn check_formats(&self, path: &Path) -> Outcome<()> {
        let mut mappings = self.mappings.iter();
        let Some(first) = self.own_formats(path) else {
            return Ok(());
        };
        let differs = |mapping: &&Mapping| {
            let is_named = mapping.kind(path.as_str()).is_some();
            is_named && mapping.own_date_formats(path.as_str()) != Some(first)
        };
        match mappings.find(differs) {
            None => Ok(()),
            Some(other) => {
                let other = other.date_formats(path.as_str());
                let other = other.map_or("none", DateFormats::as_str);
                Err(unsupported(format!(
                    "field [{path}] has the date format [{}] in one collection and [{other}] in \
                     another: search them one by one",
                    first.as_str()
                )))
            }
        }
    }

    /// A query with the values of its filter converted, and its orders by the types of fields.
    ///
    /// # Errors
    /// 400 for a value that can't be one of its field, and for an order or a group by a field whose
    /// type can't be.
    pub(crate) fn convert_query(&self, query: &mut Query) -> Outcome<()> {
        let filter = std::mem::replace(&mut query.filter, Filter::All);
        query.filter = self.convert(filter)?;
        self.convert_orders(&mut query.order)
    }

    pub(crate) fn convert_orders(&self, orders: &mut [Order]) -> Outcome<()> {
        for order in orders {
            self.check_searchable(&order.path)?;
            if let Some(cast) = self.cast(&order.path) {
                order.by = OrderedAs::Cast(cast);
            }
            if let Some(value) = order.missing.take() {
                order.missing = Some(missing(order, value)?);
            }
            self.rename(&mut order.path);
        }
        Ok(())
    }

    /// As what the values of a field are compared; none as they are.
    pub(crate) fn cast(&self, path: &Path) -> Option<Cast> {
        let kind = self.kind(path)?;
        match kind {
            FieldKind::Date => Some(match self.own_formats(path) {
                Some(formats) => Cast::DateAs(formats.clone()),
                None => Cast::Date,
            }),
            FieldKind::DateNanos => Some(Cast::Nanos),
            FieldKind::Ip => Some(Cast::Address),
            FieldKind::Boolean => Some(Cast::Boolean),
            kind if kind.is_number() => Some(number_cast(kind)),
            kind if kind.is_text() => Some(Cast::Text),
            _ => None,
        }
    }

    /// Refuses to compare a whole object with a value: there is none.
    fn check_leaf(&self, filter: &Filter, path: &Path) -> Outcome<()> {
        let is_exists = matches!(filter, Filter::Range(_, Bound::Unbounded, Bound::Unbounded));
        match self.kind(path) {
            Some(kind @ FieldKind::FlatObject) if !is_exists => Err(unsupported(format!(
                "field [{path}] is a {}: name the field in it, as in [{path}.FIELD]",
                kind.name()
            ))),
            _ => Ok(()),
        }
    }

    /// Refuses a query of the beginnings or the letters of values that are no texts.
    fn check_texts(&self, query: &str, path: &Path) -> Outcome<()> {
        match self.kind(path) {
            Some(kind) if !kind.is_text() => Err(unsupported(format!(
                "Can only use {query} queries on keyword, text and wildcard fields - not on \
                 [{path}] which is of type [{}]",
                kind.name()
            ))),
            _ => Ok(()),
        }
    }

    fn check_searchable(&self, path: &Path) -> Outcome<()> {
        self.check_formats(path)?;
        match self.kind(path) {
            Some(kind) if !kind.is_searchable() => refuse(kind, path),
            _ => Ok(()),
        }
    }
}

/// As what numbers of a type are compared.
fn number_cast(kind: FieldKind) -> Cast {
    match kind {
        FieldKind::HalfFloat => Cast::Half,
        _ => Cast::Number,
    }
}

/// Refuses to look for values of a type by what they are.
fn refuse<T>(kind: FieldKind, path: &Path) -> Outcome<T> {
    let what = match kind {
        FieldKind::Binary => "Binary fields do not support searching",
        _ => "there are no geographic queries: only [exists] can be used",
    };
    let kind = kind.name();
    Err(unsupported(format!(
        "field [{path}] of type [{kind}]: {what}"
    )))
}

/// The forms in which a document may have a value.
fn forms(kind: FieldKind, value: &Value) -> Outcome<Vec<Value>> {
    let text = value.as_str();
    let text = text.as_deref();
    if let Some(text) = text
        && kind == FieldKind::Boolean
    {
        return match text {
            "true" => Ok(vec![Value::from(true), Value::from("true")]),
            "false" | "" => Ok(vec![Value::from(false), Value::from("false")]),
            _ => Err(unsupported(format!(
                "Can't parse boolean value [{text}], expected [true] or [false]"
            ))),
        };
    }
    let mut forms = vec![value.clone()];
    if kind == FieldKind::Boolean {
        forms.push(text_of(value));
    }
    if kind.is_text() {
        match text {
            // A text that a number or a boolean is written as.
            Some(text) => {
                let said = number_or_boolean(text);
                forms.extend(said.filter(|said| text_of(said) == Value::from(text)));
            }
            None => forms.push(text_of(value)),
        }
    }
    Ok(forms)
}

/// The forms in which a document may have a value whose field has no type: a number may be text,
/// and a text a number.
fn any_form(value: Value) -> Vec<Value> {
    let other = match value.as_str() {
        Some(text) => number_or_boolean(&text),
        None => Some(text_of(&value)),
    };
    [Some(value), other].into_iter().flatten().collect()
}

/// The number or boolean that a text is.
pub(crate) fn number_or_boolean(text: &str) -> Option<Value> {
    match text {
        "true" => Some(Value::from(true)),
        "false" => Some(Value::from(false)),
        text => {
            let whole = text.parse::<i64>().map(Value::from).ok();
            whole.or_else(|| {
                text.parse::<f64>()
                    .ok()
                    .filter(|it| it.is_finite())
                    .map(Value::from)
            })
        }
    }
}

/// The text that a number or a boolean is written as.
pub(crate) fn text_of(value: &Value) -> Value {
    Value::from(value.to_string().to_ascii_lowercase())
}

/// The value that documents without one are ordered by, as the values of the order are compared.
fn missing(order: &Order, value: Value) -> Outcome<Value> {
    let text: Option<String> = value.as_str().map(Into::into);
    let converted = match (&order.by, text.as_deref()) {
        (OrderedAs::Cast(Cast::Number | Cast::Half | Cast::Flag), Some(text)) => {
            Value::from_numeral(text)
        }
        (OrderedAs::Cast(Cast::Number | Cast::Half | Cast::Flag), None) => {
            value.as_f64().map(|_| value.clone())
        }
        (OrderedAs::Cast(Cast::Date), _) => value.as_date_millis().map(Value::from),
        (OrderedAs::Cast(Cast::DateAs(formats)), Some(_)) => {
            formats.millis_of(&value).map(Value::from)
        }
        (OrderedAs::Cast(Cast::DateAs(_)), None) => value.as_date_millis().map(Value::from),
        (OrderedAs::Cast(Cast::Nanos), _) => value.as_date_nanos().map(Value::from),
        (OrderedAs::Cast(Cast::Boolean), Some(text)) => text.parse::<bool>().ok().map(Value::from),
        (OrderedAs::Cast(Cast::Boolean), None) => value.as_f64().is_none().then(|| value.clone()),
        (OrderedAs::Cast(Cast::Address), _) => None,
        (OrderedAs::Cast(Cast::Text), None) => Some(text_of(&value)),
        (OrderedAs::Cast(Cast::Text), Some(_)) => Some(value.clone()),
        // Without a type a text that is a number stands for it, as clients send it.
        (OrderedAs::Value | OrderedAs::NotNull, Some(text)) => {
            Some(Value::from_numeral(text).unwrap_or_else(|| value.clone()))
        }
        (OrderedAs::Value | OrderedAs::NotNull, None) => Some(value.clone()),
    };
    converted.ok_or_else(|| {
        unsupported(format!(
            "[missing] of [sort] can't be [{value}] for [{}]",
            order.path.as_str()
        ))
    })
}

/// A bound as text.
fn as_text(bound: Bound<Value>) -> Bound<Value> {
    bound.map(|value| match value.as_str() {
        Some(_) => value,
        None => text_of(&value),
    })
}

fn number(kind: FieldKind, text: &str) -> Outcome<Value> {
    let refused = || {
        let kind = kind.name();
        unsupported(format!(
            "failed to create query: For input string: \"{text}\" of type [{kind}]"
        ))
    };
    match number_or_boolean(text) {
        Some(value) if value.as_f64().is_some() => Ok(value),
        _ => Err(refused()),
    }
}

fn as_number(kind: FieldKind, bound: Bound<Value>) -> Outcome<Bound<Value>> {
    let converted = |value: Value| match value.as_str() {
        Some(text) => number(kind, &text),
        None => Ok(value),
    };
    Ok(match bound {
        Bound::Included(value) => Bound::Included(converted(value)?),
        Bound::Excluded(value) => Bound::Excluded(converted(value)?),
        Bound::Unbounded => Bound::Unbounded,
    })
}
