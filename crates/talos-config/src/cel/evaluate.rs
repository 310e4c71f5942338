//! Evaluation of expressions. It supports the part of CEL that expressions about disks use.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::env::UNITS;
use super::parser::{Expression, Node, parse};

/// Maximum nesting depth of an expression. A chain of operators, such as `a + b + c`, also counts as nested.
const MAX_DEPTH: usize = 200;

/// Value of an expression or a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Bool(bool),
    Int(i64),
    Uint(u64),
    Text(String),
    List(Vec<Self>),
    /// Message, with its fields by name.
    Message(BTreeMap<&'static str, Self>),
}

/// Value of an expression that can use these variables and the units of sizes. `None` if the source is not an
/// expression, uses parts of CEL that are not supported here, or cannot be evaluated.
pub fn evaluate(source: &str, variables: &[(&str, Value)]) -> Option<Value> {
    let expression = parse(source).ok()?;
    Evaluation { variables, locals: vec![], depth: 0 }.value(&expression)
}

struct Evaluation<'a> {
    variables: &'a [(&'a str, Value)],
    /// Variables of the enclosing comprehensions, the innermost last.
    locals: Vec<(String, Value)>,
    depth: usize,
}

impl Evaluation<'_> {
    fn value(&mut self, expression: &Expression) -> Option<Value> {
        if self.depth == MAX_DEPTH {
            return None;
        }
        self.depth += 1;
        let value = self.node(&expression.node);
        self.depth -= 1;
        value
    }

    fn node(&mut self, node: &Node) -> Option<Value> {
        match node {
            Node::Bool(value) => Some(Value::Bool(*value)),
            Node::Int(value) => Some(Value::Int(*value)),
            Node::Uint(value) => Some(Value::Uint(*value)),
            Node::Text(value) => Some(Value::Text(value.clone())),
            Node::List(items) => self.values(items).map(Value::List),
            Node::Ident(name) => self.variable(name),
            Node::Select(operand, field, false) => match self.value(operand)? {
                Value::Message(mut fields) => fields.remove(field.as_str()),
                _ => None,
            },
            Node::Call(name, None, arguments) => self.call(name, arguments),
            Node::Call(name, Some(target), arguments) => self.method(name, target, arguments),
            Node::Null
            | Node::Double
            | Node::Bytes
            | Node::Select(_, _, true)
            | Node::Map(_)
            | Node::Message(_) => None,
        }
    }

    fn values(&mut self, expressions: &[Expression]) -> Option<Vec<Value>> {
        expressions.iter().map(|expression| self.value(expression)).collect()
    }

    fn variable(&self, name: &str) -> Option<Value> {
        if let Some((_, value)) = self.locals.iter().rev().find(|(local, _)| local == name) {
            return Some(value.clone());
        }
        if let Some((_, value)) = self.variables.iter().find(|(known, _)| *known == name) {
            return Some(value.clone());
        }
        UNITS.iter().find(|(unit, _)| *unit == name).map(|(_, bytes)| Value::Uint(*bytes))
    }

    fn call(&mut self, name: &str, arguments: &[Expression]) -> Option<Value> {
        match (name, arguments) {
            ("_&&_", [left, right]) => self.logic(left, right, false),
            ("_||_", [left, right]) => self.logic(left, right, true),
            ("_?_:_", [condition, then, otherwise]) => match self.value(condition)? {
                Value::Bool(true) => self.value(then),
                Value::Bool(false) => self.value(otherwise),
                _ => None,
            },
            _ => apply(name, self.values(arguments)?),
        }
    }

    /// Evaluates `&&` and `||`. If one side has the value `decides`, this is the result, even if the other side fails.
    fn logic(&mut self, left: &Expression, right: &Expression, decides: bool) -> Option<Value> {
        let (left, right) = (self.value(left), self.value(right));
        let decisive = Some(Value::Bool(decides));
        if left == decisive || right == decisive {
            return decisive;
        }
        match (left?, right?) {
            (Value::Bool(_), Value::Bool(_)) => Some(Value::Bool(!decides)),
            _ => None,
        }
    }

    fn method(
        &mut self,
        name: &str,
        target: &Expression,
        arguments: &[Expression],
    ) -> Option<Value> {
        let target = self.value(target)?;
        match (name, target, arguments) {
            ("exists", Value::List(items), [variable, body]) => {
                self.any(items, variable, body, true).map(Value::Bool)
            }
            ("all", Value::List(items), [variable, body]) => {
                self.any(items, variable, body, false).map(|found| Value::Bool(!found))
            }
            ("size", target, []) => size(&target),
            (name, Value::Text(text), [part]) => {
                let Value::Text(part) = self.value(part)? else { return None };
                match name {
                    "startsWith" => Some(Value::Bool(text.starts_with(&part))),
                    "endsWith" => Some(Value::Bool(text.ends_with(&part))),
                    "contains" => Some(Value::Bool(text.contains(&part))),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// Whether `body` has this value for at least one of the items.
    fn any(
        &mut self,
        items: Vec<Value>,
        variable: &Expression,
        body: &Expression,
        value: bool,
    ) -> Option<bool> {
        let Node::Ident(variable) = &variable.node else { return None };
        for item in items {
            self.locals.push((variable.clone(), item));
            let found = self.value(body);
            self.locals.pop();
            match found? {
                Value::Bool(found) if found == value => return Some(true),
                Value::Bool(_) => {}
                _ => return None,
            }
        }
        Some(false)
    }
}

/// Result of an operator or function for these arguments.
fn apply(name: &str, arguments: Vec<Value>) -> Option<Value> {
    match (name, <[Value; 1]>::try_from(arguments)) {
        ("!_", Ok([Value::Bool(value)])) => Some(Value::Bool(!value)),
        ("-_", Ok([Value::Int(value)])) => value.checked_neg().map(Value::Int),
        ("size", Ok([value])) => size(&value),
        (_, Ok(_)) => None,
        (name, Err(arguments)) => {
            let [left, right] = <[Value; 2]>::try_from(arguments).ok()?;
            binary(name, left, right)
        }
    }
}

fn binary(name: &str, left: Value, right: Value) -> Option<Value> {
    let order = |fits: fn(Ordering) -> bool| compare(&left, &right).map(fits).map(Value::Bool);
    match name {
        "_==_" => return Some(Value::Bool(left == right)),
        "_!=_" => return Some(Value::Bool(left != right)),
        "_<_" => return order(Ordering::is_lt),
        "_<=_" => return order(Ordering::is_le),
        "_>_" => return order(Ordering::is_gt),
        "_>=_" => return order(Ordering::is_ge),
        _ => {}
    }
    match (name, left, right) {
        ("_+_", Value::Int(left), Value::Int(right)) => left.checked_add(right).map(Value::Int),
        ("_-_", Value::Int(left), Value::Int(right)) => left.checked_sub(right).map(Value::Int),
        ("_*_", Value::Int(left), Value::Int(right)) => left.checked_mul(right).map(Value::Int),
        ("_/_", Value::Int(left), Value::Int(right)) => left.checked_div(right).map(Value::Int),
        ("_%_", Value::Int(left), Value::Int(right)) => left.checked_rem(right).map(Value::Int),
        ("_+_", Value::Uint(left), Value::Uint(right)) => left.checked_add(right).map(Value::Uint),
        ("_-_", Value::Uint(left), Value::Uint(right)) => left.checked_sub(right).map(Value::Uint),
        ("_*_", Value::Uint(left), Value::Uint(right)) => left.checked_mul(right).map(Value::Uint),
        ("_/_", Value::Uint(left), Value::Uint(right)) => left.checked_div(right).map(Value::Uint),
        ("_%_", Value::Uint(left), Value::Uint(right)) => left.checked_rem(right).map(Value::Uint),
        ("_+_", Value::Text(left), Value::Text(right)) => Some(Value::Text(left + &right)),
        ("@in", value, Value::List(items)) => Some(Value::Bool(items.contains(&value))),
        ("_[_]", Value::List(items), Value::Int(index)) => {
            items.into_iter().nth(usize::try_from(index).ok()?)
        }
        ("glob", Value::Text(pattern), Value::Text(text)) => {
            Some(Value::Bool(glob(&pattern, &text)))
        }
        _ => None,
    }
}

fn compare(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::Int(left), Value::Int(right)) => Some(left.cmp(right)),
        (Value::Uint(left), Value::Uint(right)) => Some(left.cmp(right)),
        (Value::Text(left), Value::Text(right)) => Some(left.cmp(right)),
        _ => None,
    }
}

fn size(value: &Value) -> Option<Value> {
    let size = match value {
        Value::Text(text) => text.chars().count(),
        Value::List(items) => items.len(),
        _ => return None,
    };
    i64::try_from(size).ok().map(Value::Int)
}

/// Whether a text matches a shell pattern: `*` matches any text, and `?` matches one character.
fn glob(pattern: &str, text: &str) -> bool {
    let text: Vec<char> = text.chars().collect();
    let mut reached = vec![false; text.len() + 1];
    reached[0] = true;
    for letter in pattern.chars() {
        let before = reached.clone();
        for at in 0..=text.len() {
            reached[at] = match letter {
                '*' => before[at] || at > 0 && reached[at - 1],
                '?' => at > 0 && before[at - 1],
                letter => at > 0 && before[at - 1] && text[at - 1] == letter,
            };
        }
    }
    reached[text.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk() -> Vec<(&'static str, Value)> {
        let text = |text: &str| Value::Text(text.to_owned());
        let fields = [
            ("size", Value::Uint(50 << 30)),
            ("model", text("QEMU HARDDISK")),
            ("rotational", Value::Bool(true)),
            ("symlinks", Value::List(vec![text("/dev/disk/by-id/a"), text("/dev/disk/by-id/b")])),
        ];
        vec![("disk", Value::Message(fields.into())), ("system_disk", Value::Bool(false))]
    }

    fn holds(source: &str) -> Option<bool> {
        match evaluate(source, &disk())? {
            Value::Bool(value) => Some(value),
            other => panic!("{source} is {other:?}"),
        }
    }

    #[test]
    fn expressions_have_the_value_that_cel_gives_them() {
        for (source, value) in [
            ("!system_disk && disk.rotational", true),
            ("disk.size >= 50u * GiB // comment", true),
            ("disk.size > 100u * GB || disk.size % 2u == 1u", false),
            ("disk.size / GiB == 50u && disk.size < 1u * TB", true),
            ("1 + 2 * 3 - -1 == 8", true),
            ("'a' + \"b\" == 'ab' && 'a' < 'b'", true),
            ("'\\x41\\u0042\\103\\'\\n' == \"ABC'\\n\"", true),
            ("r'\\n' == '\\\\n'", true),
            ("glob('QEMU*DIS?', disk.model) && !glob('QEMU', disk.model)", true),
            ("disk.model.startsWith('QEMU') && disk.model.endsWith('DISK')", true),
            ("disk.model.contains('HARD') && disk.model.size() == 13", true),
            ("'/dev/disk/by-id/a' in disk.symlinks", true),
            ("'x' in ['y', 'z']", false),
            ("disk.symlinks[1] == '/dev/disk/by-id/b'", true),
            ("disk.symlinks.exists(s, s.endsWith('/b'))", true),
            ("disk.symlinks.all(s, s.endsWith('/b'))", false),
            ("size(disk.symlinks) == 2 ? disk.rotational : system_disk", true),
        ] {
            assert_eq!(holds(source), Some(value), "{source}");
        }
    }

    #[test]
    fn one_side_that_decides_is_enough() {
        assert_eq!(holds("disk.nope == 1 && system_disk"), Some(false));
        assert_eq!(holds("disk.rotational || disk.nope == 1"), Some(true));
        assert_eq!(holds("disk.nope == 1 && disk.rotational"), None);
    }

    #[test]
    fn failures_have_no_value() {
        for source in [
            "",
            "disk.",
            "nope",
            "disk.size / 0u == 1u",
            "disk.size - 60u * GiB > 0u",
            "disk.size > 1",
            "!disk.size",
            "disk.symlinks[9] == ''",
            "disk.symlinks.map(s, s).size() > 9",
            "1.5 < 2.5",
        ] {
            assert_eq!(evaluate(source, &disk()), None, "{source}");
        }
        let deep = vec!["true"; 1_000].join(" && ");
        assert_eq!(evaluate(&deep, &disk()), None);
    }

    proptest::proptest! {
        #[test]
        fn evaluation_never_panics(source in "[ -~\u{e4}]{0,40}") {
            let _value = evaluate(&source, &disk());
        }
    }
}
