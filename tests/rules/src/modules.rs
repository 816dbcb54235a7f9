//! Which source files of a crate know which, and where they know each other in a circle.
//!
//! A module is a file. It knows another if its code, tests aside, names something that the other
//! file defines: by `crate::`, `super::` or `self::`, by the name of a module below it, or through
//! a `use` of another file that passes the name on. `lib.rs` and `main.rs` are tables of contents
//! and no modules. Methods do not count: only the names of paths are looked at.

use crate::tokens::{Token, tokens};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A module's path within its crate: `["table", "block"]`. That of `lib.rs` is empty.
pub type ModulePath = Vec<String>;

/// The modules of a crate, each with those that it knows.
#[derive(Debug)]
pub struct ModuleGraph {
    known: BTreeMap<ModulePath, BTreeSet<ModulePath>>,
}

/// How far names are followed from one `use` to the next: those of real code take two or three.
const USES_MAX: usize = 12;

/// What a file says of names.
#[derive(Debug, Default)]
struct Module {
    /// What it defines.
    defines: BTreeSet<String>,
    /// What it brings in by `use`: the name here, and the path within the crate.
    imports: BTreeMap<String, ModulePath>,
    /// Paths within the crate whose names it brings in all.
    globs: Vec<ModulePath>,
    /// All paths that it names, as written.
    paths: Vec<Vec<String>>,
}

impl ModuleGraph {
    /// Reads the crate whose folder is `dir`.
    ///
    /// # Errors
    /// A file that cannot be read, or is not Rust.
    pub fn of_crate(dir: &Path) -> Result<ModuleGraph, String> {
        let source = dir.join("src");
        let mut texts = BTreeMap::new();
        for file in crate::files(&source, "rs").map_err(|error| error.to_string())? {
            let below = file.strip_prefix(&source).unwrap_or(&file);
            let Some(path) = module_path(below) else {
                continue;
            };
            let text = std::fs::read_to_string(&file)
                .map_err(|error| format!("{}: {error}", file.display()))?;
            let tokens = tokens(&text).map_err(|error| format!("{}: {error}", file.display()))?;
            texts.insert(path, tokens);
        }
        Ok(ModuleGraph::new(&texts))
    }

    fn new(texts: &BTreeMap<ModulePath, Vec<Token>>) -> ModuleGraph {
        let names: BTreeSet<&ModulePath> = texts.keys().collect();
        let modules: BTreeMap<&ModulePath, Module> = texts
            .iter()
            .map(|(path, tokens)| (path, Module::read(path, tokens, &names)))
            .collect();
        let mut known = BTreeMap::new();
        for (&path, module) in modules.iter().filter(|(path, _)| !path.is_empty()) {
            let named = module.paths.iter().filter_map(|written| {
                let full = within_crate(path, written, &names)?;
                definer(&modules, &full, USES_MAX)
            });
            let others = named.filter(|other| !other.is_empty() && other != path);
            known.insert(path.clone(), others.collect());
        }
        ModuleGraph { known }
    }

    /// How many modules there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// The modules in circles, by circle: those that can all be reached from one another.
    #[must_use]
    pub fn circles(&self) -> Vec<Vec<String>> {
        let mut left: BTreeSet<&ModulePath> = self.known.keys().collect();
        let mut circles = Vec::new();
        while let Some(first) = left.pop_first() {
            let from = self.reachable(first);
            let back = |other: &&ModulePath| self.reachable(other).contains(first);
            let circle: Vec<&ModulePath> = from.into_iter().filter(back).collect();
            if circle.contains(&first) {
                for module in &circle {
                    left.remove(module);
                }
                circles.push(circle.iter().map(|module| module.join("::")).collect());
            }
        }
        circles
    }

    /// The modules of `circle` that `module` knows.
    #[must_use]
    pub fn knows(&self, module: &str, circle: &[String]) -> Vec<String> {
        let path: ModulePath = module.split("::").map(str::to_string).collect();
        let known = self.known.get(&path).into_iter().flatten();
        known
            .map(|other| other.join("::"))
            .filter(|other| circle.contains(other))
            .collect()
    }

    /// Takes out the arrow from one module to another. Returns whether it was there.
    pub fn remove(&mut self, from: &str, to: &str) -> bool {
        let path = |name: &str| -> ModulePath { name.split("::").map(str::to_string).collect() };
        let known = self.known.get_mut(&path(from));
        known.is_some_and(|known| known.remove(&path(to)))
    }

    /// The modules that `from` knows, those that these know, and so on.
    fn reachable(&self, from: &ModulePath) -> BTreeSet<&ModulePath> {
        let mut found = BTreeSet::new();
        let mut open = vec![from];
        while let Some(module) = open.pop() {
            for other in self.known.get(module).into_iter().flatten() {
                if found.insert(other) {
                    open.push(other);
                }
            }
        }
        found
    }
}

/// The module of a file below `src`; none for tests.
fn module_path(below: &Path) -> Option<ModulePath> {
    let mut path: ModulePath = below
        .with_extension("")
        .iter()
        .map(|part| part.to_string_lossy().into_owned())
        .collect();
    let last = path.last()?.clone();
    if last == "mod" || (path.len() == 1 && ["lib", "main"].contains(&last.as_str())) {
        path.pop();
    }
    // `checked.rs` holds the tests that run under a checker of threads.
    let is_test = |part: &String| ["tests", "checked"].contains(&part.as_str());
    (!path.iter().any(is_test)).then_some(path)
}

impl Module {
    fn read(path: &ModulePath, tokens: &[Token], names: &BTreeSet<&ModulePath>) -> Module {
        let mut module = Module::default();
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            at += 1;
            let Token::Word(word) = token else { continue };
            match word.as_str() {
                "use" => at = module.read_use(path, tokens, at, names),
                "fn" | "struct" | "enum" | "trait" | "type" | "const" | "static" | "union"
                | "mod" => {
                    if let Some(Token::Word(name)) = tokens.get(at) {
                        module.defines.insert(name.clone());
                    }
                }
                "macro_rules" => {
                    if let Some(Token::Word(name)) = tokens.get(at + 1) {
                        module.defines.insert(name.clone());
                    }
                }
                _ => {
                    let is_first = !matches!(
                        at.checked_sub(2).and_then(|at| tokens.get(at)),
                        Some(Token::PathSeparator)
                    );
                    let path = path_at(tokens, at - 1);
                    // One name alone is a local one, or that of `pub(super)`.
                    if is_first && path.len() > 1 {
                        module.paths.push(path);
                    }
                }
            }
        }
        module
    }

    /// Reads a `use` from after the word on; where its `;` is.
    fn read_use(
        &mut self,
        path: &ModulePath,
        tokens: &[Token],
        at: usize,
        names: &BTreeSet<&ModulePath>,
    ) -> usize {
        let mut prefixes: Vec<Vec<String>> = vec![Vec::new()];
        let mut current: Vec<String> = Vec::new();
        let mut alias = None;
        let mut end = at;
        while let Some(token) = tokens.get(end) {
            end += 1;
            match token {
                Token::Word(word) if word == "as" => {
                    if let Some(Token::Word(name)) = tokens.get(end) {
                        alias = Some(name.clone());
                        end += 1;
                    }
                }
                Token::Word(word) => current.push(word.clone()),
                Token::Mark('*') => current.push("*".into()),
                Token::Mark('{') => {
                    let mut prefix = prefixes.last().cloned().unwrap_or_default();
                    prefix.append(&mut current);
                    prefixes.push(prefix);
                }
                Token::Mark(mark @ (',' | '}' | ';')) => {
                    if !current.is_empty() {
                        let mut full = prefixes.last().cloned().unwrap_or_default();
                        full.append(&mut current);
                        self.import(path, full, alias.take(), names);
                    }
                    match mark {
                        '}' => drop(prefixes.pop()),
                        ';' => break,
                        _ => {}
                    }
                }
                _ => {}
            }
        }
        end
    }

    fn import(
        &mut self,
        path: &ModulePath,
        mut written: Vec<String>,
        alias: Option<String>,
        names: &BTreeSet<&ModulePath>,
    ) {
        if written.last().is_some_and(|last| last == "self") {
            written.pop();
        }
        let Some(mut full) = within_crate(path, &written, names) else {
            return;
        };
        if full.last().is_some_and(|last| last == "*") {
            full.pop();
            written.pop();
            self.globs.push(full);
        } else if let Some(name) = alias.or_else(|| written.last().cloned()) {
            self.imports.insert(name, full);
        }
        self.paths.push(written);
    }
}

/// The path that begins with the word at `at`.
fn path_at(tokens: &[Token], at: usize) -> Vec<String> {
    let mut path = Vec::new();
    for pair in tokens[at..].chunks(2) {
        let Some(Token::Word(word)) = pair.first() else {
            break;
        };
        path.push(word.clone());
        if pair.get(1) != Some(&Token::PathSeparator) {
            break;
        }
    }
    path
}

/// A path as written in the module `path`, from the crate's root on; none if it leads elsewhere.
fn within_crate(
    path: &ModulePath,
    written: &[String],
    names: &BTreeSet<&ModulePath>,
) -> Option<ModulePath> {
    let (first, rest) = written.split_first()?;
    match first.as_str() {
        "crate" => Some(rest.to_vec()),
        "self" => Some([path, rest].concat()),
        "super" => {
            let ups = written.iter().take_while(|part| *part == "super").count();
            let above = path.get(..path.len().checked_sub(ups)?)?;
            Some([above, &written[ups..]].concat())
        }
        _ => {
            let child = [path.as_slice(), std::slice::from_ref(first)].concat();
            (written.len() > 1 && names.contains(&child))
                .then(|| [path.as_slice(), written].concat())
        }
    }
}

/// The module that defines what `full` names.
fn definer(
    modules: &BTreeMap<&ModulePath, Module>,
    full: &[String],
    uses_max: usize,
) -> Option<ModulePath> {
    let uses_max = uses_max.checked_sub(1)?;
    let split = (0..=full.len()).rev();
    let at = { split }.find(|at| modules.contains_key(&full[..*at].to_vec()))?;
    let owner = full[..at].to_vec();
    let module = modules.get(&owner)?;
    let Some(name) = full.get(at) else {
        return Some(owner);
    };
    if let Some(import) = module.imports.get(name)
        && import.as_slice() != &full[..=at]
    {
        return definer(modules, &[import, &full[at + 1..]].concat(), uses_max);
    }
    if module.defines.contains(name) {
        return Some(owner);
    }
    let through_glob = module.globs.iter().find_map(|glob| {
        let from = definer(modules, &[glob, &full[at..]].concat(), uses_max)?;
        (from != *glob || modules.get(&from)?.defines.contains(name)).then_some(from)
    });
    Some(through_glob.unwrap_or(owner))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(files: &[(&str, &str)]) -> ModuleGraph {
        let texts = files.iter().map(|(path, text)| {
            let path = module_path(Path::new(path)).unwrap();
            (path, tokens(text).unwrap())
        });
        ModuleGraph::new(&texts.collect())
    }

    #[test]
    fn a_name_is_followed_through_the_table_of_contents() {
        let graph = graph(&[
            (
                "lib.rs",
                "mod error; mod tree; pub use error::{Error, kind::Kind as Sort};",
            ),
            ("error.rs", "mod kind; pub enum Error {}"),
            ("error/kind.rs", "pub enum Kind { A }"),
            (
                "tree.rs",
                "use crate::Sort; fn f() -> Result<(), crate::Error> { Sort::A; }",
            ),
        ]);
        let tree = &graph.known[&vec!["tree".to_string()]];
        let found: Vec<String> = tree.iter().map(|path| path.join("::")).collect();
        assert_eq!(found, ["error", "error::kind"]);
        assert_eq!(graph.circles(), Vec::<Vec<String>>::new());
    }

    #[test]
    fn a_circle_is_found_also_within_a_macro_and_through_a_parent() {
        let graph = graph(&[
            ("lib.rs", "mod a; mod c;"),
            (
                "a.rs",
                "mod b; pub struct A; fn f() { assert!(b::X == 1); }",
            ),
            ("a/b.rs", "use super::A; pub const X: u8 = 1;"),
            ("c.rs", "use crate::a::A;"),
        ]);
        assert_eq!(graph.circles(), [["a", "a::b"]]);
        assert_eq!(graph.knows("a::b", &graph.circles()[0]), ["a"]);
    }

    #[test]
    fn what_only_tests_compile_does_not_count() {
        let graph = graph(
            &[
                ("a.rs", "use crate::b::B; pub struct A;"),
                (
                    "b.rs",
                    "pub struct B; #[cfg(test)] mod tests { use crate::a::A; }",
                ),
                ("b/tests.rs", ""),
            ]
            .map(|(path, text)| (path, text))[..2]
                .as_ref(),
        );
        assert_eq!(graph.circles(), Vec::<Vec<String>>::new());
        assert_eq!(module_path(Path::new("b/tests.rs")), None);
    }
}
