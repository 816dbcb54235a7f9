//! `quire tasks`: what a server is doing, and the end of it.

use crate::Context;
use crate::client::ServerAccess;
use crate::error::Result;
use crate::http::segment;
use crate::table::aligned;
use serde_json::Value;

/// List the running requests of a server, or cancel some
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Searches, multi-gets, bulks, _delete_by_query, merges, splits, backups and verifications can be
cancelled. The caller of a cancelled one gets an error; what a bulk or a _delete_by_query had
written stays written. A token sees its own requests, and one with the role manage on all
collections those of everybody.

Examples:
  quire tasks http://localhost:9200
  quire tasks http://localhost:9200 --cancel quire:1234")]
pub(crate) struct TasksCommand {
    /// The server: http(s)://HOST:PORT
    url: String,
    /// Cancel the request of this id; may be given many times
    #[arg(long, value_name = "ID")]
    cancel: Vec<String>,
    #[command(flatten)]
    access: ServerAccess,
}

impl TasksCommand {
    pub(super) fn run(self, context: &mut Context) -> Result<()> {
        let server = self.access.client(context, &self.url)?;
        if self.cancel.is_empty() {
            let answer = server.request("GET", "/_tasks?group_by=none")?;
            let tasks = answer["tasks"].as_array().cloned().unwrap_or_default();
            // The request for the list is of no interest in it.
            let is_other = |task: &&Value| task["action"] != "cluster:monitor/tasks/lists";
            let tasks: Vec<&Value> = tasks.iter().filter(is_other).collect();
            return show(context, &tasks);
        }
        for id in &self.cancel {
            let path = format!("/_tasks/{}/_cancel", segment(id));
            let answer = server.send("POST", &path, "")?;
            match context.out.is_json() {
                true => context.out.json_line(&answer)?,
                false => context.out.line(format!("{id} is told to end"))?,
            }
        }
        Ok(())
    }
}

fn show(context: &mut Context, tasks: &[&Value]) -> Result<()> {
    if context.out.is_json() {
        return tasks
            .iter()
            .try_for_each(|task| context.out.json_line(task));
    }
    let head = ["task", "action", "running", "token", "address", "request"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(tasks.iter().map(|task| row(task)));
    let left: Vec<usize> = (0..head.len())
        .filter(|column| *column != RUNNING)
        .collect();
    for line in aligned(&rows, &left) {
        context.out.line(line)?;
    }
    Ok(())
}

/// The column of the time, the only one that is aligned to the right.
const RUNNING: usize = 2;

/// A request for people.
fn row(task: &Value) -> Vec<String> {
    let text = |value: &Value| match value.as_str() {
        None | Some("") => "-".to_owned(),
        // A row is a line, and no terminal obeys what a caller has sent.
        Some(text) => text.replace(char::is_control, " "),
    };
    let id = format!("{}:{}", text(&task["node"]), task["id"]);
    let seconds = task["running_time_in_nanos"].as_u64().unwrap_or(0) as f64 / 1e9;
    vec![
        id,
        text(&task["action"]),
        format!("{seconds:.1} s"),
        text(&task["quire"]["token"]),
        text(&task["quire"]["address"]),
        text(&task["description"]),
    ]
}
