//! Finds what a script uses of the built-in modules before it runs, so that a missing member is
//! told at the start and not in the middle of a test.
//!
//! Only the shape `import name from 'module'` … `name.member` is understood, on the level of
//! tokens. What this does not see (computed member names, aliases) is refused when it is reached.

use std::collections::{BTreeSet, HashMap};

/// A member of a module, and the line on which it is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Use {
    pub(super) module: String,
    pub(super) member: String,
    pub(super) line: u32,
}

/// All uses of members of the modules that `source` imports.
pub(super) fn uses(source: &str) -> Vec<Use> {
    let tokens = Lexer::new(source).collect::<Vec<_>>();
    let mut found = Vec::new();
    let mut bindings = HashMap::new();
    for (at, token) in tokens.iter().enumerate() {
        if token.is_word("import") && !is_member(&tokens, at) {
            read_import(&tokens[at + 1..], &mut bindings, &mut found);
        }
    }
    for (at, token) in tokens.iter().enumerate() {
        let Kind::Word(name) = &token.kind else { continue };
        let Some(module) = bindings.get(name).filter(|_| !is_member(&tokens, at)) else { continue };
        let mut rest = tokens[at + 1..].iter().skip_while(|token| token.kind == Kind::Mark('?'));
        if let (Some(dot), Some(Token { kind: Kind::Word(member), line })) =
            (rest.next(), rest.next())
            && dot.kind == Kind::Mark('.')
        {
            found.push(Use { module: module.clone(), member: (*member).to_owned(), line: *line });
        }
    }
    found
}

/// The first of `names` that `source` calls, or takes a member of, as a global.
///
/// When in doubt this sees nothing, and the use is refused when it is reached: a name that is declared
/// anywhere in the source, looks like a parameter, or is asked for with `typeof` may be the script's own.
pub(super) fn used_global(source: &str, names: &[&'static str]) -> Option<&'static str> {
    let tokens = Lexer::new(source).collect::<Vec<_>>();
    let is_used = |name: &str| {
        let mut places = tokens
            .iter()
            .enumerate()
            .filter(|(at, token)| token.is_word(name) && !is_member(&tokens, *at));
        let all = places.clone().all(|(at, _)| !may_be_own(&tokens, at));
        all && places.any(|(at, _)| is_call_or_member(&tokens, at))
    };
    names.iter().copied().find(|name| is_used(name))
}

/// Names of the variables that `source` reads from `__ENV`; `None` if it computes a name or passes `__ENV` on, because
/// then any variable may be read.
pub(super) fn variables(source: &str) -> Option<BTreeSet<String>> {
    let tokens = Lexer::new(source).collect::<Vec<_>>();
    let places = tokens.iter().enumerate().filter(|(_, token)| token.is_word("__ENV"));
    places.map(|(at, _)| variable(&tokens[at + 1..]).map(str::to_owned)).collect()
}

/// The name after `__ENV`, as in `.NAME`, `["NAME"]` and their optional forms.
fn variable<'s>(rest: &[Token<'s>]) -> Option<&'s str> {
    let mut kinds = rest.iter().map(|token| token.kind);
    let mut next = kinds.next()?;
    if next == Kind::Mark('?') {
        next = kinds.next()?;
    }
    if next == Kind::Mark('.') {
        next = kinds.next()?;
        if let Kind::Word(name) = next {
            return Some(name);
        }
    }
    match (next, kinds.next()?, kinds.next()?) {
        (Kind::Mark('['), Kind::Text(name), Kind::Mark(']')) => Some(name),
        _ => None,
    }
}

/// Whether the word at `at` may declare a name of the script's own.
fn may_be_own(tokens: &[Token<'_>], at: usize) -> bool {
    const DECLARING: [&str; 8] =
        ["const", "let", "var", "function", "class", "as", "typeof", "import"];
    let before = at.checked_sub(1).map(|at| tokens[at].kind);
    let after = tokens.get(at + 1).map(|token| token.kind);
    let declared = matches!(before, Some(Kind::Word(word)) if DECLARING.contains(&word));
    let in_list = matches!(before, Some(Kind::Mark('(' | ',' | '{' | '[')))
        && matches!(after, Some(Kind::Mark(')' | ',' | '=' | '}' | ']') | Kind::Word("as")));
    let assigned = matches!(after, Some(Kind::Mark('=')));
    declared || in_list || assigned || is_method(tokens, at)
}

/// Whether `name(…) {` stands there: a method, or a function in a class or an object.
fn is_method(tokens: &[Token<'_>], at: usize) -> bool {
    if tokens.get(at + 1).map(|token| token.kind) != Some(Kind::Mark('(')) {
        return false;
    }
    let mut depth = 0usize;
    for (offset, token) in tokens[at + 1..].iter().enumerate() {
        match token.kind {
            Kind::Mark('(') => depth += 1,
            Kind::Mark(')') => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return tokens.get(at + offset + 2).map(|token| token.kind) == Some(Kind::Mark('{'));
        }
    }
    false
}

fn is_call_or_member(tokens: &[Token<'_>], at: usize) -> bool {
    matches!(tokens.get(at + 1).map(|token| token.kind), Some(Kind::Mark('(' | '.')))
}

fn is_member(tokens: &[Token<'_>], at: usize) -> bool {
    at > 0 && tokens[at - 1].kind == Kind::Mark('.')
}

/// Reads the clause after `import`.
fn read_import<'s>(
    tokens: &[Token<'s>],
    bindings: &mut HashMap<&'s str, String>,
    found: &mut Vec<Use>,
) {
    let Some(end) = tokens.iter().position(|token| matches!(token.kind, Kind::Text(_))) else {
        return;
    };
    let Kind::Text(module) = tokens[end].kind else { return };
    let clause = &tokens[..end];
    // `import(…)`, `import.meta`, or something this does not understand.
    if clause.is_empty() || !clause[end - 1].is_word("from") {
        return;
    }
    let mut in_braces = false;
    for (at, token) in clause[..end - 1].iter().enumerate() {
        match token.kind {
            Kind::Mark('{') => in_braces = true,
            Kind::Mark('}') => in_braces = false,
            Kind::Word("as") => {}
            Kind::Word(name) if in_braces => {
                let renamed = at > 0 && clause[at - 1].is_word("as");
                if !renamed {
                    let (module, member) = (module.to_owned(), name.to_owned());
                    found.push(Use { module, member, line: token.line });
                }
            }
            Kind::Word(name) => {
                bindings.insert(name, module.to_owned());
            }
            _ => {}
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind<'s> {
    Word(&'s str),
    /// What is between the quotes, escapes untouched.
    Text(&'s str),
    Mark(char),
    /// A regular expression or a part of a template.
    Other,
}

#[derive(Debug, Clone, Copy)]
struct Token<'s> {
    kind: Kind<'s>,
    line: u32,
}

impl Token<'_> {
    fn is_word(&self, word: &str) -> bool {
        self.kind == Kind::Word(word)
    }

    /// Whether a `/` after this token divides; otherwise it begins a regular expression.
    fn ends_a_value(&self) -> bool {
        match self.kind {
            Kind::Word(word) => !matches!(
                word,
                "return"
                    | "typeof"
                    | "case"
                    | "in"
                    | "of"
                    | "delete"
                    | "void"
                    | "throw"
                    | "new"
                    | "else"
                    | "do"
                    | "instanceof"
                    | "yield"
                    | "await"
            ),
            Kind::Text(_) | Kind::Other => true,
            Kind::Mark(mark) => matches!(mark, ')' | ']' | '}'),
        }
    }
}

/// Splits source text into tokens; comments and spaces are left out.
struct Lexer<'s> {
    source: &'s str,
    at: usize,
    line: u32,
    last: Option<Token<'s>>,
    /// Open braces inside each template that is being read.
    templates: Vec<u32>,
}

impl<'s> Lexer<'s> {
    fn new(source: &'s str) -> Self {
        Self { source, at: 0, line: 1, last: None, templates: Vec::new() }
    }

    fn rest(&self) -> &'s str {
        &self.source[self.at..]
    }

    /// Goes on by `bytes`, which must end on a character boundary.
    fn advance(&mut self, bytes: usize) -> &'s str {
        let taken = &self.rest()[..bytes];
        self.line += taken.matches('\n').count() as u32;
        self.at += bytes;
        taken
    }

    fn skip_spaces_and_comments(&mut self) {
        loop {
            let rest = self.rest();
            let length = if rest.starts_with("//") {
                rest.find('\n').unwrap_or(rest.len())
            } else if rest.starts_with("/*") {
                rest.find("*/").map_or(rest.len(), |end| end + 2)
            } else {
                rest.len() - rest.trim_start().len()
            };
            if length == 0 {
                return;
            }
            self.advance(length);
        }
    }

    /// The length up to and including the first `end` that is not escaped; `None` at a line end.
    fn quoted_length(&self, end: char) -> usize {
        let (mut escaped, mut in_class) = (false, false);
        for (at, c) in self.rest().char_indices().skip(1) {
            match c {
                _ if std::mem::take(&mut escaped) => {}
                '\\' => escaped = true,
                '\n' => return at,
                '[' if end == '/' => in_class = true,
                ']' if end == '/' => in_class = false,
                _ if c == end && !in_class => return at + c.len_utf8(),
                _ => {}
            }
        }
        self.rest().len()
    }

    /// Reads a template from its backtick or closing brace on, to its end or the next `${`.
    fn template(&mut self) -> Kind<'s> {
        let mut escaped = false;
        let rest = self.rest();
        for (at, c) in rest.char_indices().skip(1) {
            match c {
                _ if std::mem::take(&mut escaped) => {}
                '\\' => escaped = true,
                '`' => {
                    self.advance(at + 1);
                    return Kind::Other;
                }
                '$' if rest[at..].starts_with("${") => {
                    self.templates.push(0);
                    self.advance(at + 2);
                    return Kind::Mark('(');
                }
                _ => {}
            }
        }
        self.advance(rest.len());
        Kind::Other
    }

    fn kind(&mut self, first: char) -> Kind<'s> {
        let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
        match first {
            '\'' | '"' => {
                let text = self.advance(self.quoted_length(first));
                Kind::Text(text.trim_matches(first))
            }
            '`' => self.template(),
            '}' if self.templates.last() == Some(&0) => {
                self.templates.pop();
                self.template()
            }
            '/' if !self.last.is_some_and(|last| last.ends_a_value()) => {
                self.advance(self.quoted_length('/'));
                Kind::Other
            }
            _ if is_word(first) => {
                let rest = self.rest();
                Kind::Word(self.advance(rest.find(|c| !is_word(c)).unwrap_or(rest.len())))
            }
            _ => {
                if let Some(open) = self.templates.last_mut() {
                    match first {
                        '{' => *open += 1,
                        '}' => *open -= 1,
                        _ => {}
                    }
                }
                self.advance(first.len_utf8());
                Kind::Mark(first)
            }
        }
    }
}

impl<'s> Iterator for Lexer<'s> {
    type Item = Token<'s>;

    fn next(&mut self) -> Option<Token<'s>> {
        self.skip_spaces_and_comments();
        let first = self.rest().chars().next()?;
        let line = self.line;
        let token = Token { kind: self.kind(first), line };
        self.last = Some(token);
        Some(token)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn members(source: &str) -> Vec<String> {
        uses(source)
            .into_iter()
            .map(|used| format!("{}.{}:{}", used.module, used.member, used.line))
            .collect()
    }

    #[test]
    fn named_default_and_namespace_imports_are_followed() {
        assert_eq!(members("import { a, b as c } from 'm';"), ["m.a:1", "m.b:1"]);
        assert_eq!(
            members("import d, { e } from \"m\";\nd.x(); y.d.z; d?.w"),
            ["m.e:1", "m.x:2", "m.w:2"]
        );
        assert_eq!(members("import * as n from 'm'\n\nn\n .x"), ["m.x:4"]);
        assert_eq!(members("import 'm'; import('m').x; import.meta"), Vec::<String>::new());
    }

    #[test]
    fn comments_texts_and_regular_expressions_are_not_code() {
        let source = "import h from 'm';
            // h.a
            /* h.b */ 'h.c' + \"h.d\" + `h.e ${ h.f + `${ h.g }` } h.i`;
            x = /h.j[/'\"]/; y = 4 / h.k / 'h.l'; return /h.m'/.test(h.n)";
        assert_eq!(members(source), ["m.f:3", "m.g:3", "m.k:4", "m.n:4"]);
    }

    #[test]
    fn a_global_is_seen_where_it_is_certainly_used() {
        let used = |source| used_global(source, &["open", "setTimeout", "crypto"]);
        for source in [
            "const data = open('./users.json');",
            "export default function () { if (late) { open('x') } }",
            "crypto.randomUUID()",
        ] {
            assert!(used(source).is_some(), "{source}");
        }
        for own in [
            "// open('x')\n'open()'",
            "socket.open('x')",
            "function open(x) {} open(1)",
            "const open = () => 1; open()",
            "import { open } from './files.js'; open()",
            "import crypto from 'k6/crypto'; crypto.md5('x')",
            "import { x as open } from './files.js'; open()",
            "const f = (open) => open(1);",
            "class File { open(path) { return path } }",
            "if (typeof setTimeout !== 'undefined') setTimeout(f, 1)",
            "const { open } = files; open()",
            "const o = { open: 1 }",
        ] {
            assert_eq!(used(own), None, "{own}");
        }
    }

    #[test]
    fn variables_are_known_unless_a_name_is_computed() {
        let read = |source| variables(source).map(|names| names.into_iter().collect::<Vec<_>>());
        let known = |names: &[&str]| -> Option<Vec<String>> {
            Some(names.iter().map(|name| (*name).to_owned()).collect())
        };
        assert_eq!(read("nothing()"), known(&[]));
        assert_eq!(
            read("__ENV.A; globalThis.__ENV['B']; __ENV?.C; __ENV?.[\"D\"]; // __ENV.E"),
            known(&["A", "B", "C", "D"])
        );
        assert_eq!(read("`${__ENV.A}/${__ENV.B || '__ENV.C'}`"), known(&["A", "B"]));
        for computed in [
            "const { A } = __ENV;",
            "__ENV[`${a}`]",
            "__ENV['A' + b]",
            "Object.keys(__ENV)",
            "__ENV",
        ] {
            assert_eq!(read(computed), None, "{computed}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[ \\n'\"`${}()/\\\\a-c.é]{0,60}") {
            let _ = uses(&text);
            let _ = variables(&format!("__ENV{text}"));
            let _ = used_global(&text, &["a"]);
        }
    }
}
