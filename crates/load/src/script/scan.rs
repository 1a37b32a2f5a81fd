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

/// Whether the source is an ES module: it imports, exports, or awaits outside of all functions. As k6 decides it.
pub(super) fn is_module(source: &str) -> bool {
    let tokens = Lexer::new(source).collect::<Vec<_>>();
    let (mut depth, mut is_balanced, mut is_module) = (0usize, true, false);
    for (at, token) in tokens.iter().enumerate() {
        match token.kind {
            Kind::Mark('{' | '(' | '[') => depth += 1,
            Kind::Mark('}' | ')' | ']') => {
                is_balanced &= depth > 0;
                depth = depth.saturating_sub(1);
            }
            Kind::Word("await") if !is_member(&tokens, at) => is_module |= depth == 0,
            _ => is_module |= depth == 0 && begins_import_or_export(&tokens, at),
        }
    }
    // Otherwise a regular expression was taken for something else, and depths say nothing.
    let is_certain = is_balanced && depth == 0;
    is_module || (!is_certain && (0..tokens.len()).any(|at| begins_import_or_export(&tokens, at)))
}

fn begins_import_or_export(tokens: &[Token<'_>], at: usize) -> bool {
    const EXPORTED: [&str; 7] = ["default", "const", "let", "var", "function", "class", "async"];
    let Kind::Word(word) = tokens[at].kind else { return false };
    if is_member(tokens, at) {
        return false;
    }
    match (word, tokens.get(at + 1).map(|token| token.kind)) {
        ("import", Some(Kind::Text(_) | Kind::Mark('{' | '*' | '.') | Kind::Word(_))) => true,
        ("export", Some(Kind::Word(next))) => EXPORTED.contains(&next),
        ("export", Some(Kind::Mark(mark))) => matches!(mark, '{' | '*'),
        _ => false,
    }
}

/// What the source imports, exports from elsewhere, or requires, as it is written.
pub(super) fn specifiers(source: &str) -> Vec<String> {
    let tokens = Lexer::new(source).collect::<Vec<_>>();
    let text = |at: usize| match tokens.get(at).map(|token| token.kind) {
        Some(Kind::Text(text)) => Some(text.to_owned()),
        _ => None,
    };
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let Kind::Word(word) = token.kind else { continue };
        let called = tokens.get(at + 1).is_some_and(|next| next.kind == Kind::Mark('('));
        let specifier = match word {
            "require" | "import" if called => text(at + 2),
            "from" | "import" => text(at + 1),
            _ => None,
        };
        found.extend(specifier);
    }
    found
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

    /// Reads a template from its backtick or closing brace on, to its end or the next `${`. One with expressions in it
    /// looks like a list of them in parentheses.
    fn template(&mut self, is_begin: bool) -> Kind<'s> {
        let mut escaped = false;
        let rest = self.rest();
        for (at, c) in rest.char_indices().skip(1) {
            match c {
                _ if std::mem::take(&mut escaped) => {}
                '\\' => escaped = true,
                '`' => {
                    self.advance(at + 1);
                    return if is_begin { Kind::Other } else { Kind::Mark(')') };
                }
                '$' if rest[at..].starts_with("${") => {
                    self.templates.push(0);
                    self.advance(at + 2);
                    return Kind::Mark(if is_begin { '(' } else { ',' });
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
            '`' => self.template(true),
            '}' if self.templates.last() == Some(&0) => {
                self.templates.pop();
                self.template(false)
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
    fn a_module_imports_exports_or_awaits() {
        for module in [
            "import 'm'",
            "const a = 1;\nexport { a }",
            "export default function () {}",
            "await x()",
            "import { a } from 'm'; f(a)",
            "f(`${a} ${b}`); g`${c}`; export default 1",
            "if (a) /[(]/.test(b); export const c = 1",
        ] {
            assert!(is_module(module), "{module}");
        }
        for other in [
            "",
            "exports.default = function () {}",
            "module.exports = { export: 1, import: 2 }",
            "// export default 1",
            "import('m').then(f)",
            "async function f() { await g() }",
            "const a = async () => { await g() }",
            "a.export = 1; a.import()",
            "const s = `export default`",
            "const s = `${a}${`${b}`}`; exports.a = `${c}`",
        ] {
            assert!(!is_module(other), "{other}");
        }
    }

    #[test]
    fn specifiers_are_those_of_all_ways_to_import() {
        let source = "import a from 'a'; import 'b'; export * from \"c\"; const d = require('d');
            import('e'); x = 'from'; // import 'f'
            import { g as from } from 'g'";
        assert_eq!(specifiers(source), ["a", "b", "c", "d", "e", "g"]);
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
            let _ = (is_module(&text), specifiers(&text));
        }
    }
}
