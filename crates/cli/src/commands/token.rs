//! `quire token`: makes, lists and revokes named tokens, in a file or on a server.

use crate::Context;
use crate::client::{Client, ServerAccess, is_url};
use crate::error::{Error, Result};
use crate::http::segment;
use crate::limit;
use quire_server::{Limit, NewToken, Role, TokenRecord, Tokens, TokensError, parse_lifetime};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

/// Make, list and revoke the named tokens of a server
#[derive(Debug, clap::Args)]
#[command(after_help = "\
TOKENS is the file that `quire serve --tokens FILE` uses, or the http(s)://HOST:PORT of a running
server. The first token made in a file makes the file. A running server sees a change within a
second.

Examples:
  quire token create ./tokens shipper --role write --collections 'logs-*' --expires 30d
  quire token list ./tokens
  quire token revoke https://db1:9200 shipper --ca ca.pem --token-file admin")]
pub(crate) struct TokenCommand {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Make a token, and print its secret: it can't be shown again
    Create(Create),
    /// List the tokens, without their secrets
    List {
        #[command(flatten)]
        place: Place,
    },
    /// Revoke a token
    Revoke {
        #[command(flatten)]
        place: Place,
        /// The name of the token
        name: String,
    },
}

/// Where the tokens are.
#[derive(Debug, clap::Args)]
struct Place {
    /// The file of tokens, or http(s)://HOST:PORT of a server
    tokens: String,
    #[command(flatten)]
    access: ServerAccess,
}

#[derive(Debug, clap::Args)]
struct Create {
    #[command(flatten)]
    place: Place,
    /// The name of the token: letters, digits, `.`, `_` and `-`
    name: String,
    /// What its holder may do: read, write, manage, follow or all
    #[arg(long)]
    role: Role,
    /// In which collections: patterns between commas, in which `*` stands for any text
    #[arg(
        long,
        value_name = "PATTERNS",
        default_value = "*",
        value_delimiter = ','
    )]
    collections: Vec<String>,
    /// How long it lives: 90m, 12h, 30d or never
    #[arg(long, value_name = "TIME", default_value = "never")]
    expires: String,
    /// What its holders may take together, as requests=1000,bytes=50MiB,running=32,searches=2, or
    /// some of these [default: what `quire serve --limit-token` says]
    #[arg(long, value_name = "LIMITS", value_parser = limit::of_token)]
    limit: Option<Limit>,
}

impl TokenCommand {
    pub(super) fn run(self, context: &mut Context) -> Result<()> {
        match self.what {
            What::Create(create) => create.run(context),
            What::List { place } => list(context, &place),
            What::Revoke { place, name } => revoke(context, &place, &name),
        }
    }
}

impl Place {
    /// The server, if it is one.
    fn server(&self, context: &Context) -> Result<Option<Client>> {
        match is_url(&self.tokens) {
            true => self.access.client(context, &self.tokens).map(Some),
            false if self.access.is_empty() => Ok(None),
            false => Err(Error::Usage(
                "--token-file, --ca and --client-cert are for a server: give http://HOST:PORT \
                 instead of a file"
                    .into(),
            )),
        }
    }

    /// The file, which exists.
    fn open(&self, context: &Context) -> Result<Tokens> {
        Tokens::open(context.env.clone(), Path::new(&self.tokens)).map_err(failed)
    }
}

impl Create {
    fn run(self, context: &mut Context) -> Result<()> {
        let lifetime = parse_lifetime(&self.expires).map_err(Error::Usage)?;
        let secret = match self.place.server(context)? {
            Some(server) => self.create_on(&server)?,
            None => self.create_in_file(context, lifetime)?,
        };
        match context.out.is_json() {
            true => context
                .out
                .json_line(&json!({"name": self.name, "token": secret})),
            false => context.out.line(secret),
        }
    }

    fn create_in_file(&self, context: &Context, lifetime: Option<Duration>) -> Result<String> {
        let path = Path::new(&self.place.tokens);
        let tokens = Tokens::open_or_create(context.env.clone(), path).map_err(failed)?;
        let new = NewToken {
            name: self.name.clone(),
            role: self.role,
            collections: self.collections.clone(),
            lifetime,
            limit: self.limit,
        };
        tokens.create(new).map_err(failed)
    }

    fn create_on(&self, server: &Client) -> Result<String> {
        let body = json!({
            "role": self.role,
            "collections": self.collections,
            "expires": self.expires,
            "limit": self.limit,
        });
        let path = format!("/_quire/tokens/{}", segment(&self.name));
        let answer = server.send("PUT", &path, &body.to_string())?;
        let secret = answer["token"].as_str();
        let secret = secret.ok_or_else(|| Error::Failed("the answer has no token".into()))?;
        Ok(secret.to_owned())
    }
}

fn list(context: &mut Context, place: &Place) -> Result<()> {
    let tokens: Vec<Value> = match place.server(context)? {
        Some(server) => match server.request("GET", "/_quire/tokens")?["tokens"].take() {
            Value::Array(tokens) => tokens,
            _ => return Err(Error::Failed("the answer has no list of tokens".into())),
        },
        None => {
            let tokens = place.open(context)?.list();
            tokens.iter().map(TokenRecord::listed).collect()
        }
    };
    if context.out.is_json() {
        for token in &tokens {
            context.out.json_line(token)?;
        }
        return Ok(());
    }
    let now = context.env.now_micros();
    for token in &tokens {
        context.out.line(line(token, now))?;
    }
    Ok(())
}

/// A token for people.
fn line(token: &Value, now_micros: i64) -> String {
    let collections = token["collections"].as_array();
    let collections: Vec<&str> = collections
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let life = match token["expires_micros"].as_i64() {
        None => "does not expire".to_owned(),
        Some(expires) if expires <= now_micros => "expired".to_owned(),
        Some(expires) => format!("expires in {} s", (expires - now_micros) / 1_000_000),
    };
    let limit = token["limit"].as_object().into_iter().flatten();
    let limit: Vec<String> = limit
        .filter(|(_, bound)| !bound.is_null())
        .map(|(name, bound)| format!("{name}={bound}"))
        .collect();
    let limit = match limit.is_empty() {
        true => String::new(),
        false => format!("; at most {}", limit.join(",")),
    };
    format!(
        "{}: {} on {}; {life}{limit}",
        token["name"].as_str().unwrap_or("?"),
        token["role"].as_str().unwrap_or("?"),
        collections.join(",")
    )
}

fn revoke(context: &mut Context, place: &Place, name: &str) -> Result<()> {
    match place.server(context)? {
        Some(server) => {
            let path = format!("/_quire/tokens/{}", segment(name));
            server.request("DELETE", &path)?;
        }
        None => place.open(context)?.revoke(name).map_err(failed)?,
    }
    match context.out.is_json() {
        true => context.out.json_line(&json!({"revoked": name})),
        false => context.out.line(format_args!("revoked {name}")),
    }
}

fn failed(error: TokensError) -> Error {
    match error {
        TokensError::Invalid(reason) => Error::Usage(reason),
        error => Error::Failed(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_listed_with_how_long_it_lives() {
        let listed = |expires: Value| {
            let token = json!({
                "name": "n", "role": "read", "collections": ["a", "b-*"],
                "expires_micros": expires, "limit": {"searches": 2},
            });
            line(&token, 5_000_000)
        };
        let text = |life: &str| format!("n: read on a,b-*; {life}; at most searches=2");
        assert_eq!(listed(Value::Null), text("does not expire"));
        assert_eq!(listed(json!(7_500_000)), text("expires in 2 s"));
        assert_eq!(listed(json!(5_000_000)), text("expired"));
    }
}
