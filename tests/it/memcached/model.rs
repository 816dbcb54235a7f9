//! A plain model of a memcached server, and a client that compares one with it.

use crate::kill::Random;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

/// The intended differences between servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// A value set to itself keeps its version.
    Quire,
    /// A counter that gets shorter is filled up with spaces, but for when somebody reads it; one of
    /// 2^63 or more is taken for no number where a minus sign lies anywhere after it in memory
    /// (`safe_strtoull` of 1.6.18).
    Memcached,
}

#[derive(Debug, Clone)]
struct Item {
    value: Vec<u8>,
    flags: u32,
    /// Grows with every change.
    version: u64,
}

/// The contents of a server.
pub(super) struct Model {
    dialect: Dialect,
    items: BTreeMap<String, Item>,
    changes: u64,
}

/// The expected answer.
#[derive(Debug)]
enum Expected {
    Line(String),
    /// A line, then a value.
    Value(String, Vec<u8>),
    /// The same, with the unique of a key's version at the end of the line.
    Versioned(String, Vec<u8>, u64),
}

/// A connection.
pub(super) struct Session {
    stream: BufReader<TcpStream>,
    /// By key: the uniques seen, and their versions.
    seen: BTreeMap<String, Vec<(u64, u64)>>,
}

impl Model {
    pub(super) fn new(dialect: Dialect) -> Model {
        Model {
            dialect,
            items: BTreeMap::new(),
            changes: 0,
        }
    }

    fn put(&mut self, key: &str, value: Vec<u8>, flags: u32) {
        let same = self.items.get(key);
        let is_same = same.is_some_and(|item| item.value == value && item.flags == flags);
        if is_same && self.dialect == Dialect::Quire {
            return;
        }
        self.changes += 1;
        let item = Item {
            value,
            flags,
            version: self.changes,
        };
        self.items.insert(key.to_owned(), item);
    }

    /// A storage command; `version` is the one in the request.
    fn store(
        &mut self,
        command: &str,
        key: &str,
        value: Vec<u8>,
        flags: u32,
        version: Option<u64>,
        expires: bool,
    ) -> &'static str {
        let item = self.items.get(key).cloned();
        match (command, item) {
            ("cas", None) => return "NOT_FOUND",
            ("cas", Some(item)) if Some(item.version) != version => return "EXISTS",
            ("add", Some(_)) | ("replace" | "append" | "prepend", None) => return "NOT_STORED",
            ("append", Some(item)) => self.put(key, [item.value, value].concat(), item.flags),
            ("prepend", Some(item)) => self.put(key, [value, item.value].concat(), item.flags),
            _ if expires => drop(self.items.remove(key)),
            _ => self.put(key, value, flags),
        }
        "STORED"
    }

    /// The new value of a counter. `None`: no such key; `Some(None)`: not a number.
    fn counted(&self, key: &str, up: bool, by: u64) -> Option<Option<u64>> {
        let item = self.items.get(key)?;
        let text = std::str::from_utf8(&item.value).ok();
        let Some(now) = text.and_then(|text| text.parse::<u64>().ok()) else {
            return Some(None);
        };
        Some(Some(match up {
            true => now.wrapping_add(by),
            false => now.saturating_sub(by),
        }))
    }
}

impl Session {
    pub(super) fn new(stream: TcpStream) -> Session {
        Session {
            stream: BufReader::new(stream),
            seen: BTreeMap::new(),
        }
    }

    /// Sends `count` random commands, cut anywhere, and compares all answers.
    pub(super) fn converse(&mut self, model: &mut Model, random: &mut Random, count: u64) {
        let (mut sent, mut expected) = (Vec::new(), Vec::new());
        for _ in 0..count {
            self.command(model, random, &mut sent, &mut expected);
        }
        // No command without a reply is still under way when the turn of the other connection
        // comes.
        sent.extend(b"mn\r\n");
        expected.push(Expected::Line("MN".to_owned()));
        let mut rest = sent.as_slice();
        while !rest.is_empty() {
            let most = if random.below(3) == 0 { 7 } else { 4096 };
            let (piece, after) = rest.split_at((1 + random.below(most) as usize).min(rest.len()));
            self.stream.get_mut().write_all(piece).unwrap();
            rest = after;
        }
        let text = || String::from_utf8_lossy(&sent).into_owned();
        for expected in expected {
            let line = self.line();
            let (head, value, version) = match expected {
                Expected::Line(head) => (head, None, None),
                Expected::Value(head, value) => (head, Some(value), None),
                Expected::Versioned(head, value, version) => (head, Some(value), Some(version)),
            };
            if let Some(version) = version {
                let (found, unique) = line.rsplit_once(' ').unwrap();
                assert_eq!(found, head, "{}", text());
                let key = head.split(' ').nth(1).unwrap().to_owned();
                self.seen
                    .entry(key)
                    .or_default()
                    .push((unique.parse().unwrap(), version));
            } else {
                assert_eq!(line, head, "{}", text());
            }
            if let Some(value) = value {
                let mut found = vec![0; value.len() + 2];
                self.stream.read_exact(&mut found).unwrap();
                assert_eq!(found, [value.as_slice(), b"\r\n"].concat(), "{}", text());
            }
        }
    }

    fn line(&mut self) -> String {
        let mut line = Vec::new();
        self.stream.read_until(b'\n', &mut line).unwrap();
        let line = line.strip_suffix(b"\r\n").expect("a line");
        String::from_utf8(line.to_vec()).unwrap()
    }

    /// One random command, and the answer of the model.
    fn command(
        &self,
        model: &mut Model,
        random: &mut Random,
        sent: &mut Vec<u8>,
        expected: &mut Vec<Expected>,
    ) {
        let key = any_key(random);
        let line = |text: &str| Expected::Line(text.to_owned());
        match random.below(20) {
            0..=4 => {
                let command = ["get", "gets", "gat 0", "gats 0"][random.below(4) as usize];
                let with_cas = command.starts_with("gets") || command.starts_with("gats");
                let keys: Vec<String> = (0..=random.below(4)).map(|_| any_key(random)).collect();
                sent.extend(format!("{command} {}\r\n", keys.join(" ")).bytes());
                for key in keys {
                    let Some(item) = model.items.get(&key).cloned() else {
                        continue;
                    };
                    let head = format!("VALUE {key} {} {}", item.flags, item.value.len());
                    expected.push(match with_cas {
                        true => Expected::Versioned(head, item.value, item.version),
                        false => Expected::Value(head, item.value),
                    });
                }
                expected.push(line("END"));
            }
            5..=10 => {
                let commands = ["set", "set", "set", "add", "replace", "append", "prepend"];
                let command = commands[random.below(7) as usize];
                let is_joined = command.ends_with("pend");
                let value = any_value(random, !is_joined);
                let flags = random.below(3) as u32 * 77;
                let expires = random.below(12) == 0 && !is_joined;
                let noreply = random.below(5) == 0;
                let exptime = if expires { -1 } else { 0 };
                let end = if noreply { " noreply" } else { "" };
                let bytes = value.len();
                sent.extend(format!("{command} {key} {flags} {exptime} {bytes}{end}\r\n").bytes());
                sent.extend([value.as_slice(), b"\r\n"].concat());
                let answer = model.store(command, &key, value, flags, None, expires);
                if !noreply {
                    expected.push(line(answer));
                }
            }
            11..=12 => {
                let known = self.seen.get(&key).map_or(&[][..], Vec::as_slice);
                let (unique, version) = match known.len() as u64 {
                    0 => (999_999_999, 0),
                    count => known[(count - 1 - random.below(count.min(3))) as usize],
                };
                let value = any_value(random, true);
                sent.extend(format!("cas {key} 0 0 {} {unique}\r\n", value.len()).bytes());
                sent.extend([value.as_slice(), b"\r\n"].concat());
                expected.push(line(model.store(
                    "cas",
                    &key,
                    value,
                    0,
                    Some(version),
                    false,
                )));
            }
            13..=14 => {
                let (up, by) = (random.below(2) == 0, random.below(300));
                let by = if random.below(9) == 0 { u64::MAX } else { by };
                let (item, counted) = (model.items.get(&key), model.counted(&key, up, by));
                let is_large = model.counted(&key, true, 0).flatten() > Some(i64::MAX as u64);
                if is_large && model.dialect == Dialect::Memcached {
                    return;
                }
                let answer = match counted {
                    None => "NOT_FOUND".to_owned(),
                    Some(None) => {
                        "CLIENT_ERROR cannot increment or decrement non-numeric value".to_owned()
                    }
                    Some(Some(value)) => value.to_string(),
                };
                if let (Some(item), Some(Some(_))) = (item.cloned(), counted) {
                    if answer.len() < item.value.len() && model.dialect == Dialect::Memcached {
                        return;
                    }
                    model.put(&key, answer.clone().into_bytes(), item.flags);
                }
                let command = if up { "incr" } else { "decr" };
                sent.extend(format!("{command} {key} {by}\r\n").bytes());
                expected.push(Expected::Line(answer));
            }
            15 => {
                sent.extend(format!("delete {key}\r\n").bytes());
                expected.push(match model.items.remove(&key) {
                    Some(_) => line("DELETED"),
                    None => line("NOT_FOUND"),
                });
            }
            16 => {
                let expires = random.below(4) == 0;
                let exptime = if expires { -1 } else { 0 };
                sent.extend(format!("touch {key} {exptime}\r\n").bytes());
                expected.push(match model.items.contains_key(&key) {
                    true => line("TOUCHED"),
                    false => line("NOT_FOUND"),
                });
                if expires {
                    model.items.remove(&key);
                }
            }
            17 => {
                sent.extend(format!("mg {key} s v f k Oq{key}\r\n").bytes());
                expected.push(match model.items.get(&key) {
                    None => Expected::Line(format!("EN k{key} Oq{key}")),
                    Some(Item { value, flags, .. }) => {
                        let bytes = value.len();
                        let head = format!("VA {bytes} s{bytes} f{flags} k{key} Oq{key}");
                        Expected::Value(head, value.clone())
                    }
                });
            }
            18 => {
                let modes = [
                    ("S", "set"),
                    ("E", "add"),
                    ("R", "replace"),
                    ("A", "append"),
                ];
                let (mode, command) = modes[random.below(4) as usize];
                let value = any_value(random, command != "append");
                sent.extend(format!("ms {key} {} F5 M{mode} q\r\n", value.len()).bytes());
                sent.extend([value.as_slice(), b"\r\nmn\r\n"].concat());
                if model.store(command, &key, value, 5, None, false) == "NOT_STORED" {
                    expected.push(line("NS"));
                }
                expected.push(line("MN"));
            }
            _ => {
                sent.extend(b"nonsense 1 2\r\n");
                expected.push(line("ERROR"));
            }
        }
    }
}

fn any_key(random: &mut Random) -> String {
    ["a", "b:c", "7", "-7", "\u{e9}", "f", "g", "h"][random.below(8) as usize].to_owned()
}

/// Bytes of any kind; often a number for values that others are not appended to.
fn any_value(random: &mut Random, may_be_number: bool) -> Vec<u8> {
    match random.below(4) {
        0 | 1 if may_be_number => {
            let most = if random.below(4) == 0 { u64::MAX } else { 1000 };
            random.below(most).to_string().into_bytes()
        }
        0 => Vec::new(),
        1 => b"x\r\nget a\r\n\xff\0".repeat(1 + random.below(2000) as usize),
        _ => crate::words::text(random.below(99), random.below(200) as usize).into_bytes(),
    }
}
