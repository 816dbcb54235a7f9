//! Keys as arguments of commands.

/// A key from the command line.
pub(crate) fn parse_key(text: &str) -> std::result::Result<quiredb::Key, String> {
    quiredb::Key::parse(text).map_err(|error| error.to_string())
}
