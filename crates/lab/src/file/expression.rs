//! Arithmetic for limits such as `max(0, 30 * 200 - before)`.
//!
//! Numbers, names, `+ - * /`, parentheses, `max(…)` and `min(…)`; an invariant that needs more uses a script. The
//! caller resolves names, which may contain dots and a part in braces, as in `load.http_reqs{scenario:attack}.count`.

use std::fmt;
use std::iter::Peekable;
use std::str::CharIndices;

/// Limit of nesting, so that no text can exhaust the stack.
const DEPTH: u32 = 64;
/// Limit of length: sums and products nest to the left.
const CHARACTERS: usize = 1000;

#[derive(Debug, Clone, PartialEq)]
pub struct Expression {
    text: String,
    root: Node,
}

#[derive(Debug, Clone, PartialEq)]
enum Node {
    Number(f64),
    Name(String),
    Negative(Box<Node>),
    Binary(Operator, Box<Node>, Box<Node>),
    Call(Function, Vec<Node>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Function {
    Max,
    Min,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} at character {} of `{text}`", .at + 1)]
pub struct SyntaxError {
    text: String,
    /// Number of characters before the error.
    at: usize,
    message: String,
}

/// A formula without a value: a division by zero, or a number too large.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a finite number here")]
pub struct NotFinite(String);

impl Expression {
    pub fn parse(text: &str) -> Result<Self, SyntaxError> {
        if text.chars().count() > CHARACTERS {
            let text = text.chars().take(40).collect::<String>() + "…";
            let message = format!("a formula has at most {CHARACTERS} characters; this ends");
            return Err(SyntaxError { text, at: CHARACTERS, message });
        }
        let mut parser = Parser { text, tokens: tokens(text)?.into_iter().peekable() };
        let root = parser.sum(0)?;
        match parser.tokens.next() {
            None => Ok(Self { text: text.to_owned(), root }),
            Some((at, token)) => Err(parser.error(at, format!("{token} is not expected"))),
        }
    }

    pub fn number(number: f64) -> Self {
        Self { text: number.to_string(), root: Node::Number(number) }
    }

    /// Names in order, with repetitions.
    pub fn names(&self) -> Vec<&str> {
        let mut names = Vec::new();
        self.root.collect(&mut names);
        names
    }

    /// # Errors
    /// If `resolve` fails for a name, or the result is not finite.
    pub fn evaluate<E: From<NotFinite>>(
        &self,
        resolve: &dyn Fn(&str) -> Result<f64, E>,
    ) -> Result<f64, E> {
        let value = self.root.evaluate(resolve)?.filter(|value| value.is_finite());
        value.ok_or_else(|| NotFinite(self.text.clone()).into())
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Node {
    fn collect<'n>(&'n self, names: &mut Vec<&'n str>) {
        match self {
            Self::Number(_) => {}
            Self::Name(name) => names.push(name),
            Self::Negative(inner) => inner.collect(names),
            Self::Binary(_, left, right) => {
                left.collect(names);
                right.collect(names);
            }
            Self::Call(_, arguments) => arguments.iter().for_each(|node| node.collect(names)),
        }
    }

    /// `None` after any division by zero: otherwise `max(0, 0 / 0)` would be a number again.
    fn evaluate<E>(&self, resolve: &dyn Fn(&str) -> Result<f64, E>) -> Result<Option<f64>, E> {
        Ok(match self {
            Self::Number(number) => Some(*number),
            Self::Name(name) => Some(resolve(name)?),
            Self::Negative(inner) => inner.evaluate(resolve)?.map(|value| -value),
            Self::Binary(operator, left, right) => {
                let (left, right) = (left.evaluate(resolve)?, right.evaluate(resolve)?);
                left.zip(right).and_then(|(left, right)| match operator {
                    Operator::Add => Some(left + right),
                    Operator::Subtract => Some(left - right),
                    Operator::Multiply => Some(left * right),
                    Operator::Divide => (right != 0.0).then(|| left / right),
                })
            }
            Self::Call(function, arguments) => {
                let pick = match function {
                    Function::Max => f64::max,
                    Function::Min => f64::min,
                };
                let values: Result<Option<Vec<f64>>, E> =
                    arguments.iter().map(|node| node.evaluate(resolve)).collect();
                values?.and_then(|values| values.into_iter().reduce(pick))
            }
        })
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Number(f64),
    Name(String),
    Sign(char),
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "`{number}`"),
            Self::Name(name) => write!(f, "`{name}`"),
            Self::Sign(sign) => write!(f, "`{sign}`"),
        }
    }
}

/// Tokens with the number of characters before each.
fn tokens(text: &str) -> Result<Vec<(usize, Token)>, SyntaxError> {
    let place = |byte: usize| text[..byte].chars().count();
    let error = |byte: usize, message: String| SyntaxError {
        text: text.to_owned(),
        at: place(byte),
        message,
    };
    let mut found = Vec::new();
    let mut rest = text.char_indices().peekable();
    while let Some((start, c)) = rest.next() {
        let token =
            match c {
                c if c.is_whitespace() => continue,
                '+' | '-' | '*' | '/' | '(' | ')' | ',' => Token::Sign(c),
                c if c.is_ascii_digit() || c == '.' => {
                    let end = take(&mut rest, text, |c| c.is_ascii_digit() || c == '.' || c == '_');
                    let digits = text[start..end].replace('_', "");
                    let number = digits.parse().ok().filter(|number: &f64| number.is_finite());
                    Token::Number(number.ok_or_else(|| {
                        error(start, format!("`{}` is no number", &text[start..end]))
                    })?)
                }
                c if c.is_ascii_alphabetic() || c == '_' => {
                    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
                    let mut end = take(&mut rest, text, plain);
                    if rest.next_if(|(_, c)| *c == '{').is_some() {
                        take(&mut rest, text, |c| c != '}');
                        let Some((close, _)) = rest.next() else {
                            return Err(error(end, "a `}` is missing after this".to_owned()));
                        };
                        end = take(&mut rest, text, plain).max(close + 1);
                    }
                    Token::Name(text[start..end].to_owned())
                }
                c => return Err(error(start, format!("{c:?} is not expected"))),
            };
        found.push((place(start), token));
    }
    Ok(found)
}

/// Skips wanted characters, and returns the offset of the byte after them.
fn take(rest: &mut Peekable<CharIndices<'_>>, text: &str, wanted: impl Fn(char) -> bool) -> usize {
    while rest.next_if(|(_, c)| wanted(*c)).is_some() {}
    rest.peek().map_or(text.len(), |(at, _)| *at)
}

struct Parser<'t> {
    text: &'t str,
    tokens: Peekable<std::vec::IntoIter<(usize, Token)>>,
}

/// Recursive descent; each level of precedence is a method.
impl Parser<'_> {
    fn sum(&mut self, depth: u32) -> Result<Node, SyntaxError> {
        self.chain(depth, &[('+', Operator::Add), ('-', Operator::Subtract)], Self::product)
    }

    fn product(&mut self, depth: u32) -> Result<Node, SyntaxError> {
        self.chain(depth, &[('*', Operator::Multiply), ('/', Operator::Divide)], Self::factor)
    }

    /// Operands with operators of one precedence between them.
    fn chain(
        &mut self,
        depth: u32,
        operators: &[(char, Operator)],
        operand: fn(&mut Self, u32) -> Result<Node, SyntaxError>,
    ) -> Result<Node, SyntaxError> {
        let mut left = operand(self, depth)?;
        while let Some((_, operator)) = operators.iter().find(|(sign, _)| self.take_sign(*sign)) {
            left = Node::Binary(*operator, Box::new(left), Box::new(operand(self, depth)?));
        }
        Ok(left)
    }

    fn factor(&mut self, depth: u32) -> Result<Node, SyntaxError> {
        let Some((at, token)) = self.tokens.next() else {
            return Err(self.end("a number or a name"));
        };
        if depth > DEPTH {
            return Err(self.error(at, "this is nested too deeply".to_owned()));
        }
        match token {
            Token::Number(number) => Ok(Node::Number(number)),
            Token::Name(name) if self.take_sign('(') => self.call(at, &name, depth),
            Token::Name(name) => Ok(Node::Name(name)),
            Token::Sign('-') => Ok(Node::Negative(Box::new(self.factor(depth + 1)?))),
            Token::Sign('(') => {
                let inner = self.sum(depth + 1)?;
                self.close()?;
                Ok(inner)
            }
            token => Err(self.error(at, format!("a number or a name is expected, not {token}"))),
        }
    }

    fn call(&mut self, at: usize, name: &str, depth: u32) -> Result<Node, SyntaxError> {
        let function = match name {
            "max" => Function::Max,
            "min" => Function::Min,
            _ => {
                let message = format!("there is no function `{name}`, only `max` and `min`,");
                return Err(self.error(at, message));
            }
        };
        let mut arguments = vec![self.sum(depth + 1)?];
        while self.take_sign(',') {
            arguments.push(self.sum(depth + 1)?);
        }
        self.close()?;
        Ok(Node::Call(function, arguments))
    }

    fn close(&mut self) -> Result<(), SyntaxError> {
        match self.tokens.next() {
            Some((_, Token::Sign(')'))) => Ok(()),
            Some((at, token)) => Err(self.error(at, format!("`)` is expected, not {token}"))),
            None => Err(self.end("`)`")),
        }
    }

    fn take_sign(&mut self, sign: char) -> bool {
        self.tokens.next_if(|(_, token)| *token == Token::Sign(sign)).is_some()
    }

    fn end(&self, expected: &str) -> SyntaxError {
        self.error(self.text.chars().count(), format!("{expected} is expected"))
    }

    fn error(&self, at: usize, message: String) -> SyntaxError {
        SyntaxError { text: self.text.to_owned(), at, message }
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;

    fn value(text: &str) -> f64 {
        let resolve = |name: &str| match name {
            "before" => Ok(5990.0),
            "load.http_reqs{scenario:a b}.count" => Ok(7.0),
            name => Err(Box::<dyn Error>::from(format!("no {name}"))),
        };
        Expression::parse(text).unwrap().evaluate(&resolve).unwrap()
    }

    #[test]
    fn arithmetic_has_the_usual_precedence() {
        let worked_out = [
            ("1 + 2 * 3", 7.0),
            ("(1 + 2) * 3", 9.0),
            ("10 - 4 - 3", 3.0),
            ("24 / 4 / 2", 3.0),
            ("-2 * -3", 6.0),
            ("1_000.5", 1000.5),
            ("max(0, 30*200 - before)", 10.0),
            ("max(0, 30*100 - before)", 0.0),
            ("min(3, max(1, 2), 5)", 2.0),
            ("2*load.http_reqs{scenario:a b}.count+1", 15.0),
        ];
        for (text, expected) in worked_out {
            assert_eq!(value(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_formula_is_refused_with_its_place() {
        for (text, part) in [
            ("", "expected at character 1"),
            ("1 +", "expected at character 4"),
            ("1 2", "`2` is not expected at character 3"),
            ("(1", "`)` is expected at character 3"),
            ("sqrt(2)", "no function `sqrt`"),
            ("max()", "not `)`"),
            ("a{b", "`}` is missing"),
            ("1.2.3", "no number"),
            ("2 ^ 3", "'^' is not expected at character 3"),
            ("é", "'é' is not expected at character 1"),
        ] {
            let error = Expression::parse(text).unwrap_err().to_string();
            assert!(error.contains(part), "no {part:?} in: {error}");
        }
    }

    #[test]
    fn deep_nesting_is_refused_before_the_stack_is_exhausted() {
        for opening in ["(", "-", "max(", "1+("] {
            let error = Expression::parse(&opening.repeat(200)).unwrap_err();
            assert!(error.to_string().contains("too deeply"), "{opening}");
        }
        assert_eq!(value(&format!("{}1{}", "(".repeat(60), ")".repeat(60))), 1.0);
        let long = Expression::parse(&"1+".repeat(100_000)).unwrap_err();
        assert!(long.to_string().contains("at most 1000 characters"), "{long}");
    }

    #[test]
    fn names_are_listed_and_missing_ones_are_errors() {
        let expression = Expression::parse("load.a.count + before - 1").unwrap();
        assert_eq!(expression.names(), ["load.a.count", "before"]);
        assert!(Expression::number(3.0).names().is_empty());
        let unknown = |name: &str| Err(Box::<dyn Error>::from(format!("no {name}")));
        let error = expression.evaluate(&unknown).unwrap_err();
        assert_eq!(error.to_string(), "no load.a.count");
        for hidden in ["1 / 0", "max(10, 0 / 0)", "min(5, 1 / 0)", "1 / (1 / 0)", "-(1 / 0) + 3"] {
            let found = Expression::parse(hidden).unwrap().evaluate(&|_| Ok(0.0));
            assert_eq!(found, Err(NotFinite(hidden.to_owned())));
        }
    }
}
