//! Table of the structure of Talos documents.
//!
//! For every struct: its keys in output order, their types, whether they are omitted when empty, how two values
//! merge, and the first release that has the key. Decoding, encoding, merging and deleting use this table; none of
//! them contains the name of a document.
//!
//! The table does not define which values are valid together: `validate` does.

mod block;
mod cluster;
mod enums;
mod kinds;
mod machine;
mod machine_network;
mod network;
mod services;

use talmox_yaml::{Entry, GoYaml, Map};

use crate::contract::Contract;
pub(crate) use kinds::{CONFIG_KIND, Kind, any_kind, kind, link_kinds};

/// Release of Talos's machinery, with its kinds and keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Release {
    V1_8,
    V1_9,
    V1_10,
    V1_11,
    V1_12,
    #[default]
    V1_13,
    V1_14,
}

impl Release {
    /// Release that parses configs of a Talos version, given as `1.12`, `v1.12.7`… Versions older or newer than all
    /// known ones use the nearest release.
    pub fn of(version: &str) -> Option<Self> {
        let version = version.strip_prefix('v').unwrap_or(version);
        let mut parts = version.split(['.', '-']);
        let major: u32 = parts.next()?.parse().ok()?;
        let minor: u32 = parts.next()?.parse().ok()?;
        (major == 1).then_some(match minor {
            0..=8 => Self::V1_8,
            9 => Self::V1_9,
            10 => Self::V1_10,
            11 => Self::V1_11,
            12 => Self::V1_12,
            13 => Self::V1_13,
            _ => Self::V1_14,
        })
    }

    /// Talos version of the release.
    pub(crate) fn contract(self) -> Contract {
        Contract::new(
            1,
            match self {
                Self::V1_8 => 8,
                Self::V1_9 => 9,
                Self::V1_10 => 10,
                Self::V1_11 => 11,
                Self::V1_12 => 12,
                Self::V1_13 => 13,
                Self::V1_14 => 14,
            },
        )
    }

    /// YAML library that the release writes configs with.
    pub(crate) fn go_yaml(self) -> GoYaml {
        if self < Self::V1_13 { GoYaml::Rc3 } else { GoYaml::Rc4 }
    }
}

/// Go struct.
#[derive(Debug)]
pub(crate) struct Struct {
    /// Name of the type in Go, for messages.
    pub(crate) name: &'static str,
    /// Fields in groups: each inlined struct is a group.
    groups: &'static [&'static [Field]],
    /// Fields that determine whether Go treats the struct as empty. None if all fields do.
    pub(crate) counted: Option<&'static [&'static str]>,
    /// Whether decoding sets every field, as for pairs of certificate and key.
    pub(crate) complete: bool,
    /// Whether only some of its keys are in the table; other keys are kept unchanged.
    pub(crate) open: bool,
}

impl Struct {
    pub(crate) fn fields(&self, release: Release) -> impl Iterator<Item = &'static Field> {
        let groups = self.groups;
        groups.iter().flat_map(|group| group.iter()).filter(move |field| field.since <= release)
    }

    pub(crate) fn field(&self, key: &str, release: Release) -> Option<&'static Field> {
        self.fields(release).find(|field| field.key == key)
    }

    const fn counted_by(mut self, keys: &'static [&'static str]) -> Self {
        self.counted = Some(keys);
        self
    }

    const fn complete(mut self) -> Self {
        self.complete = true;
        self
    }

    const fn open(mut self) -> Self {
        self.open = true;
        self
    }

    /// Entries of an open struct that are not in its table.
    pub(crate) fn others<'a>(
        &'static self,
        map: &'a Map,
        release: Release,
    ) -> impl Iterator<Item = &'a Entry> {
        let is_other = move |entry: &Entry| {
            entry.key.as_str().is_some_and(|key| self.field(key, release).is_none())
        };
        map.entries.iter().filter(move |entry| self.open && is_other(entry))
    }
}

#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "a row of a table: flags of a field")]
pub(crate) struct Field {
    pub(crate) key: &'static str,
    pub(crate) ty: Type,
    /// Whether the key is omitted when empty.
    pub(crate) omit_empty: bool,
    /// Whether a patch replaces the whole value.
    pub(crate) replaced: bool,
    /// Whether a copy of the document shares the value.
    pub(crate) shared: bool,
    /// Whether the value is, or may contain, a secret.
    pub(crate) secret: bool,
    pub(crate) since: Release,
}

impl Field {
    const fn replaced(mut self) -> Self {
        self.replaced = true;
        self
    }

    const fn shared(mut self) -> Self {
        self.shared = true;
        self
    }

    const fn secret(mut self) -> Self {
        self.secret = true;
        self
    }

    const fn since(mut self, release: Release) -> Self {
        self.since = release;
        self
    }
}

#[derive(Debug)]
pub(crate) enum Type {
    Scalar(Format),
    /// Optional value; when present it counts even if it is empty or false.
    Pointer(&'static Self),
    List(&'static Self, ListMerge),
    Map(&'static Self),
    Struct(&'static Struct),
    /// Mapping of any values, such as the configuration of an admission plugin.
    Any,
    /// Command line arguments: texts, and from 1.13 on texts or lists of texts.
    Args,
}

/// Rule for merging the list of a patch into an existing list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListMerge {
    Append,
    /// Items with the same value of this key are merged.
    ByKey(&'static str),
    /// Items with the same value of this key are replaced.
    ReplaceByKey(&'static str),
    /// Network interfaces: by name, or by an equal device selector.
    ByInterface,
    /// Not a merge rule: inline manifests lose leading blank lines when they are decoded.
    Manifests,
}

/// Notation of a scalar, and its canonical form.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Format {
    Text,
    Bool,
    Int {
        go: &'static str,
        min: i128,
        max: i128,
    },
    /// Duration such as `1h30m`.
    Duration,
    /// Octal number such as `0o644`.
    FileMode,
    /// Bytes, written in decimal units if they are exact.
    DiskSize,
    /// Bytes, kept as written: `10GiB`.
    ByteSize,
    /// Bytes or a percentage, kept as written.
    Size,
    /// Condition such as `>= 10GB`.
    SizeCondition,
    Url,
    /// As [`Format::Url`], but an empty text is valid too.
    Endpoint,
    Addr,
    Prefix,
    AddrPort,
    Mac,
    Base64,
    /// Base64, or the replacement of a redacted secret.
    Secret,
    /// `80` or `8000-9000`.
    PortRange,
    /// CEL expression.
    Cel,
    Enum(&'static Enum),
}

/// Closed set of words.
#[derive(Debug)]
pub(crate) struct Enum {
    pub(crate) name: &'static str,
    pub(crate) values: &'static [&'static str],
    /// Word that stands for the empty value. None if there is no such word.
    pub(crate) zero: Option<&'static str>,
    /// Words that exist since 1.13, and words that were removed in 1.13.
    pub(crate) later: &'static [&'static str],
    pub(crate) gone: &'static [&'static str],
    /// Words that exist since 1.14.
    pub(crate) latest: &'static [&'static str],
    /// Range of numbers that are accepted as names (`1`…`252` of routing tables) and not listed.
    pub(crate) numbers: Option<(u32, u32)>,
    /// Whether the numbers of its words, and an empty text for the first word, are accepted, but no other case.
    pub(crate) legacy: bool,
}

// Shorthands for the tables.

const V8: Release = Release::V1_8;
const V9: Release = Release::V1_9;
const V10: Release = Release::V1_10;
const V11: Release = Release::V1_11;
const V12: Release = Release::V1_12;
const V13: Release = Release::V1_13;
const V14: Release = Release::V1_14;

const fn record(name: &'static str, groups: &'static [&'static [Field]]) -> Struct {
    Struct { name, groups, counted: None, complete: false, open: false }
}

/// Key that is always written.
const fn keep(key: &'static str, ty: Type) -> Field {
    Field { key, ty, omit_empty: false, replaced: false, shared: false, secret: false, since: V8 }
}

/// Key that is omitted when empty.
const fn omit(key: &'static str, ty: Type) -> Field {
    Field { omit_empty: true, ..keep(key, ty) }
}

const fn ptr(ty: &'static Type) -> Type {
    Type::Pointer(ty)
}

const fn list(ty: &'static Type) -> Type {
    Type::List(ty, ListMerge::Append)
}

const fn map(ty: &'static Type) -> Type {
    Type::Map(ty)
}

/// Struct by value.
const fn flat(record: &'static Struct) -> Type {
    Type::Struct(record)
}

const fn choice(values: &'static Enum) -> Type {
    Type::Scalar(Format::Enum(values))
}

const fn int(go: &'static str, min: i128, max: i128) -> Type {
    Type::Scalar(Format::Int { go, min, max })
}

/// Optional struct.
macro_rules! one {
    ($record:expr) => {
        $crate::schema::Type::Pointer(&$crate::schema::Type::Struct(&$record))
    };
}

/// List of structs.
macro_rules! many {
    ($record:expr) => {
        many!($record, Append)
    };
    ($record:expr, $($merge:tt)+) => {
        $crate::schema::Type::List(
            &$crate::schema::Type::Struct(&$record),
            $crate::schema::ListMerge::$($merge)+,
        )
    };
}

/// List of structs, each of which may be null.
macro_rules! refs {
    ($record:expr) => {
        refs!($record, Append)
    };
    ($record:expr, $($merge:tt)+) => {
        $crate::schema::Type::List(
            &$crate::schema::Type::Pointer(&$crate::schema::Type::Struct(&$record)),
            $crate::schema::ListMerge::$($merge)+,
        )
    };
}
use {many, one, refs};

const TEXT: Type = Type::Scalar(Format::Text);
const BOOL: Type = Type::Scalar(Format::Bool);
/// Optional boolean.
const FLAG: Type = ptr(&BOOL);
const INT: Type = int("int", i64::MIN as i128, i64::MAX as i128);
const UINT: Type = int("uint", 0, u64::MAX as i128);
const U8: Type = int("uint8", 0, u8::MAX as i128);
const U16: Type = int("uint16", 0, u16::MAX as i128);
const U32: Type = int("uint32", 0, u32::MAX as i128);
const U64: Type = int("uint64", 0, u64::MAX as i128);
const TEXTS: Type = list(&TEXT);
const TEXT_MAP: Type = map(&TEXT);
const DURATION: Type = Type::Scalar(Format::Duration);
const CEL: Type = Type::Scalar(Format::Cel);
const ANY: Type = Type::Any;
const ARGS: Type = Type::Args;
const MAC: Type = Type::Scalar(Format::Mac);
const URL: Type = Type::Scalar(Format::Url);
const ADDR: Type = Type::Scalar(Format::Addr);
const PREFIX: Type = Type::Scalar(Format::Prefix);
const ADDR_PORT: Type = Type::Scalar(Format::AddrPort);

const META: &[Field] = &[omit("apiVersion", TEXT), keep("kind", TEXT)];
