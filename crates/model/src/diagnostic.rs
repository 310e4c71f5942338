//! What is wrong with an inventory, where, and what to do about it.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

use crate::source::Span;

/// Declares the stable names under which findings are reported, and what each is about.
macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal,)+) => {
        /// The stable name of a finding; part of the JSON output.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Code { $($(#[doc = $doc])+ $name,)+ }

        impl Code {
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)+ }
            }

            /// One line on what the finding means, for the reference.
            pub fn about(self) -> &'static str {
                match self { $(Self::$name => concat!($($doc,)+).trim_ascii(),)+ }
            }
        }
    };
}

codes! {
    /// A file cannot be read.
    Unreadable = "unreadable",
    /// A file is larger than an inventory can be.
    TooLarge = "too-large",
    /// A file is not UTF-8 text.
    NotUtf8 = "not-utf8",
    /// A file is not YAML.
    Syntax = "syntax",
    /// A file holds several YAML documents where one is expected.
    SeveralDocuments = "several-documents",
    /// A key that the language does not have.
    UnknownKey = "unknown-key",
    /// A key that belongs into another file or is written in two files.
    MisplacedKey = "misplaced-key",
    /// A key that stands twice in one mapping.
    DuplicateKey = "duplicate-key",
    /// A setting given under two of its names.
    AliasConflict = "alias-conflict",
    /// A value of the wrong kind, such as text where a number belongs.
    WrongType = "wrong-type",
    /// A value of the right kind that is not well formed.
    BadValue = "bad-value",
    /// A setting without which nothing can be done.
    Missing = "missing",
    /// A setting that can stay out for now, but that a plan will need.
    NeededLater = "needed-later",
    /// A name, address, vmid or MAC that is used twice.
    Duplicate = "duplicate",
    /// The same, between two clusters that share a Proxmox.
    SharedClash = "shared-clash",
    /// An address that does not lie in the subnet it belongs to.
    OutsideSubnet = "outside-subnet",
    /// An address that already means something else.
    AddressClash = "address-clash",
    /// Networks that overlap.
    NetworkOverlap = "network-overlap",
    /// A cluster without a control plane.
    NoControlPlane = "no-control-plane",
    /// An even number of control planes.
    EvenControlPlanes = "even-control-planes",
    /// A Talos version that talmox does not know.
    TalosVersion = "talos-version",
    /// A Kubernetes version that the Talos version does not run.
    KubernetesVersion = "kubernetes-version",
    /// A machine too small to run Talos, or an id out of range.
    TooSmall = "too-small",
    /// A GPU that cannot be passed through the way it is described.
    Gpu = "gpu",
    /// A class that is not defined.
    UnknownClass = "unknown-class",
    /// A file that the inventory names and that is not there.
    MissingFile = "missing-file",
    /// A patch that is not one.
    BadPatch = "bad-patch",
    /// Settings that exclude each other.
    Conflict = "conflict",
    /// A secret in clear text where a reference is expected.
    ClearSecret = "clear-secret",
    /// A file with keys that Git tracks.
    TrackedKeys = "tracked-keys",
    /// A download that anybody on the way can replace.
    Unverified = "unverified",
    /// Secrets go to a machine that cannot prove its identity.
    UnprovenPeer = "unproven-peer",
    /// A setting without effect, or with one that is rarely meant.
    Questionable = "questionable",
}

impl Code {
    /// The file says nothing, because it could not be read.
    pub(crate) fn is_about_whole_file(self) -> bool {
        matches!(self, Self::Unreadable | Self::TooLarge | Self::NotUtf8 | Self::Syntax)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    Error,
    Warning,
}

/// A place, and what to say beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    pub span: Span,
    pub text: String,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    pub severity: Severity,
    pub code: Code,
    pub message: String,
    /// Where it is; a finding about a whole cluster has none.
    pub primary: Option<Label>,
    /// Other places that have to do with it.
    pub related: Vec<Label>,
    pub hint: Option<String>,
}

impl Diagnostic {
    pub(crate) fn error(code: Code, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, code, message.into())
    }

    pub(crate) fn warning(code: Code, message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, code, message.into())
    }

    fn new(severity: Severity, code: Code, message: String) -> Self {
        Self { severity, code, message, primary: None, related: vec![], hint: None }
    }

    pub(crate) fn at(mut self, span: impl Into<Option<Span>>) -> Self {
        self.primary = span.into().map(|span| Label { span, text: String::new() });
        self
    }

    pub(crate) fn related(
        mut self,
        span: impl Into<Option<Span>>,
        text: impl Into<String>,
    ) -> Self {
        if let Some(span) = span.into() {
            self.related.push(Label { span, text: text.into() });
        }
        self
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// So many findings of each severity are kept; nobody reads more, and a file that is not an
/// inventory at all must not take long to refuse.
const MOST: usize = 1000;

/// Findings as they are collected: each once, and only so many.
#[derive(Clone, Debug, Default)]
pub(crate) struct Findings {
    list: Vec<Diagnostic>,
    known: HashSet<u64>,
    hasher: RandomState,
    errors: usize,
    warnings: usize,
    unlisted: usize,
    /// One of them says that a file could not be read at all.
    is_torn: bool,
}

impl Findings {
    pub(crate) fn push(&mut self, found: Diagnostic) {
        self.is_torn |= found.code.is_about_whole_file();
        let count = match found.severity {
            Severity::Error => &mut self.errors,
            Severity::Warning => &mut self.warnings,
        };
        // What is wrong with a layer is wrong for each node and cluster that has it.
        let place = found.primary.as_ref().map(|label| label.span);
        let is_new = self.known.insert(self.hasher.hash_one((place, found.code, &found.message)));
        if !is_new {
            return;
        }
        if *count < MOST {
            *count += 1;
            self.list.push(found);
        } else {
            self.unlisted += 1;
        }
    }

    /// No further error will be kept: it need not be worded.
    pub(crate) fn is_full(&self) -> bool {
        self.errors >= MOST
    }

    /// Counts an error that would not be kept.
    pub(crate) fn count_one(&mut self) {
        self.unlisted += 1;
    }

    pub(crate) fn is_torn(&self) -> bool {
        self.is_torn
    }

    pub(crate) fn append(&mut self, others: Self, change: impl Fn(Diagnostic) -> Diagnostic) {
        self.unlisted += others.unlisted;
        for found in others.list {
            self.push(change(found));
        }
    }

    /// In the order in which they are shown, as they stand in the files; and how many more there are.
    pub(crate) fn finish(mut self) -> (Vec<Diagnostic>, usize) {
        self.list.sort_by(|a, b| {
            let key = |diagnostic: &Diagnostic| {
                let place = diagnostic.primary.as_ref().map(|label| label.span);
                (place, diagnostic.severity, diagnostic.code)
            };
            key(a).cmp(&key(b)).then_with(|| a.message.cmp(&b.message))
        });
        (self.list, self.unlisted)
    }
}
