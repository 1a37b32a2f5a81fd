//! Resolves names of a script to modules and their members.

use std::collections::HashMap;

use oxc_ast::AstKind;
use oxc_ast::ast::{
    AssignmentOperator, AssignmentTarget, BindingPattern, CallExpression, Expression,
    FormalParameters, ObjectExpression, ObjectPropertyKind, VariableDeclarator,
};
use oxc_semantic::{NodeId, ReferenceId, Semantic, SymbolId};

use super::{required, static_name, text_of};

/// Aliases of aliases that are followed.
const MAX_ROUNDS: usize = 8;

/// The meaning of a module's member. A namespace and its default object are the same.
pub(super) fn member_meaning(module: &str, member: &str) -> String {
    if member == "default" { module.to_owned() } else { format!("{module}.{member}") }
}

/// The names that stand for a module or a member of one.
pub(super) struct Names<'s, 'a> {
    semantic: &'s Semantic<'a>,
    symbols: HashMap<SymbolId, String>,
    /// Members of objects that have a name.
    members: HashMap<(SymbolId, String), String>,
    /// Members taken by destructuring: offset, module and member.
    pub(super) destructured: Vec<(u32, String, String)>,
}

impl<'s, 'a> Names<'s, 'a> {
    pub(super) fn new(semantic: &'s Semantic<'a>) -> Self {
        let (symbols, members, destructured) = Default::default();
        Self { semantic, symbols, members, destructured }
    }

    pub(super) fn set(&mut self, symbol: SymbolId, meaning: String) {
        self.symbols.insert(symbol, meaning);
    }

    /// Finds further names, until there are none.
    pub(super) fn follow(&mut self) {
        for _ in 0..MAX_ROUNDS {
            let before = (self.symbols.len(), self.members.len());
            for node in self.semantic.nodes().iter() {
                match node.kind() {
                    AstKind::VariableDeclarator(declarator) => self.read_declarator(declarator),
                    AstKind::AssignmentExpression(assignment)
                        if assignment.operator == AssignmentOperator::Assign =>
                    {
                        self.read_assignment(&assignment.left, &assignment.right);
                    }
                    AstKind::Function(function) if self.is_called_by_name(node.id()) => {
                        let name = function.id.as_ref().and_then(|id| id.symbol_id.get());
                        self.read_parameters(name, &function.params);
                    }
                    _ => {}
                }
            }
            if before == (self.symbols.len(), self.members.len()) {
                return;
            }
        }
    }

    /// The module, or the member of one, that an expression stands for.
    pub(super) fn meaning(&self, expression: &Expression<'a>) -> Option<String> {
        match expression {
            Expression::Identifier(name) => {
                self.symbols.get(&self.symbol(name.reference_id.get())?).cloned()
            }
            Expression::CallExpression(call) => required(call),
            Expression::ParenthesizedExpression(inner) => self.meaning(&inner.expression),
            Expression::AwaitExpression(awaited) => match &awaited.argument {
                Expression::ImportExpression(import) => text_of(&import.source),
                _ => None,
            },
            Expression::StaticMemberExpression(member) => {
                self.member(&member.object, member.property.name.as_str())
            }
            Expression::ComputedMemberExpression(member) => {
                self.member(&member.object, &text_of(&member.expression)?)
            }
            _ => None,
        }
    }

    fn member(&self, object: &Expression<'a>, name: &str) -> Option<String> {
        if let Some(module) = self.meaning(object) {
            return Some(member_meaning(&module, name));
        }
        match object {
            Expression::Identifier(known) => {
                let symbol = self.symbol(known.reference_id.get())?;
                self.members.get(&(symbol, name.to_owned())).cloned()
            }
            Expression::ParenthesizedExpression(inner) => self.member(&inner.expression, name),
            Expression::ObjectExpression(object) => {
                let mut values = values(object);
                values.find(|(key, _)| key == name).and_then(|(_, value)| self.meaning(value))
            }
            _ => None,
        }
    }

    fn symbol(&self, reference: Option<ReferenceId>) -> Option<SymbolId> {
        self.semantic.scoping().get_reference(reference?).symbol_id()
    }

    fn read_declarator(&mut self, declarator: &VariableDeclarator<'a>) {
        let Some(init) = &declarator.init else { return };
        if let Some(meaning) = self.meaning(init) {
            return self.bind(&declarator.id, meaning);
        }
        if let (BindingPattern::BindingIdentifier(name), Expression::ObjectExpression(object)) =
            (&declarator.id, init)
            && let Some(symbol) = name.symbol_id.get()
        {
            for (key, value) in values(object) {
                if let Some(meaning) = self.meaning(value) {
                    self.members.insert((symbol, key), meaning);
                }
            }
        }
    }

    fn bind(&mut self, pattern: &BindingPattern<'a>, meaning: String) {
        match pattern {
            BindingPattern::BindingIdentifier(name) => {
                if let Some(symbol) = name.symbol_id.get() {
                    self.symbols.entry(symbol).or_insert(meaning);
                }
            }
            BindingPattern::ObjectPattern(pattern) => {
                for property in &pattern.properties {
                    let Some(member) = static_name(&property.key) else { continue };
                    self.bind(&property.value, member_meaning(&meaning, &member));
                    if member != "default" {
                        self.destructured.push((property.span.start, meaning.clone(), member));
                    }
                }
            }
            _ => {}
        }
    }

    /// Only for names that are written once, and therefore stand for nothing else.
    fn read_assignment(&mut self, target: &AssignmentTarget<'a>, value: &Expression<'a>) {
        let AssignmentTarget::AssignmentTargetIdentifier(name) = target else { return };
        let Some(symbol) = self.symbol(name.reference_id.get()) else { return };
        let scoping = self.semantic.scoping();
        let writes = scoping.get_resolved_references(symbol).filter(|one| one.is_write()).count();
        let declared = self.semantic.nodes().kind(scoping.symbol_declaration(symbol));
        let is_empty = matches!(declared, AstKind::VariableDeclarator(one) if one.init.is_none());
        if let Some(meaning) = self.meaning(value).filter(|_| writes == 1 && is_empty) {
            self.symbols.entry(symbol).or_insert(meaning);
        }
    }

    /// True for declarations that are not exported: all calls of such a function use its name.
    fn is_called_by_name(&self, function: NodeId) -> bool {
        let around = self.semantic.nodes().parent_kind(function);
        matches!(
            around,
            AstKind::Program(_) | AstKind::FunctionBody(_) | AstKind::BlockStatement(_)
        )
    }

    /// Binds the parameters of the function `name` that stand for the same module in all its calls.
    fn read_parameters(&mut self, name: Option<SymbolId>, parameters: &FormalParameters<'a>) {
        let Some(name) = name else { return };
        let Some(calls) = self.calls(name) else { return };
        for (at, parameter) in parameters.items.iter().enumerate() {
            let mut passed = calls.iter().map(|call| {
                call.arguments.get(at).and_then(|one| self.meaning(one.as_expression()?))
            });
            let first = passed.next().flatten();
            let is_same = passed.all(|one| one == first);
            if let Some(meaning) = first.filter(|_| is_same && parameter.initializer.is_none()) {
                self.bind(&parameter.pattern, meaning);
            }
        }
    }

    /// All calls of a function; `None` if it is also used in other ways.
    fn calls(&self, function: SymbolId) -> Option<Vec<&'a CallExpression<'a>>> {
        let nodes = self.semantic.nodes();
        let references = self.semantic.scoping().get_resolved_references(function);
        let calls = references.map(|reference| {
            let AstKind::IdentifierReference(name) = nodes.kind(reference.node_id()) else {
                return None;
            };
            match nodes.parent_kind(reference.node_id()) {
                AstKind::CallExpression(call) => match &call.callee {
                    Expression::Identifier(callee) if callee.span == name.span => Some(call),
                    _ => None,
                },
                _ => None,
            }
        });
        calls.collect()
    }
}

/// Names and values of an object's own members.
fn values<'o, 'a>(
    object: &'o ObjectExpression<'a>,
) -> impl Iterator<Item = (String, &'o Expression<'a>)> {
    object.properties.iter().filter_map(|property| match property {
        ObjectPropertyKind::ObjectProperty(one) => Some((static_name(&one.key)?, &one.value)),
        ObjectPropertyKind::SpreadProperty(_) => None,
    })
}
