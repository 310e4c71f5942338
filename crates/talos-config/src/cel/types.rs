//! Types of CEL, and the result types of operators and conversions.
//!
//! CEL has no implicit conversions: `disk.size > 100` is rejected, because it compares an unsigned with a signed
//! number.

use std::fmt;

use super::env::Message;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CelType {
    /// Any type. It is compatible with every type.
    Dyn,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    Text,
    Bytes,
    Duration,
    Timestamp,
    Meta,
    List(Box<Self>),
    Map(Box<Self>, Box<Self>),
    Optional(Box<Self>),
    Message(&'static Message),
}

impl fmt::Display for CelType {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dyn => out.write_str("dyn"),
            Self::Null => out.write_str("null"),
            Self::Bool => out.write_str("bool"),
            Self::Int => out.write_str("int"),
            Self::Uint => out.write_str("uint"),
            Self::Double => out.write_str("double"),
            Self::Text => out.write_str("string"),
            Self::Bytes => out.write_str("bytes"),
            Self::Duration => out.write_str("google.protobuf.Duration"),
            Self::Timestamp => out.write_str("google.protobuf.Timestamp"),
            Self::Meta => out.write_str("type"),
            Self::List(item) => write!(out, "list({item})"),
            Self::Map(key, value) => write!(out, "map({key}, {value})"),
            Self::Optional(inner) => write!(out, "optional_type({inner})"),
            Self::Message(message) => out.write_str(message.name),
        }
    }
}

impl CelType {
    /// Whether values of this type are allowed where the other type is required.
    pub(super) fn fits(&self, wanted: &Self) -> bool {
        match (self, wanted) {
            (Self::Dyn, _)
            | (_, Self::Dyn)
            | (Self::Null, Self::Message(_) | Self::Duration | Self::Timestamp)
            | (Self::Message(_) | Self::Duration | Self::Timestamp, Self::Null) => true,
            (Self::List(a), Self::List(b)) | (Self::Optional(a), Self::Optional(b)) => a.fits(b),
            (Self::Map(ak, av), Self::Map(bk, bv)) => ak.fits(bk) && av.fits(bv),
            (a, b) => a == b,
        }
    }
}

/// Type that is compatible with all given types; `Dyn` if there is no such type.
pub(super) fn common(types: Vec<CelType>) -> CelType {
    let mut types = types.into_iter();
    let Some(first) = types.next() else {
        return CelType::Dyn;
    };
    if types.all(|other| other == first) { first } else { CelType::Dyn }
}

pub(super) fn join(left: &CelType, right: &CelType) -> Option<CelType> {
    match (left, right) {
        (CelType::Dyn, _) | (_, CelType::Dyn) => Some(CelType::Dyn),
        _ if left.fits(right) => Some(left.clone()),
        _ => None,
    }
}

pub(super) fn is_ordered(ty: &CelType) -> bool {
    matches!(
        ty,
        CelType::Dyn
            | CelType::Null
            | CelType::Bool
            | CelType::Int
            | CelType::Uint
            | CelType::Double
            | CelType::Text
            | CelType::Bytes
            | CelType::Duration
            | CelType::Timestamp
    )
}

pub(super) fn arithmetic(operator: &str, left: &CelType, right: &CelType) -> Option<CelType> {
    let is_number = |ty: &CelType| matches!(ty, CelType::Int | CelType::Uint | CelType::Double);
    match (operator, left, right) {
        (_, CelType::Dyn, other) | (_, other, CelType::Dyn) => Some(other.clone()),
        // Null is compatible with messages. Durations and timestamps are messages.
        ("_+_" | "_-_", CelType::Null | CelType::Duration | CelType::Timestamp, CelType::Null)
        | ("_+_" | "_-_", CelType::Null, CelType::Duration | CelType::Timestamp) => {
            Some(CelType::Dyn)
        }
        ("_%_", CelType::Int | CelType::Uint, _) if left == right => Some(left.clone()),
        ("_%_", ..) => None,
        _ if left == right && is_number(left) => Some(left.clone()),
        ("_+_", CelType::Text | CelType::Bytes, _) if left == right => Some(left.clone()),
        ("_+_", CelType::List(_), CelType::List(_)) => left.fits(right).then(|| left.clone()),
        ("_+_" | "_-_", CelType::Duration, CelType::Duration)
        | ("_-_", CelType::Timestamp, CelType::Timestamp) => Some(CelType::Duration),
        ("_+_" | "_-_", CelType::Timestamp, CelType::Duration)
        | ("_+_", CelType::Duration, CelType::Timestamp) => Some(CelType::Timestamp),
        _ => None,
    }
}

pub(super) fn index_of(operand: &CelType, index: &CelType) -> Option<CelType> {
    match operand {
        CelType::Dyn => Some(CelType::Dyn),
        CelType::List(item) => index.fits(&CelType::Int).then(|| (**item).clone()),
        CelType::Map(key, value) => index.fits(key).then(|| (**value).clone()),
        CelType::Optional(inner) => {
            index_of(inner, index).map(|found| CelType::Optional(Box::new(found)))
        }
        _ => None,
    }
}

pub(super) fn has_size(ty: &CelType) -> bool {
    matches!(
        ty,
        CelType::Dyn | CelType::Text | CelType::Bytes | CelType::List(_) | CelType::Map(..)
    )
}

pub(super) fn conversion_result(name: &str) -> Option<CelType> {
    Some(match name {
        "bool" => CelType::Bool,
        "bytes" => CelType::Bytes,
        "double" => CelType::Double,
        "duration" => CelType::Duration,
        "int" => CelType::Int,
        "string" => CelType::Text,
        "timestamp" => CelType::Timestamp,
        "uint" => CelType::Uint,
        _ => return None,
    })
}

pub(super) fn converts(name: &str, operand: &CelType) -> Option<CelType> {
    let result = conversion_result(name)?;
    let allowed = match result {
        CelType::Bool => matches!(operand, CelType::Bool | CelType::Text),
        CelType::Bytes => matches!(operand, CelType::Bytes | CelType::Text),
        CelType::Double => {
            matches!(operand, CelType::Double | CelType::Int | CelType::Uint | CelType::Text)
        }
        CelType::Uint => {
            matches!(operand, CelType::Double | CelType::Int | CelType::Uint | CelType::Text)
        }
        CelType::Int => matches!(
            operand,
            CelType::Double
                | CelType::Int
                | CelType::Uint
                | CelType::Text
                | CelType::Duration
                | CelType::Timestamp
        ),
        CelType::Duration => matches!(operand, CelType::Duration | CelType::Int | CelType::Text),
        CelType::Timestamp => matches!(operand, CelType::Timestamp | CelType::Int | CelType::Text),
        CelType::Text => !matches!(
            operand,
            CelType::Null
                | CelType::List(_)
                | CelType::Map(..)
                | CelType::Optional(_)
                | CelType::Message(_)
        ),
        _ => false,
    };
    (allowed || *operand == CelType::Dyn).then_some(result)
}
