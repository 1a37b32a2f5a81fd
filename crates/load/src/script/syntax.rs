//! Static analysis of scripts: imports, used members of built-in modules, and variables read. A missing module is
//! therefore reported before the test starts, not in the middle of it.
//!
//! Names are followed through scopes, aliases and destructuring. A member whose name is computed is refused when it
//! is reached.

mod names;
mod positions;

use std::collections::BTreeSet;
use std::path::Path;

use oxc_allocator::Allocator;
use oxc_ast::AstKind;
use oxc_ast::ast::{
    Argument, BindingPattern, CallExpression, Expression, ImportDeclarationSpecifier, Program,
    PropertyKey, Statement,
};
use oxc_codegen::{Codegen, CodegenOptions};
use oxc_parser::Parser;
use oxc_semantic::{NodeId, Semantic, SemanticBuilder};
use oxc_span::{GetSpan, SourceType};
use oxc_transformer::{TransformOptions, Transformer};

use super::ScriptError;

use names::{Names, member_meaning};
pub(crate) use positions::{Positions, relocate};

/// Stack of the parser, which calls itself for each level of a script's nesting.
const STACK_BYTES: usize = 256 << 20;

/// Brackets that may be open at once; QuickJS stops at fewer.
const MAX_NESTING: usize = 20_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    JavaScript,
    TypeScript,
}

impl Language {
    /// By the extension, as in k6.
    pub(crate) fn from_path(path: &Path) -> Self {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("ts" | "mts" | "cts") => Self::TypeScript,
            _ => Self::JavaScript,
        }
    }
}

/// Use of a member of a module (`k6/execution`) or of one of its members (`k6/execution.vu`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Use {
    pub(crate) module: String,
    pub(crate) member: String,
    /// From 1.
    pub(crate) line: usize,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Syntax {
    /// An ES module, by k6's rule: it imports, exports, or awaits outside of all functions.
    pub(crate) is_module: bool,
    /// Specifiers as written: imported, exported from elsewhere, or required.
    pub(crate) specifiers: Vec<String>,
    pub(crate) uses: Vec<Use>,
    /// Variables read from `__ENV`; `None` if a name is computed or `__ENV` is passed on, because then any may be read.
    pub(crate) variables: Option<BTreeSet<String>>,
    /// Positions in the file, for TypeScript.
    pub(crate) positions: Option<Positions>,
}

/// Analyses a script and returns its text as JavaScript.
///
/// # Errors
/// If the text is invalid TypeScript or nested too deeply. The engine itself reports invalid JavaScript.
pub(crate) fn read(
    text: String,
    language: Language,
    name: &str,
) -> Result<(Syntax, String), ScriptError> {
    if nesting(&text) > MAX_NESTING {
        return Err(ScriptError::Exception(format!("SyntaxError: {name} is nested too deeply")));
    }
    let owned = name.to_owned();
    let work = move || analyse(text, language, &owned);
    let thread = std::thread::Builder::new().name("syntax".to_owned()).stack_size(STACK_BYTES);
    let failed = |error| ScriptError::Read(format!("no thread to read a script: {error}"));
    let thread = thread.spawn(work).map_err(failed)?;
    thread.join().unwrap_or_else(|_| Err(ScriptError::Panic(format!("the reading of {name}"))))
}

/// Upper bound of the brackets open at once: those inside strings count too.
fn nesting(text: &str) -> usize {
    let (mut open, mut most) = (0_usize, 0);
    for byte in text.bytes() {
        match byte {
            b'(' | b'[' | b'{' => {
                open += 1;
                most = most.max(open);
            }
            b')' | b']' | b'}' => open = open.saturating_sub(1),
            _ => {}
        }
    }
    most
}

fn analyse(text: String, language: Language, name: &str) -> Result<(Syntax, String), ScriptError> {
    if language == Language::JavaScript {
        return Ok((find(&text), text));
    }
    let (code, positions) = to_javascript(&text, name)?;
    // Imports of types alone are gone now.
    let mut syntax = find(&code);
    for used in &mut syntax.uses {
        let written = positions.written(used.line as u32, u32::MAX);
        used.line = written.map_or(used.line, |(line, _)| line as usize);
    }
    syntax.positions = Some(positions);
    Ok((syntax, code))
}

fn find(text: &str) -> Syntax {
    let allocator = Allocator::default();
    let parsed = Parser::new(&allocator, text, SourceType::unambiguous()).parse();
    let semantic = SemanticBuilder::new_compiler().with_build_nodes(true).build(&parsed.program);
    let finder = Finder::new(text, &semantic.semantic);
    finder.find(&parsed.program, parsed.module_record.has_module_syntax)
}

fn to_javascript(text: &str, name: &str) -> Result<(String, Positions), ScriptError> {
    let allocator = Allocator::default();
    let parsed = Parser::new(&allocator, text, SourceType::ts()).parse();
    if let Some(problem) = parsed.diagnostics.iter().next() {
        let at = problem.labels.first().map_or(0, |label| label.offset() as usize);
        let message = format!("SyntaxError: {} ({name}:{})", problem.message, line(text, at));
        return Err(ScriptError::Exception(message));
    }
    let mut program = parsed.program;
    let scoping = SemanticBuilder::new_compiler().with_enum_eval(true).build(&program);
    let scoping = scoping.semantic.into_scoping();
    let options = TransformOptions::default();
    let transformed = Transformer::new(&allocator, Path::new(name), &options)
        .build_with_scoping(scoping, &mut program);
    if let Some(problem) = transformed.diagnostics.iter().next() {
        return Err(ScriptError::Exception(format!("SyntaxError: {} ({name})", problem.message)));
    }
    let options =
        CodegenOptions { source_map_path: Some(name.into()), ..CodegenOptions::default() };
    let built = Codegen::new().with_options(options).build(&program);
    let positions = Positions::from_codegen(&built);
    Ok((built.code, positions))
}

/// Line number of an offset, from 1.
fn line(text: &str, at: usize) -> usize {
    text.as_bytes()[..at.min(text.len())].iter().filter(|byte| **byte == b'\n').count() + 1
}

struct Finder<'s, 'a> {
    text: &'s str,
    semantic: &'s Semantic<'a>,
    names: Names<'s, 'a>,
    /// Offset and text.
    specifiers: Vec<(u32, String)>,
    /// Offset, module and member.
    uses: Vec<(u32, String, String)>,
    /// `await` outside of all functions makes a module.
    awaits: bool,
    variables: Option<BTreeSet<String>>,
}

impl<'s, 'a> Finder<'s, 'a> {
    fn new(text: &'s str, semantic: &'s Semantic<'a>) -> Self {
        let (specifiers, uses, names) = (Vec::new(), Vec::new(), Names::new(semantic));
        let variables = Some(BTreeSet::new());
        Self { text, semantic, names, specifiers, uses, awaits: false, variables }
    }

    fn find(mut self, program: &Program<'a>, has_module_syntax: bool) -> Syntax {
        for statement in &program.body {
            self.read_import(statement);
        }
        self.names.follow();
        for node in self.semantic.nodes().iter() {
            self.read_node(node.id(), node.kind());
        }
        self.uses.append(&mut self.names.destructured);
        self.specifiers.sort();
        self.uses.sort();
        self.uses.dedup();
        let text = self.text;
        let uses = self.uses.into_iter().map(|(at, module, member)| Use {
            module,
            member,
            line: line(text, at as usize),
        });
        Syntax {
            is_module: has_module_syntax || self.awaits,
            specifiers: self.specifiers.into_iter().map(|(_, specifier)| specifier).collect(),
            uses: uses.collect(),
            variables: self.variables,
            positions: None,
        }
    }

    fn read_node(&mut self, id: NodeId, kind: AstKind<'a>) {
        let parent = self.semantic.nodes().parent_kind(id);
        match kind {
            AstKind::CallExpression(call) => {
                self.specifiers.extend(required(call).map(|module| (call.span.start, module)));
            }
            AstKind::ImportExpression(import) => {
                if let Expression::StringLiteral(source) = &import.source {
                    self.specifiers.push((import.span.start, source.value.to_string()));
                }
            }
            AstKind::IdentifierReference(name) if name.name == "__ENV" => {
                read_variables(name.span, parent, &mut self.variables);
            }
            AstKind::StaticMemberExpression(member) => {
                let name = member.property.name.as_str();
                if name == "__ENV" {
                    read_variables(member.span, parent, &mut self.variables);
                }
                self.read_member(&member.object, member.property.span.start, name);
            }
            AstKind::ComputedMemberExpression(member) => {
                if let Some(name) = text_of(&member.expression) {
                    self.read_member(&member.object, member.span.start, &name);
                }
            }
            AstKind::AwaitExpression(_) => self.awaits |= self.is_outside_of_functions(id),
            AstKind::ForOfStatement(of) if of.r#await => {
                self.awaits |= self.is_outside_of_functions(id);
            }
            _ => {}
        }
    }

    fn is_outside_of_functions(&self, node: NodeId) -> bool {
        self.semantic
            .nodes()
            .ancestor_kinds(node)
            .all(|kind| !matches!(kind, AstKind::Function(_) | AstKind::ArrowFunctionExpression(_)))
    }

    /// Reads a declaration that imports, or exports from elsewhere.
    fn read_import(&mut self, statement: &Statement<'a>) {
        let import = match statement {
            Statement::ImportDeclaration(import) if !import.import_kind.is_type() => import,
            Statement::ExportFromDeclaration(export) => {
                let module = export.source.value.to_string();
                self.specifiers.push((export.span.start, module.clone()));
                for specifier in &export.specifiers {
                    let member = specifier.local.name().to_string();
                    self.uses.push((specifier.span.start, module.clone(), member));
                }
                return;
            }
            Statement::ExportAllDeclaration(export) => {
                self.specifiers.push((export.span.start, export.source.value.to_string()));
                return;
            }
            _ => return,
        };
        let module = import.source.value.to_string();
        self.specifiers.push((import.span.start, module.clone()));
        for specifier in import.specifiers.iter().flatten() {
            let mut meaning = module.clone();
            if let ImportDeclarationSpecifier::ImportSpecifier(named) = specifier
                && named.imported.name().as_str() != "default"
            {
                let member = named.imported.name();
                self.uses.push((named.span.start, module.clone(), member.to_string()));
                meaning = member_meaning(&module, member.as_str());
            }
            if let Some(symbol) = specifier.local().symbol_id.get() {
                self.names.set(symbol, meaning);
            }
        }
    }

    /// Reads a member of an expression that may stand for a module.
    fn read_member(&mut self, object: &Expression<'a>, at: u32, member: &str) {
        let module = self.names.meaning(object).filter(|_| member != "default");
        if let Some(module) = module {
            self.uses.push((at, module, member.to_owned()));
        }
    }
}

fn required(call: &CallExpression<'_>) -> Option<String> {
    match (&call.callee, call.arguments.first()) {
        (Expression::Identifier(name), Some(Argument::StringLiteral(module)))
            if name.name == "require" =>
        {
            Some(module.value.to_string())
        }
        _ => None,
    }
}

/// Offset and name of the member that `parent` takes of the object at `object`, unless the name is computed.
fn member_of(object: oxc_span::Span, parent: AstKind<'_>) -> Option<(u32, String)> {
    match parent {
        AstKind::StaticMemberExpression(member) if member.object.span() == object => {
            Some((member.property.span.start, member.property.name.to_string()))
        }
        AstKind::ComputedMemberExpression(member) if member.object.span() == object => {
            Some((member.span.start, text_of(&member.expression)?))
        }
        _ => None,
    }
}

/// The value of a string that is not computed.
fn text_of(expression: &Expression<'_>) -> Option<String> {
    match expression {
        Expression::StringLiteral(text) => Some(text.value.to_string()),
        Expression::TemplateLiteral(text) if text.expressions.is_empty() => {
            Some(text.quasis.first()?.value.cooked?.to_string())
        }
        _ => None,
    }
}

fn static_name(key: &PropertyKey<'_>) -> Option<String> {
    key.static_name().map(|name| name.to_string())
}

/// Reads the use of `__ENV` at `object`.
fn read_variables(
    object: oxc_span::Span,
    parent: AstKind<'_>,
    variables: &mut Option<BTreeSet<String>>,
) {
    let names = match parent {
        // `globalThis.__ENV`: read as the member it is.
        AstKind::StaticMemberExpression(member) if member.property.span == object => return,
        AstKind::VariableDeclarator(declarator) => match &declarator.id {
            BindingPattern::ObjectPattern(pattern) if pattern.rest.is_none() => {
                pattern.properties.iter().map(|property| static_name(&property.key)).collect()
            }
            _ => None,
        },
        _ => member_of(object, parent).map(|(_, name)| BTreeSet::from([name])),
    };
    match (names, &mut *variables) {
        (Some(names), Some(known)) => known.extend(names),
        _ => *variables = None,
    }
}

#[cfg(test)]
mod tests;
