//! Schema table: the structure of Talos documents.
//!
//! For every struct, the table contains the keys in output order. For every key, it contains the type, whether an empty
//! value is omitted, how two values are merged, and the first release that has the key. Decoding, encoding, merging and
//! deleting use this table, and contain no names of documents.
//!
//! The table does not define which combinations of values are valid. `validate` checks them.

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

/// Minor release of Talos. It determines the kinds and keys that documents can have.
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
    /// Release whose rules apply to configs of a Talos version, such as `1.12` or `v1.12.7`. For a version that is
    /// older or newer than all known releases, this is the nearest release.
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

    /// YAML library that the release uses to write configs.
    pub(crate) fn go_yaml(self) -> GoYaml {
        if self < Self::V1_13 { GoYaml::Rc3 } else { GoYaml::Rc4 }
    }
}

/// Go struct.
#[derive(Debug)]
pub(crate) struct Struct {
    /// Name of the type in Go, for messages.
    pub(crate) name: &'static str,
    /// Fields in groups. Each inlined struct is a group.
    groups: &'static [&'static [Field]],
    /// Fields that determine whether Go treats the struct as empty; `None` if all fields do.
    pub(crate) counted: Option<&'static [&'static str]>,
    /// Whether decoding sets every field. This is the case for pairs of certificate and key.
    pub(crate) complete: bool,
    /// Whether the table contains only some keys of the struct. Other keys are kept unchanged.
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

    /// Entries of an open struct whose keys are not in the table.
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
    /// Whether the key is omitted when its value is empty.
    pub(crate) omit_empty: bool,
    /// Whether a patch replaces the whole value.
    pub(crate) replaced: bool,
    /// Whether a copy of the document shares the value with the original.
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
    /// Optional value. If it is present, it counts as set, even if it is empty or false.
    Pointer(&'static Self),
    List(&'static Self, ListMerge),
    Map(&'static Self),
    Struct(&'static Struct),
    /// Mapping of arbitrary values, such as the configuration of an admission plugin.
    Any,
    /// Command line arguments. The values are texts; from Talos 1.13 on, texts or lists of texts.
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
    /// Network interfaces are merged by name, or by an equal device selector.
    ByInterface,
    /// Inline manifests are appended. This is a separate rule because decoding removes their leading line breaks.
    Manifests,
}

/// Type of a scalar. It defines the accepted notations and the canonical form.
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
    /// Bytes, written in decimal units if they represent the size exactly.
    DiskSize,
    /// Bytes, kept as written, such as `10GiB`.
    ByteSize,
    /// Bytes or a percentage, kept as written.
    Size,
    /// Condition such as `>= 10GB`.
    SizeCondition,
    Url,
    /// Like [`Format::Url`], but an empty text is also valid.
    Endpoint,
    Addr,
    Prefix,
    AddrPort,
    Mac,
    Base64,
    /// Base64, or the text that replaces a redacted secret.
    Secret,
    /// Port or range of ports, such as `80` or `8000-9000`.
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
    /// Word for the empty value; `None` if there is no such word.
    pub(crate) zero: Option<&'static str>,
    /// `later`: words that exist since Talos 1.13. `gone`: words that Talos 1.13 removed.
    pub(crate) later: &'static [&'static str],
    pub(crate) gone: &'static [&'static str],
    /// Words that exist since Talos 1.14.
    pub(crate) latest: &'static [&'static str],
    /// Range of numbers that are accepted as names, such as `1` to `252` for routing tables. The words do not list
    /// them.
    pub(crate) numbers: Option<(u32, u32)>,
    /// Whether the number of a word is accepted, and an empty text for the first word. In this case, words in another
    /// case are not accepted.
    pub(crate) legacy: bool,
}

// Short names for the tables.

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

/// Key that is omitted when its value is empty.
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

/// List of structs. Each of them may be null.
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
