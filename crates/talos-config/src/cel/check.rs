//! Type checking of expressions with the standard operators and functions of CEL.

use super::Problem;
use super::env::{Environment, Extra, FieldType};
use super::parser::{Expression, Node};
use super::types::{
    Type, arithmetic, common, conversion_result, converts, has_size, index_of, is_ordered, join,
};

/// Type of an expression, or all problems of the expression.
pub(super) fn type_of(
    expression: &Expression,
    environment: &Environment,
) -> Result<Type, Vec<Problem>> {
    let mut checker = Checker { environment, locals: vec![], problems: vec![] };
    let found = checker.check(expression);
    if checker.problems.is_empty() { Ok(found) } else { Err(checker.problems) }
}

/// Result of looking up a function for its arguments.
#[derive(PartialEq, Eq)]
enum Overload {
    /// The function does not exist.
    Undeclared,
    /// The function does not accept these arguments.
    Missing,
    Yields(Type),
}

struct Checker<'a> {
    environment: &'a Environment,
    /// Variables that the enclosing comprehensions declare.
    locals: Vec<(String, Type)>,
    problems: Vec<Problem>,
}

impl Checker<'_> {
    fn problem(&mut self, at: usize, reason: impl Into<String>) -> Type {
        self.problems.push(Problem::new(at, reason));
        Type::Dyn
    }

    fn check(&mut self, expression: &Expression) -> Type {
        let at = expression.at;
        match &expression.node {
            Node::Null => Type::Null,
            Node::Bool(_) => Type::Bool,
            Node::Int(_) => Type::Int,
            Node::Uint(_) => Type::Uint,
            Node::Double => Type::Double,
            Node::Text(_) => Type::Text,
            Node::Bytes => Type::Bytes,
            Node::Ident(name) => self.ident(name, at),
            Node::Select(operand, field, optional) => {
                let operand = self.check(operand);
                let found = self.select(&operand, field, at);
                if *optional { Type::Optional(Box::new(found)) } else { found }
            }
            Node::Call(name, None, arguments) => self.call(name, arguments, at),
            Node::Call(name, Some(target), arguments) => self.method(name, target, arguments, at),
            Node::List(items) => {
                let items: Vec<Type> = items.iter().map(|item| self.check(item)).collect();
                Type::List(Box::new(common(items)))
            }
            Node::Map(entries) => {
                let (keys, values): (Vec<Type>, Vec<Type>) =
                    entries.iter().map(|(key, value)| (self.check(key), self.check(value))).unzip();
                Type::Map(Box::new(common(keys)), Box::new(common(values)))
            }
            Node::Message(name) => {
                let reason = format!("undeclared reference to '{name}' (in container '')");
                self.problem(at, reason)
            }
        }
    }

    fn ident(&mut self, name: &str, at: usize) -> Type {
        let local = self.locals.iter().rev().find(|(local, _)| local == name);
        if let Some((_, ty)) = local {
            return ty.clone();
        }
        if let Some(ty) = self.environment.variable(name) {
            return ty.clone();
        }
        match name {
            "bool" | "bytes" | "double" | "int" | "list" | "map" | "null_type" | "string"
            | "type" | "uint" => Type::Meta,
            _ => {
                let reason = format!("undeclared reference to '{name}' (in container '')");
                self.problem(at, reason)
            }
        }
    }

    fn select(&mut self, operand: &Type, field: &str, at: usize) -> Type {
        match operand {
            Type::Dyn => Type::Dyn,
            Type::Map(_, value) => (**value).clone(),
            Type::Optional(inner) => {
                let found = self.select(inner, field, at);
                Type::Optional(Box::new(found))
            }
            Type::Message(message) => {
                let kind = message.fields.iter().find(|(name, _)| *name == field);
                match kind.map(|(_, kind)| kind) {
                    Some(FieldType::Bool) => Type::Bool,
                    Some(FieldType::Int) => Type::Int,
                    Some(FieldType::Uint) => Type::Uint,
                    Some(FieldType::Text) => Type::Text,
                    Some(FieldType::Bytes) => Type::Bytes,
                    Some(FieldType::Texts) => Type::List(Box::new(Type::Text)),
                    Some(FieldType::Duration) => Type::Duration,
                    Some(FieldType::Message(message)) => Type::Message(message),
                    Some(FieldType::Messages(message)) => {
                        Type::List(Box::new(Type::Message(message)))
                    }
                    None => self.problem(at, format!("undefined field '{field}'")),
                }
            }
            other => {
                let reason = format!("type '{other}' does not support field selection");
                self.problem(at, reason)
            }
        }
    }

    fn call(&mut self, name: &str, arguments: &[Expression], at: usize) -> Type {
        if name == "has" && arguments.len() == 1 {
            if !matches!(arguments[0].node, Node::Select(_, _, false)) {
                return self.problem(at, "invalid argument to has() macro");
            }
            self.check(&arguments[0]);
            return Type::Bool;
        }
        if self.function(name, &[]) == Overload::Undeclared {
            let reason = format!("undeclared reference to '{name}' (in container '')");
            self.problem(at, reason);
        }
        let before = self.problems.len();
        let types: Vec<Type> = arguments.iter().map(|item| self.check(item)).collect();
        // After an error in an argument, errors of the call itself would be misleading.
        if self.problems.len() > before {
            return Type::Dyn;
        }
        match self.function(name, &types) {
            Overload::Yields(found) => found,
            Overload::Missing => {
                let reason = no_overload(name, &types);
                self.problem(at, reason)
            }
            Overload::Undeclared => Type::Dyn,
        }
    }

    fn function(&self, name: &str, types: &[Type]) -> Overload {
        let result = match (name, types) {
            ("_?_:_", [condition, then, otherwise]) => {
                condition.fits(&Type::Bool).then(|| join(then, otherwise)).flatten()
            }
            ("_&&_" | "_||_", [left, right]) => {
                (left.fits(&Type::Bool) && right.fits(&Type::Bool)).then_some(Type::Bool)
            }
            ("!_", [operand]) => operand.fits(&Type::Bool).then_some(Type::Bool),
            ("-_", [operand]) => match operand {
                Type::Int | Type::Double | Type::Dyn => Some(operand.clone()),
                _ => None,
            },
            ("_==_" | "_!=_", [left, right]) => left.fits(right).then_some(Type::Bool),
            ("_<_" | "_<=_" | "_>_" | "_>=_", [left, right]) => {
                (left.fits(right) && is_ordered(left) && is_ordered(right)).then_some(Type::Bool)
            }
            ("_+_" | "_-_" | "_*_" | "_/_" | "_%_", [left, right]) => arithmetic(name, left, right),
            ("@in", [item, Type::List(items)]) => item.fits(items).then_some(Type::Bool),
            ("@in", [key, Type::Map(keys, _)]) => key.fits(keys).then_some(Type::Bool),
            ("@in", [_, Type::Dyn]) => Some(Type::Bool),
            ("_[_]" | "_[?_]", [operand, index]) => {
                let found = index_of(operand, index);
                if name == "_[?_]" {
                    found.map(|found| Type::Optional(Box::new(found)))
                } else {
                    found
                }
            }
            ("size", [operand]) => has_size(operand).then_some(Type::Int),
            ("glob", [pattern, text]) if self.environment.has(Extra::Glob) => {
                (pattern.fits(&Type::Text) && text.fits(&Type::Text)).then_some(Type::Bool)
            }
            ("mac", [bytes]) if self.environment.has(Extra::Mac) => {
                bytes.fits(&Type::Bytes).then_some(Type::Text)
            }
            ("multiply_qos_vectors", [left, right]) if self.environment.has(Extra::Qos) => {
                let wanted = Type::Map(Box::new(Type::Dyn), Box::new(Type::Double));
                (left.fits(&wanted) && right.fits(&wanted)).then_some(Type::Double)
            }
            ("dyn", [_]) => Some(Type::Dyn),
            ("type", [_]) => Some(Type::Meta),
            ("matches", [text, pattern]) => {
                (text.fits(&Type::Text) && pattern.fits(&Type::Text)).then_some(Type::Bool)
            }
            (conversion, [operand]) if conversion_result(conversion).is_some() => {
                converts(conversion, operand)
            }
            ("glob", _) if self.environment.has(Extra::Glob) => None,
            ("mac", _) if self.environment.has(Extra::Mac) => None,
            ("multiply_qos_vectors", _) if self.environment.has(Extra::Qos) => None,
            (
                "size" | "dyn" | "type" | "matches" | "@in" | "bool" | "bytes" | "double" | "int"
                | "string" | "uint" | "duration" | "timestamp",
                _,
            ) => None,
            _ if name.starts_with('_') || matches!(name, "!_" | "-_") => None,
            _ => return Overload::Undeclared,
        };
        result.map_or(Overload::Missing, Overload::Yields)
    }

    fn method(
        &mut self,
        name: &str,
        target: &Expression,
        arguments: &[Expression],
        at: usize,
    ) -> Type {
        if let Node::Ident(namespace) = &target.node
            && namespace == "optional"
            && self.environment.has(Extra::Optional)
        {
            return self.optional_function(name, arguments, at);
        }
        let operand = self.check(target);
        if let Some(found) = self.comprehension(name, &operand, arguments, at) {
            return found;
        }
        let types: Vec<Type> = arguments.iter().map(|item| self.check(item)).collect();
        if !self.problems.is_empty() {
            return Type::Dyn;
        }
        let fits_text = |types: &[Type]| types.iter().all(|ty| ty.fits(&Type::Text));
        let found = match (name, types.len()) {
            ("contains" | "startsWith" | "endsWith" | "matches", 1) => {
                (operand.fits(&Type::Text) && fits_text(&types)).then_some(Type::Bool)
            }
            ("size", 0) => has_size(&operand).then_some(Type::Int),
            ("hasValue", 0) if self.environment.has(Extra::Optional) => {
                matches!(operand, Type::Optional(_) | Type::Dyn).then_some(Type::Bool)
            }
            ("value", 0) if self.environment.has(Extra::Optional) => match &operand {
                Type::Optional(inner) => Some((**inner).clone()),
                Type::Dyn => Some(Type::Dyn),
                _ => None,
            },
            ("or", 1) if self.environment.has(Extra::Optional) => {
                types[0].fits(&operand).then(|| operand.clone())
            }
            ("orValue", 1) if self.environment.has(Extra::Optional) => match &operand {
                Type::Optional(inner) => types[0].fits(inner).then(|| (**inner).clone()),
                Type::Dyn => Some(Type::Dyn),
                _ => None,
            },
            (
                "getFullYear" | "getMonth" | "getDayOfYear" | "getDayOfMonth" | "getDate"
                | "getDayOfWeek",
                0 | 1,
            ) => (operand.fits(&Type::Timestamp) && fits_text(&types)).then_some(Type::Int),
            ("getHours" | "getMinutes" | "getSeconds" | "getMilliseconds", 0 | 1) => {
                let is_time = operand.fits(&Type::Timestamp) || operand.fits(&Type::Duration);
                (is_time && fits_text(&types)).then_some(Type::Int)
            }
            _ => {
                let reason = format!("undeclared reference to '{name}' (in container '')");
                return self.problem(at, reason);
            }
        };
        if let Some(found) = found {
            found
        } else {
            let shown: Vec<String> = types.iter().map(Type::to_string).collect();
            let shown = shown.join(", ");
            let reason =
                format!("found no matching overload for '{name}' applied to '{operand}.({shown})'");
            self.problem(at, reason)
        }
    }

    fn optional_function(&mut self, name: &str, arguments: &[Expression], at: usize) -> Type {
        let types: Vec<Type> = arguments.iter().map(|item| self.check(item)).collect();
        match (name, types.as_slice()) {
            ("of" | "ofNonZeroValue", [value]) => Type::Optional(Box::new(value.clone())),
            ("none", []) => Type::Optional(Box::new(Type::Dyn)),
            _ => {
                let reason = format!("undeclared reference to 'optional.{name}' (in container '')");
                self.problem(at, reason)
            }
        }
    }

    /// Checks `all`, `exists` and similar macros. They declare a variable.
    fn comprehension(
        &mut self,
        name: &str,
        operand: &Type,
        arguments: &[Expression],
        at: usize,
    ) -> Option<Type> {
        let is_optional_macro =
            matches!(name, "optMap" | "optFlatMap") && self.environment.has(Extra::Optional);
        let is_macro = matches!(name, "all" | "exists" | "exists_one" | "existsOne" | "filter")
            && arguments.len() == 2
            || name == "map" && matches!(arguments.len(), 2 | 3)
            || is_optional_macro && arguments.len() == 2;
        if !is_macro {
            return None;
        }
        let Node::Ident(variable) = &arguments[0].node else {
            return Some(self.problem(arguments[0].at, "argument must be a simple name"));
        };
        let item = match operand {
            Type::List(item) => (**item).clone(),
            Type::Map(key, _) => (**key).clone(),
            Type::Optional(inner) if is_optional_macro => (**inner).clone(),
            Type::Dyn => Type::Dyn,
            other => {
                let reason = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be \
                     list, map, or dynamic)"
                );
                return Some(self.problem(at, reason));
            }
        };
        self.locals.push((variable.clone(), item.clone()));
        let types: Vec<Type> = arguments[1..].iter().map(|item| self.check(item)).collect();
        self.locals.pop();
        let wants_bool = name != "map" && !is_optional_macro || types.len() == 2;
        if wants_bool && !types[0].fits(&Type::Bool) {
            let reason = no_overload("_&&_", &[Type::Bool, types[0].clone()]);
            return Some(self.problem(at, reason));
        }
        let last = types.last().cloned().unwrap_or(Type::Dyn);
        Some(match name {
            "map" => Type::List(Box::new(last)),
            "filter" => Type::List(Box::new(item)),
            "optMap" => Type::Optional(Box::new(last)),
            "optFlatMap" => last,
            _ => Type::Bool,
        })
    }
}

fn no_overload(name: &str, types: &[Type]) -> String {
    let shown: Vec<String> = types.iter().map(Type::to_string).collect();
    format!("found no matching overload for '{name}' applied to '({})'", shown.join(", "))
}
