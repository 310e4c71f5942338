//! Parser of expressions.

use super::Problem;
use super::lexer::{Token, tokens};

/// Maximum nesting depth of an expression.
const MAX_DEPTH: usize = 200;

const RESERVED: &[&str] = &[
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

#[derive(Clone, Debug)]
pub(super) struct Expression {
    pub(super) at: usize,
    pub(super) node: Node,
}

#[derive(Clone, Debug)]
pub(super) enum Node {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double,
    Text(String),
    Bytes,
    Ident(String),
    /// `operand.field`, or `operand.?field`.
    Select(Box<Expression>, String, bool),
    /// Call of a function, an operator (`_==_`), or a method with its target.
    Call(String, Option<Box<Expression>>, Vec<Expression>),
    List(Vec<Expression>),
    Map(Vec<(Expression, Expression)>),
    /// Message literal (`Name{field: value}`). Only the name is kept, because the check rejects every message literal.
    Message(String),
}

pub(super) fn parse(source: &str) -> Result<Expression, Problem> {
    let mut parser = Parser { tokens: tokens(source)?, next: 0, depth: 0 };
    let expression = parser.expression()?;
    match parser.peek() {
        Token::End => Ok(expression),
        _ => Err(parser.unexpected()),
    }
}

struct Parser {
    tokens: Vec<(Token, usize)>,
    next: usize,
    depth: usize,
}

impl Parser {
    fn peek(&self) -> &Token {
        &self.tokens[self.next].0
    }

    fn at(&self) -> usize {
        self.tokens[self.next].1
    }

    fn advance(&mut self) -> Token {
        let token = self.peek().clone();
        // The end token is never consumed.
        if self.next + 1 < self.tokens.len() {
            self.next += 1;
        }
        token
    }

    fn accept(&mut self, symbol: &str) -> bool {
        let found = matches!(self.peek(), Token::Symbol(found) if *found == symbol);
        if found {
            self.advance();
        }
        found
    }

    fn word(&mut self) -> Result<String, Problem> {
        match self.peek() {
            Token::Ident(_) => match self.advance() {
                Token::Ident(word) => Ok(word),
                _ => Err(self.unexpected()),
            },
            _ => Err(self.unexpected()),
        }
    }

    fn expect(&mut self, symbol: &str) -> Result<(), Problem> {
        if self.accept(symbol) { Ok(()) } else { Err(self.unexpected()) }
    }

    fn unexpected(&self) -> Problem {
        let shown = match self.peek() {
            Token::End => "<EOF>".to_owned(),
            Token::Ident(name) => name.clone(),
            Token::Int(number) | Token::Uint(number) => number.clone(),
            Token::Double => "a number".to_owned(),
            Token::Text(_) | Token::Bytes => "a string".to_owned(),
            Token::Symbol(symbol) => (*symbol).to_owned(),
        };
        Problem::new(self.at(), format!("Syntax error: mismatched input '{shown}'"))
    }

    fn expression(&mut self) -> Result<Expression, Problem> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Problem::new(self.at(), "expression recursion limit exceeded"));
        }
        let condition = self.binary(0)?;
        let at = self.at();
        let expression = if self.accept("?") {
            let then = self.binary(0)?;
            self.expect(":")?;
            let otherwise = self.expression()?;
            call(at, "_?_:_", vec![condition, then, otherwise])
        } else {
            condition
        };
        self.depth -= 1;
        Ok(expression)
    }

    fn binary(&mut self, level: usize) -> Result<Expression, Problem> {
        const LEVELS: &[&[&str]] = &[
            &["||"],
            &["&&"],
            &["<=", ">=", "==", "!=", "<", ">", "in"],
            &["+", "-"],
            &["*", "/", "%"],
        ];
        let Some(operators) = LEVELS.get(level) else {
            return self.unary();
        };
        let mut left = self.binary(level + 1)?;
        loop {
            let operator = match self.peek() {
                Token::Symbol(symbol) => *symbol,
                Token::Ident(word) if word == "in" => "in",
                _ => return Ok(left),
            };
            if !operators.contains(&operator) {
                return Ok(left);
            }
            let at = self.at();
            self.advance();
            let right = self.binary(level + 1)?;
            let name = match operator {
                "in" => "@in".to_owned(),
                symbol => format!("_{symbol}_"),
            };
            left = call(at, &name, vec![left, right]);
        }
    }

    fn unary(&mut self) -> Result<Expression, Problem> {
        let at = self.at();
        for (symbol, name) in [("!", "!_"), ("-", "-_")] {
            let mut count = 0;
            while self.accept(symbol) {
                count += 1;
            }
            if count == 0 {
                continue;
            }
            // A minus sign before a number is part of the number.
            let is_number = matches!(self.peek(), Token::Int(_) | Token::Double);
            if symbol == "-" && count == 1 && is_number {
                return self.member(true);
            }
            let operand = self.member(false)?;
            return Ok(if count % 2 == 0 { operand } else { call(at, name, vec![operand]) });
        }
        self.member(false)
    }

    fn member(&mut self, negative: bool) -> Result<Expression, Problem> {
        let mut operand = self.primary(negative)?;
        loop {
            let at = self.at();
            if self.accept(".") {
                let optional = self.accept("?");
                let name = self.word()?;
                if matches!(self.peek(), Token::Symbol("(")) && !optional {
                    let at = self.at();
                    self.advance();
                    let arguments = self.arguments(")")?;
                    operand = Expression {
                        at,
                        node: Node::Call(name, Some(Box::new(operand)), arguments),
                    };
                } else {
                    operand =
                        Expression { at, node: Node::Select(Box::new(operand), name, optional) };
                }
            } else if self.accept("[") {
                let optional = self.accept("?");
                let index = self.expression()?;
                self.expect("]")?;
                let name = if optional { "_[?_]" } else { "_[_]" };
                operand = call(at, name, vec![operand, index]);
            } else if matches!(self.peek(), Token::Symbol("{"))
                && let Some(name) = message_name(&operand)
            {
                self.advance();
                self.skip_fields()?;
                operand = Expression { at, node: Node::Message(name) };
            } else {
                return Ok(operand);
            }
        }
    }

    fn primary(&mut self, negative: bool) -> Result<Expression, Problem> {
        let at = self.at();
        let node = match self.advance() {
            Token::Int(number) => {
                let number = int(&number, negative);
                Node::Int(number.ok_or_else(|| Problem::new(at, "invalid int literal"))?)
            }
            Token::Uint(number) => {
                let number = magnitude(&number).and_then(|number| u64::try_from(number).ok());
                Node::Uint(number.ok_or_else(|| Problem::new(at, "invalid uint literal"))?)
            }
            Token::Double => Node::Double,
            Token::Text(text) => Node::Text(text),
            Token::Bytes => Node::Bytes,
            Token::Ident(word) if word == "true" || word == "false" => Node::Bool(word == "true"),
            Token::Ident(word) if word == "null" => Node::Null,
            Token::Ident(word) if word != "in" => return self.name(at, word),
            Token::Symbol(".") => {
                let word = self.word()?;
                return self.name(at, word);
            }
            Token::Symbol("(") => {
                let inner = self.expression()?;
                self.expect(")")?;
                return Ok(inner);
            }
            Token::Symbol("[") => Node::List(self.arguments("]")?),
            Token::Symbol("{") => Node::Map(self.entries()?),
            Token::End => return Err(self.unexpected()),
            _ => {
                self.next = self.next.saturating_sub(1);
                return Err(self.unexpected());
            }
        };
        Ok(Expression { at, node })
    }

    fn name(&mut self, at: usize, word: String) -> Result<Expression, Problem> {
        if RESERVED.contains(&word.as_str()) {
            return Err(Problem::new(at, format!("reserved identifier: {word}")));
        }
        let open = self.at();
        if self.accept("(") {
            let arguments = self.arguments(")")?;
            return Ok(call(open, &word, arguments));
        }
        Ok(Expression { at, node: Node::Ident(word) })
    }

    /// Parses expressions up to a closing symbol. A list may end with a comma.
    fn arguments(&mut self, end: &str) -> Result<Vec<Expression>, Problem> {
        let mut arguments = vec![];
        while !self.accept(end) {
            if end == "]" {
                self.accept("?");
            }
            arguments.push(self.expression()?);
            if self.accept(",") {
                if end == ")" && matches!(self.peek(), Token::Symbol(")")) {
                    return Err(self.unexpected());
                }
                continue;
            }
            self.expect(end)?;
            break;
        }
        Ok(arguments)
    }

    fn entries(&mut self) -> Result<Vec<(Expression, Expression)>, Problem> {
        let mut entries = vec![];
        while !self.accept("}") {
            self.accept("?");
            let key = self.expression()?;
            self.expect(":")?;
            entries.push((key, self.expression()?));
            if self.accept(",") {
                continue;
            }
            self.expect("}")?;
            break;
        }
        Ok(entries)
    }

    fn skip_fields(&mut self) -> Result<(), Problem> {
        while !self.accept("}") {
            self.accept("?");
            if !matches!(self.advance(), Token::Ident(_)) {
                return Err(self.unexpected());
            }
            self.expect(":")?;
            self.expression()?;
            if self.accept(",") {
                continue;
            }
            self.expect("}")?;
            break;
        }
        Ok(())
    }
}

fn call(at: usize, name: &str, arguments: Vec<Expression>) -> Expression {
    Expression { at, node: Node::Call(name.to_owned(), None, arguments) }
}

/// Name before a brace, such as `a.b.C`.
fn message_name(operand: &Expression) -> Option<String> {
    match &operand.node {
        Node::Ident(name) => Some(name.clone()),
        Node::Select(inner, name, false) => Some(format!("{}.{name}", message_name(inner)?)),
        _ => None,
    }
}

fn int(number: &str, negative: bool) -> Option<i64> {
    let number = i128::try_from(magnitude(number)?).ok()?;
    i64::try_from(if negative { -number } else { number }).ok()
}

fn magnitude(number: &str) -> Option<u128> {
    let value = match number.strip_prefix("0x") {
        Some(hex) => u128::from_str_radix(hex, 16),
        None => number.parse(),
    };
    value.ok()
}
