//! A source file as a flat list of tokens, without what only tests compile.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// A token. Literals are left out: no path is made of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Token {
    /// A name or a keyword.
    Word(String),
    /// `::`.
    PathSeparator,
    /// Any other character of punctuation, and the brackets.
    Mark(char),
}

/// The tokens of `text`, but for items under `#[cfg(test)]`.
///
/// # Errors
/// Where the text is not Rust.
pub(crate) fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let stream: TokenStream = text
        .parse()
        .map_err(|error: proc_macro2::LexError| error.to_string())?;
    let mut out = Vec::new();
    flatten(stream, &mut out);
    Ok(out)
}

fn flatten(stream: TokenStream, out: &mut Vec<Token>) {
    let trees: Vec<TokenTree> = stream.into_iter().collect();
    let mut at = 0;
    while let Some(tree) = trees.get(at) {
        if is_test_attribute(&trees, at) {
            at = after_item(&trees, at + 2);
            continue;
        }
        at += 1;
        match tree {
            TokenTree::Ident(name) => out.push(Token::Word(name.to_string())),
            TokenTree::Punct(mark) => {
                let double = mark.as_char() == ':' && is_mark(trees.get(at), ':');
                at += usize::from(double);
                out.push(match double {
                    true => Token::PathSeparator,
                    false => Token::Mark(mark.as_char()),
                });
            }
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ('(', ')'),
                    Delimiter::Brace => ('{', '}'),
                    Delimiter::Bracket => ('[', ']'),
                    Delimiter::None => (' ', ' '),
                };
                out.push(Token::Mark(open));
                flatten(group.stream(), out);
                out.push(Token::Mark(close));
            }
            TokenTree::Literal(_) => {}
        }
    }
}

fn is_mark(tree: Option<&TokenTree>, expected: char) -> bool {
    matches!(tree, Some(TokenTree::Punct(mark)) if mark.as_char() == expected)
}

/// Whether `#[cfg(test)]`, or `cfg` of something with `test` that is not negated, begins here.
fn is_test_attribute(trees: &[TokenTree], at: usize) -> bool {
    let Some(TokenTree::Group(group)) = trees.get(at + 1) else {
        return false;
    };
    if !is_mark(trees.get(at), '#') || group.delimiter() != Delimiter::Bracket {
        return false;
    }
    let mut inside = Vec::new();
    flatten(group.stream(), &mut inside);
    let has = |word: &str| inside.contains(&Token::Word(word.into()));
    has("cfg") && has("test") && !has("not")
}

/// The tree after the item that begins at `at`: it ends with `;` or with its braces.
fn after_item(trees: &[TokenTree], mut at: usize) -> usize {
    while let Some(tree) = trees.get(at) {
        at += 1;
        match tree {
            TokenTree::Punct(mark) if mark.as_char() == ';' => break,
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => break,
            _ => {}
        }
    }
    at
}
