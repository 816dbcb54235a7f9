//! `_index_template`, `_component_template`, `_template`.

use axum::http::StatusCode;
use quiredb::Templates;
use serde_json::{Value, json};

use super::flat_settings::flat;
use super::settings;
use super::templates::{
    Kind, applied, checked, chosen, composed, matching, of_kind, priority, texts,
};
use crate::engine::Engine;
use crate::http::answer::Answer;
use crate::http::call::Call;
use crate::http::failure::{Failure, Outcome};
use crate::http::fields::glob;
use crate::search::request::parse;

pub(crate) async fn get_component(call: Call<Engine>) -> Outcome<Answer> {
    get(&call, Kind::Component)
}

pub(crate) async fn get_index(call: Call<Engine>) -> Outcome<Answer> {
    get(&call, Kind::Index)
}

pub(crate) async fn get_legacy(call: Call<Engine>) -> Outcome<Answer> {
    get(&call, Kind::Legacy)
}

pub(crate) async fn put_component(call: Call<Engine>) -> Outcome<Answer> {
    put(call, Kind::Component).await
}

pub(crate) async fn put_index(call: Call<Engine>) -> Outcome<Answer> {
    put(call, Kind::Index).await
}

pub(crate) async fn put_legacy(call: Call<Engine>) -> Outcome<Answer> {
    put(call, Kind::Legacy).await
}

pub(crate) async fn delete_component(call: Call<Engine>) -> Outcome<Answer> {
    delete(call, Kind::Component).await
}

pub(crate) async fn delete_index(call: Call<Engine>) -> Outcome<Answer> {
    delete(call, Kind::Index).await
}

pub(crate) async fn delete_legacy(call: Call<Engine>) -> Outcome<Answer> {
    delete(call, Kind::Legacy).await
}

/// The templates of a kind whose names match; all if none is named.
fn get(call: &Call<Engine>, kind: Kind) -> Outcome<Answer> {
    let is_flat = call.params.flag("flat_settings")?.unwrap_or(false);
    let named = call.path_param("name");
    let templates = call.state.database().templates();
    let matches = |name: &str| {
        let mut patterns = named.unwrap_or("*").split(',');
        patterns.any(|pattern| glob(pattern.as_bytes(), name.as_bytes()))
    };
    let found: Vec<(&str, &Value)> = of_kind(&templates, kind)
        .filter(|(name, _)| matches(name))
        .collect();
    let is_missing = found.is_empty() && named.is_some_and(|named| !named.contains('*'));
    if kind == Kind::Legacy {
        let found = found.into_iter();
        let shown = found.map(|(name, template)| {
            let mut template = template.clone();
            flatten(&mut template, is_flat);
            (name.to_owned(), template)
        });
        let status = match is_missing {
            true => StatusCode::NOT_FOUND,
            false => StatusCode::OK,
        };
        return Ok(Answer::value(status, &Value::Object(shown.collect())));
    }
    if is_missing {
        let (kind, named) = (kind.name(), named.unwrap_or_default());
        return Err(Failure::new(
            StatusCode::NOT_FOUND,
            "resource_not_found_exception",
            format!("{kind} matching [{named}] not found"),
        ));
    }
    let (list, member) = match kind {
        Kind::Component => ("component_templates", "component_template"),
        _ => ("index_templates", "index_template"),
    };
    let shown = found.into_iter();
    let shown = shown.map(|(name, template)| {
        let mut template = template.clone();
        if let Some(inner) = template.get_mut("template") {
            flatten(inner, is_flat);
        }
        if kind == Kind::Index && template.get("composed_of").is_none() {
            template["composed_of"] = json!([]);
        }
        json!({"name": name, member: template})
    });
    let shown: Vec<Value> = shown.collect();
    Ok(Answer::ok(&json!({ list: shown })))
}

/// Shows the settings of a template by dotted names, if they are to be flat.
fn flatten(template: &mut Value, is_flat: bool) {
    if let Some(Value::Object(settings)) = template.get_mut("settings").filter(|_| is_flat) {
        let named = flat(std::mem::take(settings));
        template["settings"] = settings::shape(named, true);
    }
}

async fn put(call: Call<Engine>, kind: Kind) -> Outcome<Answer> {
    let is_new = call.params.flag("create")?.unwrap_or(false);
    let order = call.params.number::<i64>("order")?;
    let engine = call.state.clone();
    let name = call.path_param("name").unwrap_or_default().to_owned();
    if name.is_empty() || name.contains(['*', ',', ' ', '#']) {
        return Err(Failure::illegal_argument(format!(
            "a template can't have the name [{name}]"
        )));
    }
    let body = call.take_small_body().await?;
    let mut body = parse(&body.bytes)?;
    if let Some(order) = order.filter(|_| kind == Kind::Legacy) {
        body.insert("order".into(), order.into());
    }
    let (template, composed) = checked(kind, body)?;
    // What can't be applied is refused now, and not when a document comes.
    settings::parse(b"", &composed)?;
    let work = move |engine: &Engine| {
        engine.database().change_templates(|templates| {
            let key = kind.key(&name);
            if is_new && templates.contains_key(&key) {
                let kind = kind.name();
                return Err(Changed(Failure::illegal_argument(format!(
                    "{kind} [{name}] already exists"
                ))));
            }
            if kind == Kind::Index {
                check_index(templates, &name, &template).map_err(Changed)?;
            }
            templates.insert(key, template);
            Ok(())
        })
    };
    engine
        .write(work)
        .await?
        .map_err(|Changed(failure)| failure)?;
    Ok(Answer::ok(&json!({"acknowledged": true})))
}

/// A failure within a change of templates.
struct Changed(Failure);

impl From<quiredb::Error> for Changed {
    fn from(error: quiredb::Error) -> Changed {
        Changed(Failure::engine(&error, None))
    }
}

/// Refuses an index template of components that there are not, and one that would match together
/// with another of its priority.
fn check_index(templates: &Templates, name: &str, template: &Value) -> Outcome<()> {
    let components = texts(template, "composed_of").into_iter();
    let missing: Vec<&str> = components
        .filter(|component| !templates.contains_key(&Kind::Component.key(component)))
        .collect();
    if !missing.is_empty() {
        let missing = missing.join(", ");
        return Err(Failure::new(
            StatusCode::BAD_REQUEST,
            "invalid_index_template_exception",
            format!(
                "index_template [{name}] invalid, cause [index template [{name}] specifies \
                 component templates [{missing}] that do not exist]"
            ),
        ));
    }
    let mut others = of_kind(templates, Kind::Index);
    let other = others.find(|(other, it)| {
        *other != name && priority(it) == priority(template) && overlaps(template, it)
    });
    let Some((other, it)) = other else {
        return Ok(());
    };
    let patterns = texts(template, "index_patterns");
    let (ours, theirs) = (patterns.join(", "), texts(it, "index_patterns").join(", "));
    let priority = priority(template);
    Err(Failure::illegal_argument(format!(
        "index template [{name}] has index patterns [{ours}] matching patterns from existing \
         templates [{other}] with patterns ({other} => [{theirs}]) that have the same priority \
         [{priority}], multiple index templates may not match during index creation, please use a \
         different priority"
    )))
}

/// Whether patterns of two templates may match the same name.
fn overlaps(template: &Value, other: &Value) -> bool {
    let (ours, theirs) = (
        texts(template, "index_patterns"),
        texts(other, "index_patterns"),
    );
    let pairs = ours
        .iter()
        .flat_map(|one| theirs.iter().map(move |two| (one, two)));
    let mut matched = pairs.map(|(one, two)| {
        glob(one.as_bytes(), two.as_bytes()) || glob(two.as_bytes(), one.as_bytes())
    });
    matched.any(|it| it)
}

async fn delete(call: Call<Engine>, kind: Kind) -> Outcome<Answer> {
    let engine = call.state.clone();
    let named = call.path_param("name").unwrap_or_default().to_owned();
    let work = move |engine: &Engine| {
        engine.database().change_templates(|templates| {
            let matches = |name: &str| {
                let mut patterns = named.split(',');
                patterns.any(|one| glob(one.as_bytes(), name.as_bytes()))
            };
            let found: Vec<String> = of_kind(templates, kind)
                .filter(|(name, _)| matches(name))
                .map(|(name, _)| name.to_owned())
                .collect();
            if found.is_empty() && !named.contains('*') {
                return Err(Changed(Failure::new(
                    StatusCode::NOT_FOUND,
                    "index_template_missing_exception",
                    format!("index_template [{named}] missing"),
                )));
            }
            for name in found {
                let uses =
                    |template: &Value| texts(template, "composed_of").contains(&name.as_str());
                let user = of_kind(templates, Kind::Index)
                    .filter(|_| kind == Kind::Component)
                    .find(|(_, template)| uses(template));
                if let Some((user, _)) = user {
                    return Err(Changed(Failure::illegal_argument(format!(
                        "component templates [{name}] cannot be removed as they are still in use \
                         by index templates [{user}]"
                    ))));
                }
                templates.remove(&kind.key(&name));
            }
            Ok(())
        })
    };
    engine
        .write(work)
        .await?
        .map_err(|Changed(failure)| failure)?;
    Ok(Answer::ok(&json!({"acknowledged": true})))
}

/// `POST /_index_template/_simulate_index/{name}`: what a new collection of the name would have; a
/// body is one more template.
pub(crate) async fn simulate_index(call: Call<Engine>) -> Outcome<Answer> {
    let name = call.path_param("name").unwrap_or_default().to_owned();
    let mut templates = call.state.database().templates();
    if let Some(template) = sent(call, &templates, GIVEN).await? {
        templates.insert(Kind::Index.key(GIVEN), template);
    }
    Ok(Answer::ok(&match chosen(&templates, &name) {
        Some((winner, template)) => simulated(&templates, winner, template),
        None if matching(&templates, Kind::Legacy, &name).is_empty() => json!({}),
        None => json!({"template": applied(&templates, &name).show(), "overlapping": []}),
    }))
}

/// `POST /_index_template/_simulate`, `/_index_template/_simulate/{name}`: what an index template
/// says with its components, that of the body or the one that is kept.
pub(crate) async fn simulate(call: Call<Engine>) -> Outcome<Answer> {
    let name = call.path_param("name").unwrap_or(GIVEN).to_owned();
    let templates = call.state.database().templates();
    let sent = sent(call, &templates, &name).await?;
    match sent
        .as_ref()
        .or_else(|| templates.get(&Kind::Index.key(&name)))
    {
        Some(template) => Ok(Answer::ok(&simulated(&templates, &name, template))),
        None => Err(Failure::illegal_argument(format!(
            "unable to simulate template [{name}] that does not exist"
        ))),
    }
}

/// The name of a template that a simulation is sent: none that is kept has it.
const GIVEN: &str = "#given";

/// The template in the body of a simulation, if there is one.
async fn sent(call: Call<Engine>, templates: &Templates, name: &str) -> Outcome<Option<Value>> {
    let body = call.take_small_body().await?;
    let body = parse(&body.bytes)?;
    if body.is_empty() {
        return Ok(None);
    }
    let (template, _) = checked(Kind::Index, body)?;
    check_index(templates, name, &template)?;
    settings::parse(b"", &composed(templates, &template))?;
    Ok(Some(template))
}

/// What a template says with its components, and the others whose patterns overlap with its.
fn simulated(templates: &Templates, name: &str, template: &Value) -> Value {
    let legacy = of_kind(templates, Kind::Legacy);
    let others = of_kind(templates, Kind::Index).filter(|(other, _)| *other != name);
    let others = legacy
        .chain(others)
        .filter(|(_, other)| overlaps(template, other));
    let overlapping = others
        .map(|(other, it)| json!({"name": other, "index_patterns": texts(it, "index_patterns")}));
    let overlapping: Vec<Value> = overlapping.collect();
    json!({"template": composed(templates, template).show(), "overlapping": overlapping})
}
