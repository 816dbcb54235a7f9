//! `/{collection}/_cell/{id}/{column}`: one cell as its bytes, or members of a column family.
//!
//! `column` is a plain column, `family[member]`, or `family` for its members.

use axum::http::StatusCode;
use bytes::Bytes;
use quiredb::wide::{
    Cell, CellExpiry, Change, Column, ColumnType, Operand, RowWrite, WideCollection, parse_age,
};
use quiredb::{Document, ErrorKind, Key, ValueRef};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{condition_of, to_read, to_write};
use crate::documents::ack::{Ack, acknowledge, write_failure};
use crate::documents::conditions::{check_write, condition};
use crate::documents::parse::parse_key;
use crate::engine::Engine;
use crate::http::answer::{Answer, write_string};
use crate::http::call::Call;
use crate::http::failure::{Failure, Outcome};
use crate::http::params::Params;

/// Members of a page, by default and at most.
const PAGE_MEMBERS: usize = 1000;
const PAGE_MEMBERS_MAX: usize = 10_000;

/// A page ends with the member that makes it this long.
const PAGE_BYTES: usize = 4 << 20;

/// What a path names.
struct Named {
    column: Column,
    member: Option<String>,
}

impl Named {
    /// The column, or the member in brackets, that `text` names. A column whose own name has
    /// brackets is meant if there is one.
    fn of(wide: &WideCollection, text: &str) -> Outcome<Named> {
        let schema = wide.schema();
        if let Some(column) = schema.column(text) {
            let (column, member) = (column.clone(), None);
            return Ok(Named { column, member });
        }
        let split = text.strip_suffix(']').and_then(|text| text.split_once('['));
        let (name, member) = match split {
            Some((name, member)) => (name, Some(member.to_owned())),
            None => (text, None),
        };
        let column = schema.column(name).cloned().ok_or_else(|| {
            Failure::illegal_argument(format!("[{}] has no column [{name}]", wide.name()))
        })?;
        if member.is_some() && !column.family {
            let what = format!("column [{name}] is no family, so it has no members");
            return Err(Failure::illegal_argument(what));
        }
        Ok(Named { column, member })
    }

    fn is_whole_family(&self) -> bool {
        self.column.family && self.member.is_none()
    }

    /// Makes a change one of what is named.
    fn change(&self, change: Change) -> Change {
        match &self.member {
            Some(member) => change.of_member(member.clone()),
            None => change,
        }
    }
}

/// `GET /{collection}/_cell/{id}/{column}`
pub(crate) async fn get(call: Call<Engine>) -> Outcome<Answer> {
    let (index, id) = (call.collection(), call.id());
    let text = call.path_param("column").unwrap_or_default().to_owned();
    let params = call.params;
    let as_json = match params.text("format") {
        None | Some("raw") => false,
        Some("json") => true,
        Some(other) => {
            let what = format!("parameter [format] can't be [{other}]: it is raw or json");
            return Err(Failure::illegal_argument(what));
        }
    };
    let work = move |engine: &Engine| {
        let (wide, key) = (to_read(engine, &index)?, parse_key(&id)?);
        let named = Named::of(&wide, &text)?;
        if named.is_whole_family() {
            let page = Page {
                from: params.text("from"),
                to: params.text("to"),
                size: params.number("size")?.unwrap_or(PAGE_MEMBERS),
            };
            return page.answer(&wide, &key, &named.column.name);
        }
        for range in ["from", "to", "size"] {
            params.only(range, &[], "it is of the members of a column family")?;
        }
        let cell = wide.cell_until(&key, &named.column.name, named.member.as_deref());
        match cell.map_err(|error| Failure::engine(&error, Some(&index)))? {
            None => Err(absent(&index, &id, &text)),
            Some((cell, expires)) if as_json => {
                let mut json = b"{\"value\":".to_vec();
                cell.write_json(&mut json);
                if let Some(micros) = expires {
                    json.extend(format!(",\"expires_micros\":{micros}").bytes());
                }
                json.push(b'}');
                Ok(Answer::json(StatusCode::OK, json))
            }
            Some((cell, _)) => Ok(raw(cell)),
        }
    };
    call.state.read(work).await?
}

fn absent(index: &str, id: &str, column: &str) -> Failure {
    Failure::new(
        StatusCode::NOT_FOUND,
        "resource_not_found_exception",
        format!("Cell not found [{index}]/[{id}]/[{column}]"),
    )
}

/// A cell as it is: bytes and text alone, others as JSON.
fn raw(cell: Cell) -> Answer {
    let (content_type, bytes) = match cell {
        Cell::Bytes(bytes) => ("application/octet-stream", bytes),
        Cell::String(text) => ("text/plain; charset=utf-8", text.into_bytes()),
        other => {
            let mut json = Vec::new();
            other.write_json(&mut json);
            ("application/json; charset=UTF-8", json)
        }
    };
    Answer::bytes(content_type, Bytes::from(bytes))
}

/// A page of the members of a family.
struct Page<'a> {
    from: Option<&'a str>,
    to: Option<&'a str>,
    size: usize,
}

impl Page<'_> {
    fn answer(&self, wide: &WideCollection, key: &Key, family: &str) -> Outcome<Answer> {
        if self.size > PAGE_MEMBERS_MAX {
            let what = format!("parameter [size] is at most {PAGE_MEMBERS_MAX}");
            return Err(Failure::illegal_argument(what));
        }
        let failed = |error: quiredb::Error| Failure::engine(&error, Some(wide.name()));
        let members = wide.members(key, family, self.from, self.to);
        let mut members = members.map_err(failed)?;
        let (mut json, mut count) = (b"{\"members\":{".to_vec(), 0);
        let mut next = None;
        for member in &mut members {
            let (name, cell) = member.map_err(|error| failed(error.into()))?;
            if count == self.size || json.len() >= PAGE_BYTES {
                next = Some(name);
                break;
            }
            if count > 0 {
                json.push(b',');
            }
            write_string(&name, &mut json);
            json.push(b':');
            cell.write_json(&mut json);
            count += 1;
        }
        json.push(b'}');
        if let Some(next) = next {
            json.extend_from_slice(b",\"next\":");
            write_string(&next, &mut json);
        }
        json.push(b'}');
        Ok(Answer::json(StatusCode::OK, json))
    }
}

/// When a cell that is written expires, by the parameter `ttl`: so long after, or never.
fn expiry_of(params: &Params) -> Outcome<CellExpiry> {
    match params.text("ttl") {
        None => Ok(CellExpiry::Usual),
        Some("none") => Ok(CellExpiry::Never),
        Some(text) => match parse_age(text) {
            Ok(time) => Ok(CellExpiry::After(time)),
            Err(what) => {
                let what = format!("parameter [ttl]: {what}, or none");
                Err(Failure::illegal_argument(what))
            }
        },
    }
}

/// `PUT /{collection}/_cell/{id}/{column}`: the body is the cell. The row is made if there is none.
pub(crate) async fn put(call: Call<Engine>) -> Outcome<Answer> {
    let expiry = expiry_of(&call.params)?;
    write(call, RowWrite::upsert, move |named, body| {
        if named.is_whole_family() {
            let what = "name a member of the column family, as in links[http://a.org/]";
            return Err(Failure::illegal_argument(what));
        }
        let cell = cell_of(named.column.kind, body)?;
        let change = Change::set(&named.column.name, cell).expiring(expiry);
        Ok(named.change(change))
    })
    .await
}

/// `POST /{collection}/_cell/{id}/{column}`: changes the cell, without reading it unless it may
/// expire.
pub(crate) async fn merge(call: Call<Engine>) -> Outcome<Answer> {
    let expiry = expiry_of(&call.params)?;
    write(call, RowWrite::upsert, move |named, body| {
        let operand = operand_of(named.column.kind, body)?;
        let change = Change::merge(&named.column.name, operand).expiring(expiry);
        Ok(named.change(change))
    })
    .await
}

/// `DELETE /{collection}/_cell/{id}/{column}`: of a family all members, or those of a range. It
/// makes no row.
pub(crate) async fn delete(call: Call<Engine>) -> Outcome<Answer> {
    let range = |name: &str| call.params.text(name).map(str::to_owned);
    let (from, to) = (range("from"), range("to"));
    write(call, RowWrite::patch, move |named, _| {
        let name = &named.column.name;
        match (from.is_some() || to.is_some(), named.is_whole_family()) {
            (false, _) => Ok(named.change(Change::remove(name))),
            (true, true) => Ok(Change::remove_members(name, from, to)),
            (true, false) => Err(Failure::illegal_argument(
                "parameters [from] and [to] are of the members of a column family",
            )),
        }
    })
    .await
}

/// Writes the change that `change_of` makes of what is named and of the body, by a write that
/// `write_of` makes of the key.
async fn write(
    call: Call<Engine>,
    write_of: fn(Key) -> RowWrite,
    change_of: impl FnOnce(&Named, &[u8]) -> Outcome<Change> + Send + 'static,
) -> Outcome<Answer> {
    let (engine, index, id) = (call.state.clone(), call.collection(), call.id());
    check_write(&call.params)?;
    let condition = condition(&call.params, false)?;
    let text = call.path_param("column").unwrap_or_default().to_owned();
    let params = call.params.clone();
    let body = call.take_body().await?;
    let work = move |engine: &Engine| {
        let (wide, key) = (to_write(engine, &index)?, parse_key(&id)?);
        let (index, named) = (wide.name(), Named::of(&wide, &text)?);
        let change = change_of(&named, &body.bytes)?;
        let write = write_of(key).with(change);
        let written = wide.write(&write.condition(condition_of(condition)?));
        let written = written.map_err(|error| match error.kind() {
            ErrorKind::NotFound => Failure::document_missing(index, &id),
            _ => write_failure(&error, index, &id),
        })?;
        let ack = Ack::put(written).answered_to(&params);
        Ok(acknowledge(ack, index, &id))
    };
    engine.write(work).await?
}

/// The cell that a body is in a column of this type.
fn cell_of(kind: ColumnType, body: &[u8]) -> Outcome<Cell> {
    let text = || {
        let text = std::str::from_utf8(body);
        text.map_err(|_| Failure::parse("the body is no UTF-8"))
    };
    match kind {
        ColumnType::Bytes => Ok(Cell::Bytes(body.to_vec())),
        ColumnType::String => Ok(Cell::String(text()?.to_owned())),
        _ => value_cell(kind, text()?),
    }
}

/// The cell that a JSON value is.
fn value_cell(kind: ColumnType, json: &str) -> Outcome<Cell> {
    let wrapped = format!("{{\"value\":{json}}}");
    let document = Document::from_json(wrapped.as_bytes());
    let document = document.map_err(|error| Failure::parse(error.to_string()))?;
    if document.fields().count() != 1 {
        return Err(Failure::parse("the body is more than one JSON value"));
    }
    let value = document.get("value").unwrap_or(ValueRef::Null);
    match Cell::from_json(kind, value) {
        Ok(Some(cell)) => Ok(cell),
        Ok(None) => Err(Failure::illegal_argument(
            "null is no cell: DELETE removes one",
        )),
        Err(what) => Err(Failure::illegal_argument(what)),
    }
}

/// One operand, by its name.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
enum OperandBody<'a> {
    Add(i64),
    #[serde(borrow)]
    Append(&'a RawValue),
    AddToSet(Vec<Value>),
    #[serde(borrow)]
    Max(&'a RawValue),
}

fn operand_of(kind: ColumnType, body: &[u8]) -> Outcome<Operand> {
    let body: OperandBody<'_> = serde_json::from_slice(body).map_err(|error| {
        Failure::parse(format!(
            "{error}: the body is one of {{\"add\": n}}, {{\"append\": value}}, \
             {{\"add_to_set\": [values]}} and {{\"max\": value}}"
        ))
    })?;
    Ok(match body {
        OperandBody::Add(number) => Operand::Add(number),
        OperandBody::Append(value) => Operand::Append(value_cell(kind, value.get())?),
        OperandBody::AddToSet(values) => Operand::AddToSet(Value::Array(values).to_string()),
        OperandBody::Max(value) => Operand::Max(value_cell(kind, value.get())?),
    })
}
