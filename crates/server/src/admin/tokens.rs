//! The named tokens of the server: listed, made and revoked. Each change is in the file of tokens
//! before it is answered.

use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::json;

use crate::access::lifetime::parse_lifetime;
use crate::access::record::TokenRecord;
use crate::access::role::Role;
use crate::access::tokens::{NewToken, Tokens, TokensError};
use crate::http::answer::Answer;
use crate::http::call::Call;
use crate::http::failure::{Failure, Outcome};
use crate::limits::Limit;

/// What requests about tokens use of the server.
pub(crate) struct TokensState {
    pub(crate) tokens: Option<Tokens>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    role: Role,
    #[serde(default = "all")]
    collections: Vec<String>,
    #[serde(default)]
    expires: Option<String>,
    #[serde(default)]
    limit: Option<Limit>,
}

fn all() -> Vec<String> {
    vec!["*".to_owned()]
}

/// `GET /_quire/tokens`
pub(crate) async fn list(call: Call<TokensState>) -> Outcome<Answer> {
    let tokens = tokens(&call)?;
    let records = blocking(move || Ok(tokens.list())).await?;
    let records: Vec<_> = records.iter().map(TokenRecord::listed).collect();
    Ok(Answer::ok(&json!({"tokens": records})))
}

/// `PUT /_quire/tokens/{name}`
pub(crate) async fn create(call: Call<TokensState>) -> Outcome<Answer> {
    let tokens = tokens(&call)?;
    let name = call.path_param("name").unwrap_or_default().to_owned();
    let body = call.take_small_body().await?;
    let body: Body =
        serde_json::from_slice(&body.bytes).map_err(|error| Failure::parse(error.to_string()))?;
    let lifetime = parse_lifetime(body.expires.as_deref().unwrap_or("never"));
    let new = NewToken {
        name: name.clone(),
        role: body.role,
        collections: body.collections,
        lifetime: lifetime.map_err(Failure::illegal_argument)?,
        limit: body.limit,
    };
    let secret = blocking(move || tokens.create(new)).await?;
    let answer = json!({"name": name, "token": secret});
    Ok(Answer::value(StatusCode::CREATED, &answer))
}

/// `DELETE /_quire/tokens/{name}`
pub(crate) async fn revoke(call: Call<TokensState>) -> Outcome<Answer> {
    let tokens = tokens(&call)?;
    let name = call.path_param("name").unwrap_or_default().to_owned();
    blocking(move || tokens.revoke(&name)).await?;
    Ok(Answer::ok(&json!({"acknowledged": true})))
}

fn tokens(call: &Call<TokensState>) -> Outcome<Tokens> {
    let tokens = call.state.tokens.clone();
    tokens.ok_or_else(|| {
        Failure::illegal_argument(
            "this server has no file of named tokens: start it with `quire serve --tokens FILE`",
        )
    })
}

/// Runs what reads and writes the file.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, TokensError> + Send + 'static,
) -> Outcome<T> {
    let done = tokio::task::spawn_blocking(work).await;
    let done = done.map_err(|error| Failure::internal(error.to_string()))?;
    done.map_err(|error| match error {
        TokensError::Missing(_) => Failure::new(
            StatusCode::NOT_FOUND,
            "resource_not_found_exception",
            error.to_string(),
        ),
        TokensError::Exists(_) => Failure::new(
            StatusCode::CONFLICT,
            "resource_already_exists_exception",
            error.to_string(),
        ),
        TokensError::Invalid(reason) => Failure::illegal_argument(reason),
        TokensError::File { .. } => Failure::internal(error.to_string()),
    })
}
