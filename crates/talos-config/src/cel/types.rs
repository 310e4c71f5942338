//! Types of CEL, and the result types of operators and conversions.
//!
//! CEL has no implicit conversions: `disk.size > 100` is rejected, because it compares an unsigned with a signed
//! number.

use std::fmt;

use super::env::Message;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Type {
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

impl fmt::Display for Type {
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

impl Type {
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
pub(super) fn common(types: Vec<Type>) -> Type {
    let mut types = types.into_iter();
    let Some(first) = types.next() else {
        return Type::Dyn;
    };
    if types.all(|other| other == first) { first } else { Type::Dyn }
}

pub(super) fn join(left: &Type, right: &Type) -> Option<Type> {
    match (left, right) {
        (Type::Dyn, _) | (_, Type::Dyn) => Some(Type::Dyn),
        _ if left.fits(right) => Some(left.clone()),
        _ => None,
    }
}

pub(super) fn is_ordered(ty: &Type) -> bool {
    matches!(
        ty,
        Type::Dyn
            | Type::Null
            | Type::Bool
            | Type::Int
            | Type::Uint
            | Type::Double
            | Type::Text
            | Type::Bytes
            | Type::Duration
            | Type::Timestamp
    )
}

pub(super) fn arithmetic(operator: &str, left: &Type, right: &Type) -> Option<Type> {
    let is_number = |ty: &Type| matches!(ty, Type::Int | Type::Uint | Type::Double);
    match (operator, left, right) {
        (_, Type::Dyn, other) | (_, other, Type::Dyn) => Some(other.clone()),
        // Null is compatible with messages. Durations and timestamps are messages.
        ("_+_" | "_-_", Type::Null | Type::Duration | Type::Timestamp, Type::Null)
        | ("_+_" | "_-_", Type::Null, Type::Duration | Type::Timestamp) => Some(Type::Dyn),
        ("_%_", Type::Int | Type::Uint, _) if left == right => Some(left.clone()),
        ("_%_", ..) => None,
        _ if left == right && is_number(left) => Some(left.clone()),
        ("_+_", Type::Text | Type::Bytes, _) if left == right => Some(left.clone()),
        ("_+_", Type::List(_), Type::List(_)) => left.fits(right).then(|| left.clone()),
        ("_+_" | "_-_", Type::Duration, Type::Duration)
        | ("_-_", Type::Timestamp, Type::Timestamp) => Some(Type::Duration),
        ("_+_" | "_-_", Type::Timestamp, Type::Duration)
        | ("_+_", Type::Duration, Type::Timestamp) => Some(Type::Timestamp),
        _ => None,
    }
}

pub(super) fn index_of(operand: &Type, index: &Type) -> Option<Type> {
    match operand {
        Type::Dyn => Some(Type::Dyn),
        Type::List(item) => index.fits(&Type::Int).then(|| (**item).clone()),
        Type::Map(key, value) => index.fits(key).then(|| (**value).clone()),
        Type::Optional(inner) => {
            index_of(inner, index).map(|found| Type::Optional(Box::new(found)))
        }
        _ => None,
    }
}

pub(super) fn has_size(ty: &Type) -> bool {
    matches!(ty, Type::Dyn | Type::Text | Type::Bytes | Type::List(_) | Type::Map(..))
}

pub(super) fn conversion_result(name: &str) -> Option<Type> {
    Some(match name {
        "bool" => Type::Bool,
        "bytes" => Type::Bytes,
        "double" => Type::Double,
        "duration" => Type::Duration,
        "int" => Type::Int,
        "string" => Type::Text,
        "timestamp" => Type::Timestamp,
        "uint" => Type::Uint,
        _ => return None,
    })
}

pub(super) fn converts(name: &str, operand: &Type) -> Option<Type> {
    let result = conversion_result(name)?;
    let allowed = match result {
        Type::Bool => matches!(operand, Type::Bool | Type::Text),
        Type::Bytes => matches!(operand, Type::Bytes | Type::Text),
        Type::Double => matches!(operand, Type::Double | Type::Int | Type::Uint | Type::Text),
        Type::Uint => matches!(operand, Type::Double | Type::Int | Type::Uint | Type::Text),
        Type::Int => matches!(
            operand,
            Type::Double | Type::Int | Type::Uint | Type::Text | Type::Duration | Type::Timestamp
        ),
        Type::Duration => matches!(operand, Type::Duration | Type::Int | Type::Text),
        Type::Timestamp => matches!(operand, Type::Timestamp | Type::Int | Type::Text),
        Type::Text => !matches!(
            operand,
            Type::Null | Type::List(_) | Type::Map(..) | Type::Optional(_) | Type::Message(_)
        ),
        _ => false,
    };
    (allowed || *operand == Type::Dyn).then_some(result)
}
