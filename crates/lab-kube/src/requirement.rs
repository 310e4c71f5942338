//! Parser of label selectors with the error messages of the API server.

use std::collections::BTreeSet;

use serde_json::Value;

use super::label;
use super::object;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Requirement {
    pub(super) key: String,
    pub(super) operator: Operator,
    pub(super) values: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    In,
    NotIn,
    Exists,
    Absent,
    Above,
    Below,
}

impl Requirement {
    /// Text of the requirement, as in a query parameter.
    pub(super) fn text(&self) -> String {
        let Self { key, values, .. } = self;
        match (self.operator, values.as_slice()) {
            (Operator::In, [value]) => format!("{key}={value}"),
            (Operator::In, _) => format!("{key} in ({})", values.join(",")),
            (Operator::NotIn, _) => format!("{key} notin ({})", values.join(",")),
            (Operator::Exists, _) => key.clone(),
            (Operator::Absent, _) => format!("!{key}"),
            (Operator::Above, _) => format!("{key}>{}", values.join(",")),
            (Operator::Below, _) => format!("{key}<{}", values.join(",")),
        }
    }

    pub(super) fn holds(&self, object: &Value) -> bool {
        let has = object::label(object, &self.key);
        let is_listed = has.is_some_and(|has| self.values.iter().any(|value| value == has));
        let number = |text: &str| text.parse::<i64>().ok();
        let numbers = has.and_then(number).zip(self.values.first().and_then(|one| number(one)));
        match self.operator {
            Operator::In => is_listed,
            Operator::NotIn => !is_listed,
            Operator::Exists => has.is_some(),
            Operator::Absent => has.is_none(),
            Operator::Above => numbers.is_some_and(|(has, wanted)| has > wanted),
            Operator::Below => numbers.is_some_and(|(has, wanted)| has < wanted),
        }
    }
}

pub(super) fn parse(text: &str) -> Result<Vec<Requirement>, String> {
    let mut parser = Parser { tokens: tokens(text), at: 0 };
    let mut all = vec![];
    loop {
        let next = parser.peek();
        match next.sort {
            Sort::End => return Ok(all),
            Sort::Word | Sort::Not => {}
            _ => {
                let found = next.text;
                return Err(format!(
                    "found '{found}', expected: !, identifier, or 'end of string'"
                ));
            }
        }
        let one = parser.requirement();
        all.push(one.map_err(|problem| format!("unable to parse requirement: {problem}"))?);
        let then = parser.take();
        match then.sort {
            Sort::End => return Ok(all),
            Sort::Comma if matches!(parser.peek().sort, Sort::Word | Sort::Not) => {}
            Sort::Comma => {
                let found = parser.peek().text;
                return Err(format!("found '{found}', expected: identifier after ','"));
            }
            _ => return Err(format!("found '{}', expected: ',' or 'end of string'", then.text)),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    End,
    Word,
    Comma,
    Open,
    Close,
    Not,
    Equal,
    NotEqual,
    Above,
    Below,
}

#[derive(Clone, Copy, Debug)]
struct SelectorToken<'t> {
    sort: Sort,
    text: &'t str,
}

fn tokens(text: &str) -> Vec<SelectorToken<'_>> {
    const BLANKS: [char; 4] = [' ', '\t', '\r', '\n'];
    let mut tokens = vec![];
    let mut rest = text.trim_start_matches(BLANKS);
    while !rest.is_empty() {
        let (sort, length) = match rest.as_bytes() {
            [b'=', b'=', ..] => (Sort::Equal, 2),
            [b'=', ..] => (Sort::Equal, 1),
            [b'!', b'=', ..] => (Sort::NotEqual, 2),
            [b'!', ..] => (Sort::Not, 1),
            [b'(', ..] => (Sort::Open, 1),
            [b')', ..] => (Sort::Close, 1),
            [b',', ..] => (Sort::Comma, 1),
            [b'>', ..] => (Sort::Above, 1),
            [b'<', ..] => (Sort::Below, 1),
            _ => {
                let is_end = |c: char| "=!(),><".contains(c) || BLANKS.contains(&c);
                (Sort::Word, rest.find(is_end).unwrap_or(rest.len()))
            }
        };
        let (text, after) = rest.split_at(length);
        tokens.push(SelectorToken { sort, text });
        rest = after.trim_start_matches(BLANKS);
    }
    tokens
}

struct Parser<'t> {
    tokens: Vec<SelectorToken<'t>>,
    at: usize,
}

impl<'t> Parser<'t> {
    fn peek(&self) -> SelectorToken<'t> {
        self.tokens.get(self.at).copied().unwrap_or(SelectorToken { sort: Sort::End, text: "" })
    }

    fn take(&mut self) -> SelectorToken<'t> {
        let token = self.peek();
        self.at += 1;
        token
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let first = self.take();
        let is_absent = first.sort == Sort::Not;
        let key = if is_absent { self.take() } else { first };
        if key.sort != Sort::Word {
            return Err(format!("found '{}', expected: identifier", key.text));
        }
        let problems = label::key_problems(key.text);
        if !problems.is_empty() {
            let problems = problems.join("; ");
            return Err(format!("<nil>: Invalid value: {:?}: {problems}", key.text));
        }
        let key = key.text.to_owned();
        if is_absent {
            return Ok(Requirement { key, operator: Operator::Absent, values: vec![] });
        }
        if matches!(self.peek().sort, Sort::End | Sort::Comma) {
            return Ok(Requirement { key, operator: Operator::Exists, values: vec![] });
        }
        let how = self.take();
        let (operator, values) = match (how.sort, how.text) {
            (Sort::Word, "in") => (Operator::In, self.values()?),
            (Sort::Word, "notin") => (Operator::NotIn, self.values()?),
            (Sort::Equal, _) => (Operator::In, self.exact()?),
            (Sort::NotEqual, _) => (Operator::NotIn, self.exact()?),
            (Sort::Above, _) => (Operator::Above, self.exact()?),
            (Sort::Below, _) => (Operator::Below, self.exact()?),
            (_, found) => {
                return Err(format!("found '{found}', expected: in, notin, =, ==, !=, gt, lt"));
            }
        };
        let values: Vec<String> = values.into_iter().map(str::to_owned).collect();
        check(&key, operator, &values)?;
        Ok(Requirement { key, operator, values })
    }

    /// Parses the values in parentheses. Empty parentheses contain one empty value.
    fn values(&mut self) -> Result<BTreeSet<&'t str>, String> {
        let open = self.take();
        if open.sort != Sort::Open {
            return Err(format!("found '{}' expected: '('", open.text));
        }
        let mut values = BTreeSet::new();
        match self.peek().sort {
            Sort::Close => drop(values.insert("")),
            Sort::Word | Sort::Comma => self.listed(&mut values)?,
            _ => {
                let found = self.peek().text;
                return Err(format!("found '{found}', expected: ',', ')' or identifier"));
            }
        }
        // `listed` stops before the closing parenthesis, which is consumed here.
        self.take();
        Ok(values)
    }

    fn listed(&mut self, values: &mut BTreeSet<&'t str>) -> Result<(), String> {
        loop {
            let token = self.take();
            match token.sort {
                Sort::Word => {
                    values.insert(token.text);
                    match self.peek().sort {
                        Sort::Comma => {}
                        Sort::Close => return Ok(()),
                        _ => {
                            let found = self.peek().text;
                            return Err(format!("found '{found}', expected: ',' or ')'"));
                        }
                    }
                }
                Sort::Comma => {
                    if values.is_empty() {
                        values.insert("");
                    }
                    match self.peek().sort {
                        Sort::Close => {
                            values.insert("");
                            return Ok(());
                        }
                        Sort::Comma => {
                            self.take();
                            values.insert("");
                        }
                        _ => {}
                    }
                }
                _ => return Err(format!("found '{}', expected: ',', or identifier", token.text)),
            }
        }
    }

    /// Parses a single value, which may be empty.
    fn exact(&mut self) -> Result<BTreeSet<&'t str>, String> {
        if matches!(self.peek().sort, Sort::End | Sort::Comma) {
            return Ok([""].into());
        }
        let value = self.take();
        if value.sort != Sort::Word {
            return Err(format!("found '{}', expected: identifier", value.text));
        }
        Ok([value.text].into())
    }
}

fn check(key: &str, operator: Operator, values: &[String]) -> Result<(), String> {
    let is_ordered = matches!(operator, Operator::Above | Operator::Below);
    for (index, value) in values.iter().enumerate() {
        if is_ordered && value.parse::<i64>().is_err() {
            return Err(format!(
                "values[{index}]: Invalid value: {value:?}: for 'Gt', 'Lt' operators, the value must be an integer"
            ));
        }
        let problems = label::value_problems(value);
        if !problems.is_empty() {
            let problems = problems.join("; ");
            return Err(format!("values[{index}][{key}]: Invalid value: {value:?}: {problems}"));
        }
    }
    Ok(())
}
