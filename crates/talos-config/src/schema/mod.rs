//! The one table of what Talos documents are made of.
//!
//! For every struct: its keys in the order they are written, their types, what is left out when
//! empty, how two values merge, and since which release of Talos's machinery a key exists. Decoding,
//! encoding, merging and deleting all walk this table; none of them knows a document by name.
//!
//! The table says nothing about which values make sense together: that is `validate`.

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

/// A release of Talos's machinery: kinds and keys grow with it.
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
    /// The release that reads configs of a Talos version, given as `1.12`, `v1.12.7`…
    /// Versions that are older or newer than all that we know are judged by the nearest one.
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

    /// The Talos version that it came with.
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

    /// The YAML library that it writes configs with.
    pub(crate) fn go_yaml(self) -> GoYaml {
        if self < Self::V1_13 { GoYaml::Rc3 } else { GoYaml::Rc4 }
    }
}

/// A Go struct.
#[derive(Debug)]
pub(crate) struct Struct {
    /// The type's name in Go, for messages.
    pub(crate) name: &'static str,
    /// The fields, in groups: inlined structs are groups of their own.
    groups: &'static [&'static [Field]],
    /// Where Go decides emptiness by some of the fields only: those.
    pub(crate) counted: Option<&'static [&'static str]>,
    /// Reading it sets every field: certificates and keys come in pairs.
    pub(crate) complete: bool,
    /// Only some of its keys are in the table; any other key is taken as it is.
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

    /// The entries of an open struct that its table does not have.
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
#[expect(
    clippy::struct_excessive_bools,
    reason = "a row of a table: marks that a field has or has not"
)]
pub(crate) struct Field {
    pub(crate) key: &'static str,
    pub(crate) ty: Type,
    /// Left out when empty.
    pub(crate) omit_empty: bool,
    /// A patch replaces the value as a whole.
    pub(crate) replaced: bool,
    /// A copy of the document has the same value, not a copy of it.
    pub(crate) shared: bool,
    /// Nothing in it may be seen: it is, or may hold, something that gives access.
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
    /// May be absent; when present it counts even if it is empty or false.
    Pointer(&'static Self),
    List(&'static Self, ListMerge),
    Map(&'static Self),
    Struct(&'static Struct),
    /// A mapping of anything, such as an admission plugin's configuration.
    Any,
    /// Command line arguments: texts, and from 1.13 on texts or lists of texts.
    Args,
}

/// How a patch's list meets the list that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListMerge {
    Append,
    /// Items with the same value of this key merge.
    ByKey(&'static str),
    /// Items with the same value of this key are replaced.
    ReplaceByKey(&'static str),
    /// Network interfaces: by name, else by an equal device selector.
    ByInterface,
    /// Not a merge rule: inline manifests lose leading blank lines when they are read.
    Manifests,
}

/// What the text of a scalar must look like, and how it is written again.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Format {
    Text,
    Bool,
    Int {
        go: &'static str,
        min: i128,
        max: i128,
    },
    /// `1h30m`.
    Duration,
    /// An octal number such as `0o644`.
    FileMode,
    /// Bytes, written in decimal units where that loses nothing.
    DiskSize,
    /// Bytes, kept as written: `10GiB`.
    ByteSize,
    /// Bytes or a percentage, kept as written.
    Size,
    /// `>= 10GB`.
    SizeCondition,
    Url,
    /// As [`Format::Url`], but an empty text is an URL too.
    Endpoint,
    Addr,
    Prefix,
    AddrPort,
    Mac,
    Base64,
    /// Base64, or the word that stands for a redacted secret.
    Secret,
    /// `80` or `8000-9000`.
    PortRange,
    /// A CEL expression.
    Cel,
    Enum(&'static Enum),
}

/// A closed set of words.
#[derive(Debug)]
pub(crate) struct Enum {
    pub(crate) name: &'static str,
    pub(crate) values: &'static [&'static str],
    /// What the empty value is called; none where there is no word for it.
    pub(crate) zero: Option<&'static str>,
    /// Words that came with 1.13, and words that left with it.
    pub(crate) later: &'static [&'static str],
    pub(crate) gone: &'static [&'static str],
    /// Words that came with 1.14.
    pub(crate) latest: &'static [&'static str],
    /// Names that only look like numbers (`1`…`252` of routing tables) are not listed.
    pub(crate) numbers: Option<(u32, u32)>,
    /// Reads the numbers of its words, and nothing for the first one, but no other case.
    pub(crate) legacy: bool,
}

// What follows is the vocabulary of the tables.

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

/// A key that is always written.
const fn keep(key: &'static str, ty: Type) -> Field {
    Field { key, ty, omit_empty: false, replaced: false, shared: false, secret: false, since: V8 }
}

/// A key that is left out when empty.
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

/// A struct in place.
const fn flat(record: &'static Struct) -> Type {
    Type::Struct(record)
}

const fn choice(values: &'static Enum) -> Type {
    Type::Scalar(Format::Enum(values))
}

const fn int(go: &'static str, min: i128, max: i128) -> Type {
    Type::Scalar(Format::Int { go, min, max })
}

/// A struct that may be absent.
macro_rules! one {
    ($record:expr) => {
        $crate::schema::Type::Pointer(&$crate::schema::Type::Struct(&$record))
    };
}

/// A list of structs.
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

/// A list of structs each of which may be null.
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
/// A boolean that may be absent.
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
