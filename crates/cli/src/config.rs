//! The configuration file of `quire serve`: TOML whose members are its options by their long names.
//!
//! The file is turned into arguments before the command line is parsed, so each option has one
//! definition, one check and one help text. What the command line gives wins.

use crate::error::{Error, Result};
use crate::{Cli, files};
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, CommandFactory as _};
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// A longer file is no configuration.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The subcommand that has a configuration file.
const COMMAND: &str = "serve";

/// Arguments that a file can't have: they say what to do with it, or print something and end.
const NOT_IN_FILE: [&str; 6] = ["config", "print_config", "check", "help", "version", "json"];

/// The arguments of the command line, with those of the configuration file that they name.
///
/// # Errors
/// If the file can't be read, or has a member that is no option or no value of it.
pub(crate) fn expand(mut arguments: Vec<OsString>) -> Result<Vec<OsString>> {
    let Some(given) = serve_matches(&arguments) else {
        return Ok(arguments);
    };
    let Some(path) = given.get_one::<PathBuf>("config") else {
        return Ok(arguments);
    };
    let added = read(path)?.into_iter();
    let added = added.filter(|option| !is_explicit(&given, &option.id));
    let added: Vec<OsString> = added.map(|option| option.argument).collect();
    // Only options without values stand before the subcommand.
    let at = arguments.iter().position(|argument| argument == COMMAND);
    let at = at.map_or(arguments.len(), |at| at + 1);
    arguments.splice(at..at, added);
    Ok(arguments)
}

/// The configuration that `arguments` amount to, if they want it printed. As TOML: each option with
/// its help, those that are not given as comments, with their defaults.
pub(crate) fn to_print(arguments: &[OsString]) -> Option<String> {
    let matches = serve_matches(arguments)?;
    if !is_set(&matches, "print_config") {
        return None;
    }
    if let Err(error) = Cli::command().try_get_matches_from(arguments)
        && error.kind() != ErrorKind::MissingRequiredArgument
    {
        error.exit();
    }
    let mut text = String::from("# The configuration of `quire serve --config FILE`.\n");
    for arg in options() {
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        // Writing to a String can't fail.
        let _ = write!(text, "\n# {help}\n{}\n", line(&arg, &matches));
    }
    Some(text)
}

/// What the command line gives to `quire serve`, before anything is checked.
fn serve_matches(arguments: &[OsString]) -> Option<ArgMatches> {
    // Other commands are not parsed twice.
    if !arguments.iter().any(|argument| argument == COMMAND) {
        return None;
    }
    let command = Cli::command().ignore_errors(true);
    let matches = command.try_get_matches_from(arguments).ok()?;
    let (name, given) = matches.subcommand()?;
    (name == COMMAND).then(|| given.clone())
}

/// Whether an option without a value is given. What was not checked may lack its default.
fn is_set(given: &ArgMatches, id: &str) -> bool {
    let flag = given.try_get_one::<bool>(id);
    flag.ok().flatten().copied().unwrap_or(false)
}

/// Whether the command line or the environment has the option.
fn is_explicit(given: &ArgMatches, id: &str) -> bool {
    let source = given.value_source(id);
    matches!(
        source,
        Some(ValueSource::CommandLine | ValueSource::EnvVariable)
    )
}

/// The arguments that a file may have.
fn options() -> Vec<Arg> {
    let mut command = Cli::command();
    command.build();
    let serve = command.find_subcommand(COMMAND);
    let arguments = serve.into_iter().flat_map(clap::Command::get_arguments);
    let allowed = arguments.filter(|arg| !NOT_IN_FILE.contains(&arg.get_id().as_str()));
    allowed.cloned().collect()
}

/// Whether an option can be given several times: its values are an array in the file.
fn is_list(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Append)
}

/// The name of an argument in the file.
fn name(arg: &Arg) -> &str {
    arg.get_long().unwrap_or(arg.get_id().as_str())
}

/// A line of the file for an argument.
fn line(arg: &Arg, matches: &ArgMatches) -> String {
    let name = name(arg);
    if let ArgAction::SetTrue = arg.get_action() {
        return format!("{name} = {}", is_set(matches, arg.get_id().as_str()));
    }
    let id = arg.get_id().as_str();
    let values = matches.get_raw(id).into_iter().flatten();
    let values: Vec<_> = values.map(OsStr::to_string_lossy).collect();
    let comment = if is_explicit(matches, id) { "" } else { "# " };
    // Strings of JSON, and arrays of them, are some of TOML.
    let value = match is_list(arg) {
        true => serde_json::json!(values),
        false => serde_json::json!(values.first().map_or("", |value| value)),
    };
    format!("{comment}{name} = {value}")
}

/// An option of a file.
struct Given {
    /// By which clap knows the argument.
    id: String,
    /// As on the command line.
    argument: OsString,
}

/// The options in a file.
fn read(path: &Path) -> Result<Vec<Given>> {
    let wrong = |reason: &dyn std::fmt::Display| {
        Error::Usage(format!("the configuration {}: {reason}", path.display()))
    };
    let text = files::read_text(path, FILE_BYTES_MAX)
        .map_err(|error| Error::Failed(format!("cannot read {}: {error}", path.display())))?;
    let table: toml::Table = toml::from_str(&text).map_err(|error| wrong(&error))?;
    let known = options();
    let mut given = Vec::new();
    for (key, value) in table {
        let Some(arg) = known.iter().find(|arg| name(arg) == key) else {
            let names: Vec<&str> = known.iter().map(name).collect();
            return Err(wrong(&format!(
                "`{key}` is no option; the options are {}",
                names.join(", ")
            )));
        };
        let values = match value {
            toml::Value::Array(values) if is_list(arg) => values,
            value => vec![value],
        };
        for value in values {
            let Some(argument) = argument(arg, &value).map_err(|reason| wrong(&reason))? else {
                continue;
            };
            check(&argument).map_err(|reason| wrong(&reason))?;
            given.push(Given {
                id: arg.get_id().to_string(),
                argument,
            });
        }
    }
    Ok(given)
}

/// The argument for a member of a file; none for an option that is off.
///
/// # Errors
/// If the value is of a wrong type.
fn argument(arg: &Arg, value: &toml::Value) -> std::result::Result<Option<OsString>, String> {
    let name = name(arg);
    let is_flag = matches!(arg.get_action(), ArgAction::SetTrue);
    let value = match value {
        toml::Value::Boolean(on) if is_flag => {
            return Ok(on.then(|| OsString::from(format!("--{name}"))));
        }
        _ if is_flag => return Err(format!("`{name}` must be true or false")),
        toml::Value::String(text) => text.clone(),
        toml::Value::Integer(number) => number.to_string(),
        _ => return Err(format!("`{name}` must be text, as in {name} = \"…\"")),
    };
    Ok(Some(match arg.is_positional() {
        true => value.into(),
        false => format!("--{name}={value}").into(),
    }))
}

/// Checks the value of one argument by itself.
///
/// # Errors
/// What is wrong with it.
fn check(argument: &OsString) -> std::result::Result<(), String> {
    let alone = [OsString::from("quire"), COMMAND.into(), argument.clone()];
    match Cli::command().try_get_matches_from(alone) {
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::InvalidValue | ErrorKind::ValueValidation
            ) =>
        {
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default();
            Err(first.trim_start_matches("error: ").to_owned())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    /// The arguments for a command line, and a file that is at `FILE` in it.
    fn expanded(line: &str, file: &str) -> Result<Vec<String>> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("quire.toml");
        files::write(&path, file.as_bytes()).unwrap();
        let path = path.display().to_string();
        let arguments = line
            .split(' ')
            .map(|word| word.replace("FILE", &path).into());
        let expanded = expand(arguments.collect())?;
        let words = expanded
            .iter()
            .map(|word| word.to_str().unwrap().replace(&path, "FILE"));
        Ok(words.collect())
    }

    #[test]
    fn members_of_the_file_become_options_and_the_command_line_wins() {
        let file = "db = \"/data\"\nlisten = \"127.0.0.1:7\"\ncreate = true\nquiet = false\n";
        let cases = [
            (
                "quire serve --config FILE",
                "quire serve --create /data --listen=127.0.0.1:7 --config FILE",
            ),
            (
                "quire --json serve ./other --config=FILE --listen 127.0.0.1:0",
                "quire --json serve --create ./other --config=FILE --listen 127.0.0.1:0",
            ),
            ("quire serve ./db", "quire serve ./db"),
            ("quire get ./db c serve", "quire get ./db c serve"),
        ];
        for (line, expected) in cases {
            let words = expanded(line, file).unwrap();
            let mut sorted = words.clone();
            sorted.sort();
            let mut wanted: Vec<&str> = expected.split(' ').collect();
            wanted.sort_unstable();
            assert_eq!(sorted, wanted, "{line}");
            assert!(Cli::try_parse_from(&words).is_ok(), "{words:?}");
        }
    }

    #[test]
    fn what_is_wrong_in_the_file_is_named() {
        for (file, expected) in [
            (
                "listne = \"127.0.0.1:7\"",
                "`listne` is no option; the options are db, create",
            ),
            ("check = true", "`check` is no option"),
            ("listen = [1]", "`listen` must be text"),
            (
                "frozen = \"/old.quire\"",
                "invalid value '/old.quire' for '--frozen",
            ),
            ("frozen = [true]", "`frozen` must be text"),
            ("create = \"yes\"", "`create` must be true or false"),
            ("memory = \"much\"", "invalid value 'much' for '--memory"),
            ("[serve]\nlisten = \"x\"", "`serve` is no option"),
            ("listen = ", "line 1"),
        ] {
            let error = expanded("quire serve --config FILE", file)
                .unwrap_err()
                .to_string();
            assert!(error.contains(expected), "{file}: {error}");
        }
        let missing = expand(
            ["quire", "serve", "--config", "/no"]
                .map(Into::into)
                .to_vec(),
        );
        assert!(missing.unwrap_err().to_string().contains("cannot read /no"));
    }

    #[test]
    fn what_is_printed_gives_the_same_options_again() {
        let line = "quire serve /data --listen 127.0.0.1:7 --memory 64MiB --create \
                    --frozen a=/a.quire --frozen b=/b";
        let arguments: Vec<OsString> = line.split(' ').map(Into::into).collect();
        assert_eq!(to_print(&arguments), None);
        let wanted = [arguments, vec!["--print-config".into()]].concat();
        let printed = to_print(&wanted).unwrap();
        assert!(printed.contains("\n# tokens = \"\"\n"), "{printed}");
        assert!(
            printed.contains("\nfrozen = [\"a=/a.quire\",\"b=/b\"]\n"),
            "{printed}"
        );
        let words = expanded("quire serve --config FILE", &printed).unwrap();
        for word in [
            "/data",
            "--listen=127.0.0.1:7",
            "--memory=64MiB",
            "--create",
            "--frozen=a=/a.quire",
            "--frozen=b=/b",
        ] {
            assert!(words.iter().any(|given| given == word), "{word}: {words:?}");
        }
        let again: Vec<OsString> = words.iter().map(Into::into).collect();
        let cli = Cli::try_parse_from(again).unwrap();
        assert!(format!("{cli:?}").contains("/data"), "{cli:?}");
    }
}
