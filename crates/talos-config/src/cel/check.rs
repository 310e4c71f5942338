//! Type checking of expressions with the standard operators and functions of CEL.

use super::Problem;
use super::env::{Environment, Extra, FieldType};
use super::parser::{Expression, Node};
use super::types::{
    CelType, arithmetic, common, conversion_result, converts, has_size, index_of, is_ordered, join,
};

/// Type of an expression, or all problems of the expression.
pub(super) fn type_of(
    expression: &Expression,
    environment: &Environment,
) -> Result<CelType, Vec<Problem>> {
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
    Yields(CelType),
}

struct Checker<'a> {
    environment: &'a Environment,
    /// Variables that the enclosing comprehensions declare.
    locals: Vec<(String, CelType)>,
    problems: Vec<Problem>,
}

impl Checker<'_> {
    fn problem(&mut self, at: usize, reason: impl Into<String>) -> CelType {
        self.problems.push(Problem::new(at, reason));
        CelType::Dyn
    }

    fn check(&mut self, expression: &Expression) -> CelType {
        let at = expression.at;
        match &expression.node {
            Node::Null => CelType::Null,
            Node::Bool(_) => CelType::Bool,
            Node::Int(_) => CelType::Int,
            Node::Uint(_) => CelType::Uint,
            Node::Double => CelType::Double,
            Node::Text(_) => CelType::Text,
            Node::Bytes => CelType::Bytes,
            Node::Ident(name) => self.ident(name, at),
            Node::Select(operand, field, optional) => {
                let operand = self.check(operand);
                let found = self.select(&operand, field, at);
                if *optional { CelType::Optional(Box::new(found)) } else { found }
            }
            Node::Call(name, None, arguments) => self.call(name, arguments, at),
            Node::Call(name, Some(target), arguments) => self.method(name, target, arguments, at),
            Node::List(items) => {
                let items: Vec<CelType> = items.iter().map(|item| self.check(item)).collect();
                CelType::List(Box::new(common(items)))
            }
            Node::Map(entries) => {
                let (keys, values): (Vec<CelType>, Vec<CelType>) =
                    entries.iter().map(|(key, value)| (self.check(key), self.check(value))).unzip();
                CelType::Map(Box::new(common(keys)), Box::new(common(values)))
            }
            Node::Message(name) => {
                let reason = format!("undeclared reference to '{name}' (in container '')");
                self.problem(at, reason)
            }
        }
    }

    fn ident(&mut self, name: &str, at: usize) -> CelType {
        let local = self.locals.iter().rev().find(|(local, _)| local == name);
        if let Some((_, ty)) = local {
            return ty.clone();
        }
        if let Some(ty) = self.environment.variable(name) {
            return ty.clone();
        }
        match name {
            "bool" | "bytes" | "double" | "int" | "list" | "map" | "null_type" | "string"
            | "type" | "uint" => CelType::Meta,
            _ => {
                let reason = format!("undeclared reference to '{name}' (in container '')");
                self.problem(at, reason)
            }
        }
    }

    fn select(&mut self, operand: &CelType, field: &str, at: usize) -> CelType {
        match operand {
            CelType::Dyn => CelType::Dyn,
            CelType::Map(_, value) => (**value).clone(),
            CelType::Optional(inner) => {
                let found = self.select(inner, field, at);
                CelType::Optional(Box::new(found))
            }
            CelType::Message(message) => {
                let kind = message.fields.iter().find(|(name, _)| *name == field);
                match kind.map(|(_, kind)| kind) {
                    Some(FieldType::Bool) => CelType::Bool,
                    Some(FieldType::Int) => CelType::Int,
                    Some(FieldType::Uint) => CelType::Uint,
                    Some(FieldType::Text) => CelType::Text,
                    Some(FieldType::Bytes) => CelType::Bytes,
                    Some(FieldType::Texts) => CelType::List(Box::new(CelType::Text)),
                    Some(FieldType::Duration) => CelType::Duration,
                    Some(FieldType::Message(message)) => CelType::Message(message),
                    Some(FieldType::Messages(message)) => {
                        CelType::List(Box::new(CelType::Message(message)))
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

    fn call(&mut self, name: &str, arguments: &[Expression], at: usize) -> CelType {
        if name == "has" && arguments.len() == 1 {
            if !matches!(arguments[0].node, Node::Select(_, _, false)) {
                return self.problem(at, "invalid argument to has() macro");
            }
            self.check(&arguments[0]);
            return CelType::Bool;
        }
        if self.function(name, &[]) == Overload::Undeclared {
            let reason = format!("undeclared reference to '{name}' (in container '')");
            self.problem(at, reason);
        }
        let before = self.problems.len();
        let types: Vec<CelType> = arguments.iter().map(|item| self.check(item)).collect();
        // After an error in an argument, errors of the call itself would be misleading.
        if self.problems.len() > before {
            return CelType::Dyn;
        }
        match self.function(name, &types) {
            Overload::Yields(found) => found,
            Overload::Missing => {
                let reason = no_overload(name, &types);
                self.problem(at, reason)
            }
            Overload::Undeclared => CelType::Dyn,
        }
    }

    fn function(&self, name: &str, types: &[CelType]) -> Overload {
        let result = match (name, types) {
            ("_?_:_", [condition, then, otherwise]) => {
                condition.fits(&CelType::Bool).then(|| join(then, otherwise)).flatten()
            }
            ("_&&_" | "_||_", [left, right]) => {
                (left.fits(&CelType::Bool) && right.fits(&CelType::Bool)).then_some(CelType::Bool)
            }
            ("!_", [operand]) => operand.fits(&CelType::Bool).then_some(CelType::Bool),
            ("-_", [operand]) => match operand {
                CelType::Int | CelType::Double | CelType::Dyn => Some(operand.clone()),
                _ => None,
            },
            ("_==_" | "_!=_", [left, right]) => left.fits(right).then_some(CelType::Bool),
            ("_<_" | "_<=_" | "_>_" | "_>=_", [left, right]) => {
                (left.fits(right) && is_ordered(left) && is_ordered(right)).then_some(CelType::Bool)
            }
            ("_+_" | "_-_" | "_*_" | "_/_" | "_%_", [left, right]) => arithmetic(name, left, right),
            ("@in", [item, CelType::List(items)]) => item.fits(items).then_some(CelType::Bool),
            ("@in", [key, CelType::Map(keys, _)]) => key.fits(keys).then_some(CelType::Bool),
            ("@in", [_, CelType::Dyn]) => Some(CelType::Bool),
            ("_[_]" | "_[?_]", [operand, index]) => {
                let found = index_of(operand, index);
                if name == "_[?_]" {
                    found.map(|found| CelType::Optional(Box::new(found)))
                } else {
                    found
                }
            }
            ("size", [operand]) => has_size(operand).then_some(CelType::Int),
            ("glob", [pattern, text]) if self.environment.has(Extra::Glob) => {
                (pattern.fits(&CelType::Text) && text.fits(&CelType::Text)).then_some(CelType::Bool)
            }
            ("mac", [bytes]) if self.environment.has(Extra::Mac) => {
                bytes.fits(&CelType::Bytes).then_some(CelType::Text)
            }
            ("multiply_qos_vectors", [left, right]) if self.environment.has(Extra::Qos) => {
                let wanted = CelType::Map(Box::new(CelType::Dyn), Box::new(CelType::Double));
                (left.fits(&wanted) && right.fits(&wanted)).then_some(CelType::Double)
            }
            ("dyn", [_]) => Some(CelType::Dyn),
            ("type", [_]) => Some(CelType::Meta),
            ("matches", [text, pattern]) => {
                (text.fits(&CelType::Text) && pattern.fits(&CelType::Text)).then_some(CelType::Bool)
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
    ) -> CelType {
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
        let types: Vec<CelType> = arguments.iter().map(|item| self.check(item)).collect();
        if !self.problems.is_empty() {
            return CelType::Dyn;
        }
        let fits_text = |types: &[CelType]| types.iter().all(|ty| ty.fits(&CelType::Text));
        let found = match (name, types.len()) {
            ("contains" | "startsWith" | "endsWith" | "matches", 1) => {
                (operand.fits(&CelType::Text) && fits_text(&types)).then_some(CelType::Bool)
            }
            ("size", 0) => has_size(&operand).then_some(CelType::Int),
            ("hasValue", 0) if self.environment.has(Extra::Optional) => {
                matches!(operand, CelType::Optional(_) | CelType::Dyn).then_some(CelType::Bool)
            }
            ("value", 0) if self.environment.has(Extra::Optional) => match &operand {
                CelType::Optional(inner) => Some((**inner).clone()),
                CelType::Dyn => Some(CelType::Dyn),
                _ => None,
            },
            ("or", 1) if self.environment.has(Extra::Optional) => {
                types[0].fits(&operand).then(|| operand.clone())
            }
            ("orValue", 1) if self.environment.has(Extra::Optional) => match &operand {
                CelType::Optional(inner) => types[0].fits(inner).then(|| (**inner).clone()),
                CelType::Dyn => Some(CelType::Dyn),
                _ => None,
            },
            (
                "getFullYear" | "getMonth" | "getDayOfYear" | "getDayOfMonth" | "getDate"
                | "getDayOfWeek",
                0 | 1,
            ) => (operand.fits(&CelType::Timestamp) && fits_text(&types)).then_some(CelType::Int),
            ("getHours" | "getMinutes" | "getSeconds" | "getMilliseconds", 0 | 1) => {
                let is_time = operand.fits(&CelType::Timestamp) || operand.fits(&CelType::Duration);
                (is_time && fits_text(&types)).then_some(CelType::Int)
            }
            _ => {
                let reason = format!("undeclared reference to '{name}' (in container '')");
                return self.problem(at, reason);
            }
        };
        if let Some(found) = found {
            found
        } else {
            let shown: Vec<String> = types.iter().map(CelType::to_string).collect();
            let shown = shown.join(", ");
            let reason =
                format!("found no matching overload for '{name}' applied to '{operand}.({shown})'");
            self.problem(at, reason)
        }
    }

    fn optional_function(&mut self, name: &str, arguments: &[Expression], at: usize) -> CelType {
        let types: Vec<CelType> = arguments.iter().map(|item| self.check(item)).collect();
        match (name, types.as_slice()) {
            ("of" | "ofNonZeroValue", [value]) => CelType::Optional(Box::new(value.clone())),
            ("none", []) => CelType::Optional(Box::new(CelType::Dyn)),
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
        operand: &CelType,
        arguments: &[Expression],
        at: usize,
    ) -> Option<CelType> {
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
            CelType::List(item) => (**item).clone(),
            CelType::Map(key, _) => (**key).clone(),
            CelType::Optional(inner) if is_optional_macro => (**inner).clone(),
            CelType::Dyn => CelType::Dyn,
            other => {
                let reason = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be \
                     list, map, or dynamic)"
                );
                return Some(self.problem(at, reason));
            }
        };
        self.locals.push((variable.clone(), item.clone()));
        let types: Vec<CelType> = arguments[1..].iter().map(|item| self.check(item)).collect();
        self.locals.pop();
        let wants_bool = name != "map" && !is_optional_macro || types.len() == 2;
        if wants_bool && !types[0].fits(&CelType::Bool) {
            let reason = no_overload("_&&_", &[CelType::Bool, types[0].clone()]);
            return Some(self.problem(at, reason));
        }
        let last = types.last().cloned().unwrap_or(CelType::Dyn);
        Some(match name {
            "map" => CelType::List(Box::new(last)),
            "filter" => CelType::List(Box::new(item)),
            "optMap" => CelType::Optional(Box::new(last)),
            "optFlatMap" => last,
            _ => CelType::Bool,
        })
    }
}

fn no_overload(name: &str, types: &[CelType]) -> String {
    let shown: Vec<String> = types.iter().map(CelType::to_string).collect();
    format!("found no matching overload for '{name}' applied to '({})'", shown.join(", "))
}
