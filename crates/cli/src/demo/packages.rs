//! The machine's Debian package index as documents: every package that apt knows, from `apt-cache
//! dumpavail`.
//!
//! The index is text: a stanza of `Field: value` lines for each package, with blank lines between.
//! A line that starts with white space continues the field before it.

use super::documents::Object;
use serde_json::Value;
use std::collections::HashSet;
use std::io::{self, BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

/// Fields that are text, and their names in the document.
const TEXT_FIELDS: [(&str, &str); 9] = [
    ("Package", "name"),
    ("Version", "version"),
    ("Architecture", "architecture"),
    ("Section", "section"),
    ("Priority", "priority"),
    ("Source", "source"),
    ("Maintainer", "maintainer"),
    ("Homepage", "homepage"),
    ("Description", "description"),
];
/// Fields that hold a number: KiB installed, and bytes of the package file.
const NUMBER_FIELDS: [(&str, &str); 2] = [("Installed-Size", "installed_size"), ("Size", "size")];
/// Fields that hold a list, separated by commas.
const LIST_FIELDS: [(&str, &str); 5] = [
    ("Depends", "depends"),
    ("Recommends", "recommends"),
    ("Suggests", "suggests"),
    ("Provides", "provides"),
    ("Tag", "tags"),
];

/// The index of this machine; none if there is no apt, or it has no index yet.
pub(super) fn available() -> Option<impl Iterator<Item = io::Result<Object>> + Send + 'static> {
    let mut apt = Command::new("apt-cache")
        .arg("dumpavail")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let mut reader = BufReader::new(apt.stdout.take()?);
    match reader.fill_buf() {
        Ok(start) if !start.is_empty() => Some(Packages::new(AptOutput { apt, reader })),
        _ => {
            // It has ended, or its output is of no use.
            let _ = apt.kill();
            let _ = apt.wait();
            None
        }
    }
}

/// The output of apt-cache. The process is ended when this is dropped.
struct AptOutput {
    apt: Child,
    reader: BufReader<ChildStdout>,
}

impl io::Read for AptOutput {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.reader.read(buffer)
    }
}

impl BufRead for AptOutput {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.reader.fill_buf()
    }

    fn consume(&mut self, bytes: usize) {
        self.reader.consume(bytes);
    }
}

impl Drop for AptOutput {
    fn drop(&mut self) {
        let _ = self.apt.kill();
        let _ = self.apt.wait();
    }
}

/// The stanzas of an index as objects, each with an `_id` of its own.
struct Packages<R> {
    reader: R,
    line: Vec<u8>,
    ids: HashSet<String>,
}

impl<R: BufRead> Packages<R> {
    fn new(reader: R) -> Packages<R> {
        Packages {
            reader,
            line: Vec::new(),
            ids: HashSet::new(),
        }
    }

    /// The fields of the next stanza, in order; empty at the end.
    fn stanza(&mut self) -> io::Result<Vec<(String, String)>> {
        let mut fields: Vec<(String, String)> = Vec::new();
        loop {
            self.line.clear();
            let at_end = self.reader.read_until(b'\n', &mut self.line)? == 0;
            let line = String::from_utf8_lossy(&self.line);
            let line = line.trim_end();
            if at_end || line.is_empty() {
                if at_end || !fields.is_empty() {
                    return Ok(fields);
                }
            } else if line.starts_with([' ', '\t']) {
                if let Some((_, value)) = fields.last_mut() {
                    value.push('\n');
                    value.push_str(line.trim_start());
                }
            } else if let Some((name, value)) = line.split_once(':') {
                fields.push((name.to_owned(), value.trim_start().to_owned()));
            }
        }
    }

    /// The name; if it is taken, with the architecture; if that is taken too, with the version.
    fn id(&mut self, name: &str, architecture: &str, version: &str) -> String {
        let with_architecture = format!("{name}_{architecture}");
        let with_version = format!("{with_architecture}_{version}");
        let mut candidates = [name.to_owned(), with_architecture].into_iter();
        let id = candidates
            .find(|id| !self.ids.contains(id))
            .unwrap_or(with_version);
        self.ids.insert(id.clone());
        id
    }

    fn object(&mut self, fields: &[(String, String)]) -> Object {
        let field = |name: &str| {
            fields
                .iter()
                .find(|(other, _)| other == name)
                .map(|(_, value)| value.as_str())
        };
        let text = |name| field(name).unwrap_or_default();
        let id = self.id(text("Package"), text("Architecture"), text("Version"));
        let mut object = Object::new();
        object.insert("_id".to_owned(), id.into());
        for (name, ours) in TEXT_FIELDS {
            if let Some(value) = field(name) {
                object.insert(ours.to_owned(), value.into());
            }
        }
        for (name, ours) in NUMBER_FIELDS {
            if let Some(number) = field(name).and_then(|value| value.parse::<u64>().ok()) {
                object.insert(ours.to_owned(), number.into());
            }
        }
        for (name, ours) in LIST_FIELDS {
            if let Some(value) = field(name) {
                let items = value
                    .split(',')
                    .map(str::trim)
                    .filter(|item| !item.is_empty());
                object.insert(ours.to_owned(), items.map(Value::from).collect());
            }
        }
        object
    }
}

impl<R: BufRead> Iterator for Packages<R> {
    type Item = io::Result<Object>;

    fn next(&mut self) -> Option<io::Result<Object>> {
        loop {
            match self.stanza() {
                Ok(fields) if fields.is_empty() => return None,
                Ok(fields) if fields.iter().any(|(name, _)| name == "Package") => {
                    return Some(Ok(self.object(&fields)));
                }
                Ok(_) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stanzas_become_documents() {
        let index = "Package: 0ad\nVersion: 1-2\nArchitecture: amd64\nInstalled-Size: 28591\n\
                     Depends: libc6 (>= 2.34), a | b\nTag: game::strategy, interface::x11,\n \
                     role::program\nDescription: A game: of war\nSize: 12\n\n\n\
                     Package: 0ad\nVersion: 1-3\nArchitecture: i386\n\nNote: no package\n\n\
                     Package: 0ad\nVersion: 1-4\nArchitecture: i386";
        let objects: Vec<String> = Packages::new(index.as_bytes())
            .map(|object| Value::from(object.unwrap()).to_string())
            .collect();
        assert_eq!(
            objects,
            [
                concat!(
                    r#"{"_id":"0ad","name":"0ad","version":"1-2","architecture":"amd64","#,
                    r#""description":"A game: of war","installed_size":28591,"size":12,"#,
                    r#""depends":["libc6 (>= 2.34)","a | b"],"#,
                    r#""tags":["game::strategy","interface::x11","role::program"]}"#,
                ),
                r#"{"_id":"0ad_i386","name":"0ad","version":"1-3","architecture":"i386"}"#,
                r#"{"_id":"0ad_i386_1-4","name":"0ad","version":"1-4","architecture":"i386"}"#,
            ]
        );
    }
}
