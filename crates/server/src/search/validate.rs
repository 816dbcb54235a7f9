//! `_validate/query`: whether a query could be answered.

use serde_json::{Value as Json, json};

use super::limit_to;
use super::query_string::take_q;
use super::request::{parse, query_of};
use crate::collections::coerce::Mappings;
use crate::collections::selection::{Selection, searched_shards};
use crate::engine::Engine;
use crate::http::answer::Answer;
use crate::http::call::Call;
use crate::http::failure::{Failure, Outcome};

/// `GET|POST /_validate/query`, `/{collection}/_validate/query`. The explanation of a query is the
/// query as it was sent: nothing is rewritten.
pub(crate) async fn validate(call: Call<Engine>) -> Outcome<Answer> {
    for flag in ["all_shards", "rewrite"] {
        call.params.flag(flag)?;
    }
    let explains = call.params.flag("explain")?.unwrap_or(false);
    let (engine, selection) = (call.state.clone(), Selection::of(&call)?);
    let params = call.params.clone();
    let body = call.take_small_body().await?;
    let mut body = parse(&body.bytes)?;
    take_q(&mut body, &params)?;
    let work = move |engine: &Engine| {
        let (collections, filter) = selection.searched(engine)?;
        let checked = || -> Outcome<()> {
            if let Some(other) = body.keys().find(|name| *name != "query") {
                let what = format!("request does not support [{other}]");
                return Err(Failure::parse(what));
            }
            let (mut query, texts) = query_of(&body, engine.now_millis())?;
            let mappings = Mappings::of_searched(engine, &collections);
            limit_to(&mut query, &texts, filter, &mappings)
        };
        let checked = match checked() {
            // A line may be refused that has a meaning elsewhere, with analyzers.
            Err(failure) if params.text("q").is_some() => return Err(failure),
            checked => checked,
        };
        let mut shown = json!({
            "_shards": searched_shards(&collections),
            "valid": checked.is_ok(),
        });
        match checked {
            Err(failure) if explains => shown["error"] = failure.reason().into(),
            Ok(()) if explains => {
                let explanation = match body.get("query") {
                    None | Some(Json::Null) => "*:*".to_owned(),
                    Some(query) => query.to_string(),
                };
                let of_one =
                    |name: &str| json!({"index": name, "valid": true, "explanation": explanation});
                let all = collections.iter().map(|one| of_one(one.name()));
                shown["explanations"] = all.collect::<Vec<Json>>().into();
            }
            _ => {}
        }
        Ok(Answer::ok(&shown))
    };
    engine.read(work).await?
}
