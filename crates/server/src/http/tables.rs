//! `/_cat`: which tables there are.

use super::answer::Answer;
use super::call::Call;
use super::failure::Outcome;
use super::openapi::Endpoints;
use super::table::text;

const TABLES: &str = "/_cat/";

/// `GET /_cat`: the paths of all tables, below the line that OpenSearch begins with.
pub(crate) async fn tables(call: Call<Endpoints>) -> Outcome<Answer> {
    let paths = call.state.0.iter().map(|endpoint| endpoint.path);
    let mut paths: Vec<&str> = paths.filter(|path| path.starts_with(TABLES)).collect();
    paths.sort_unstable();
    paths.dedup();
    let lines = ["=^.^="].into_iter().chain(paths);
    Ok(text(lines.flat_map(|line| [line, "\n"]).collect()))
}
