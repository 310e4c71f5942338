//! Random patches, composed of fragments.

use std::fmt;

use crate::documents::{
    DOCUMENT_DELETES, DOCUMENT_FIELD_DELETES, DOCUMENTS, ODD_DOCUMENTS, WHOLE_PATCHES,
};
use crate::fields::{ELEMENT_DELETES, FIELDS, GENERATED_PATHS, ODD_FIELDS};
use crate::random::Random;
use crate::scalars::{ANY_MAPS, KEYS, SCALARS, STRING_MAPS};

/// Generated config that is patched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Base {
    pub(crate) contract_minor: u32,
    pub(crate) worker: bool,
    /// Whether the config has mirrors, sysctls and SANs, so that patches have values to merge with.
    pub(crate) rich: bool,
}

#[derive(Debug, Clone)]
enum Piece {
    /// Value at a path of the v1alpha1 document.
    Field { path: String, yaml: String },
    /// Separate document.
    Document(String),
    /// Whole patch. It is not combined with other pieces.
    Whole(String),
}

/// Config, and the patches that are applied to it in order.
#[derive(Debug, Clone)]
pub(crate) struct PatchCase {
    pub(crate) base: Base,
    patches: Vec<Vec<Piece>>,
    /// Text before the first document: a document marker, a comment, a directive or nothing.
    preamble: &'static str,
}

impl PatchCase {
    pub(crate) fn random(random: &mut Random, minor: u32) -> Self {
        let contracts = usize::try_from(minor - 7).expect("invariant: small");
        let contract_minor = 8 + u32::try_from(random.below(contracts)).expect("invariant: small");
        let base = Base { contract_minor, worker: random.chance(50), rich: random.chance(40) };
        // About a third of the cases may contain values that Talos rejects. The other cases must not be rejected before
        // the merge.
        let wild = random.chance(35);
        let mut paths_used = Vec::new();
        let patches = (0..=random.below(3))
            .map(|number| {
                let mut pieces: Vec<Piece> = Vec::new();
                for _ in 0..=random.below(4) {
                    let used = (number > 0).then_some(paths_used.as_slice());
                    let piece = Piece::random(random, wild, used);
                    if let Piece::Field { path, .. } = &piece {
                        paths_used.push(path.clone());
                    }
                    pieces.push(piece);
                }
                // If a piece is a whole patch, it is the only piece.
                match pieces.iter().position(|piece| matches!(piece, Piece::Whole(_))) {
                    Some(whole) => vec![pieces.swap_remove(whole)],
                    None => pieces,
                }
            })
            .collect();
        // go-yaml parses YAML 1.1 and rejects a text that declares another version.
        let directive = if wild { "%YAML 1.2\n---\n" } else { "%YAML 1.1\n---\n" };
        let preamble = random.pick(&["", "", "", "", "", "---\n", "# a comment\n", directive]);
        Self { base, patches, preamble }
    }

    /// Patches as texts.
    pub(crate) fn texts(&self) -> Vec<String> {
        self.patches.iter().map(|pieces| render(pieces, self.preamble)).collect()
    }

    /// Cases with one patch or one piece less than this case.
    pub(crate) fn simpler(&self) -> Vec<Self> {
        let mut candidates = Vec::new();
        for (number, pieces) in self.patches.iter().enumerate() {
            let mut case = self.clone();
            case.patches.remove(number);
            candidates.push(case);
            if pieces.len() > 1 {
                candidates.extend((0..pieces.len()).map(|gone| {
                    let mut case = self.clone();
                    case.patches[number].remove(gone);
                    case
                }));
            }
        }
        if !self.preamble.is_empty() {
            candidates.push(Self { preamble: "", ..self.clone() });
        }
        if self.base.rich {
            candidates.push(Self { base: Base { rich: false, ..self.base }, ..self.clone() });
        }
        candidates
    }
}

impl Piece {
    fn field((path, yaml): (&str, &str)) -> Self {
        Self::Field { path: path.to_owned(), yaml: yaml.to_owned() }
    }

    fn document((kind, body): (&str, &str)) -> Self {
        Self::Document(format!("apiVersion: v1alpha1\nkind: {kind}\n{body}"))
    }

    /// Random piece of a patch. `used` contains the paths that earlier patches set; `None` for the first patch.
    fn random(random: &mut Random, wild: bool, used: Option<&[String]>) -> Self {
        if wild && random.chance(30) {
            return match random.below(10) {
                0..6 => Self::field(random.pick(ODD_FIELDS)),
                6..8 => Self::Document(random.pick(ODD_DOCUMENTS).to_owned()),
                _ => Self::Whole(random.pick(WHOLE_PATCHES).to_owned()),
            };
        }
        if let Some(used) = used
            && random.chance(if wild { 30 } else { 15 })
        {
            return Self::deletion(random, wild, used);
        }
        match random.below(50) {
            0..24 => Self::field(random.pick(FIELDS)),
            24..34 => {
                let maps = if random.chance(70) { STRING_MAPS } else { ANY_MAPS };
                Self::field((random.pick(maps), &scalars(random)))
            }
            34..49 => Self::document(random.pick(DOCUMENTS)),
            _ => Self::Whole(random.pick(WHOLE_PATCHES).to_owned()),
        }
    }

    fn deletion(random: &mut Random, wild: bool, used: &[String]) -> Self {
        match random.below(10) {
            // Deletes a path that an earlier patch set.
            0..4 if !used.is_empty() => Self::field((&random.pick(used), "{$patch: delete}")),
            0..6 => Self::field((random.pick(GENERATED_PATHS), "$patch: delete")),
            6..8 => {
                // Talos rejects the deletion of a path that is not set.
                let reached = |path: &str| wild || used.iter().any(|used| used == path);
                let elements = ELEMENT_DELETES.iter().copied().filter(|(path, _)| reached(path));
                let elements: Vec<_> = elements.collect();
                Self::field(random.pick(if elements.is_empty() { FIELDS } else { &elements }))
            }
            8 => {
                let (kind, name) = random.pick(DOCUMENT_DELETES);
                Self::document((kind, &format!("$patch: delete\n{name}")))
            }
            _ => Self::document(random.pick(DOCUMENT_FIELD_DELETES)),
        }
    }
}

/// Map of a few scalars, without duplicate keys.
fn scalars(random: &mut Random) -> String {
    let mut keys = random.some(KEYS, 3);
    keys.push(random.pick(KEYS));
    keys.sort_unstable();
    keys.dedup();
    keys.iter()
        .map(|key| format!("{key}: {}\n", random.pick(SCALARS)))
        .collect::<String>()
        .trim_end()
        .to_owned()
}

/// Mapping under construction.
#[derive(Debug)]
enum Tree {
    Leaf(String),
    Map(Vec<(String, Self)>),
}

impl Tree {
    /// Inserts a leaf at a path. If the path is already used, the leaf is dropped.
    fn insert(&mut self, path: &[&str], yaml: &str) {
        let Self::Map(entries) = self else { return };
        let [key, rest @ ..] = path else { return };
        let at = entries.iter().position(|(name, _)| name == key);
        match (at, rest) {
            (Some(_), []) => {}
            (Some(at), rest) => entries[at].1.insert(rest, yaml),
            (None, []) => entries.push(((*key).to_owned(), Self::Leaf(yaml.to_owned()))),
            (None, rest) => {
                let mut child = Self::Map(Vec::new());
                child.insert(rest, yaml);
                entries.push(((*key).to_owned(), child));
            }
        }
    }

    fn write(&self, indent: usize, out: &mut String) {
        let Self::Map(entries) = self else { return };
        for (key, value) in entries {
            let pad = " ".repeat(indent);
            match value {
                // Block text is written below its key. Flow text and scalars are written on the line of the key.
                Self::Leaf(yaml)
                    if yaml.contains('\n')
                        || yaml.starts_with("- ")
                        || (yaml.contains(": ") && !yaml.starts_with(['{', '[', '&'])) =>
                {
                    out.push_str(&format!("{pad}{key}:\n"));
                    for line in yaml.split('\n') {
                        out.push_str(&if line.is_empty() {
                            "\n".to_owned()
                        } else {
                            format!("{pad}  {line}\n")
                        });
                    }
                }
                Self::Leaf(yaml) => out.push_str(&format!("{pad}{key}: {yaml}\n")),
                Self::Map(_) => {
                    out.push_str(&format!("{pad}{key}:\n"));
                    value.write(indent + 2, out);
                }
            }
        }
    }
}

fn render(pieces: &[Piece], preamble: &str) -> String {
    let mut tree = Tree::Map(Vec::new());
    let mut documents = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Whole(text) => return text.clone(),
            Piece::Document(text) => documents.push(format!("{text}\n")),
            Piece::Field { path, yaml } => tree.insert(&path.split('.').collect::<Vec<_>>(), yaml),
        }
    }
    let mut v1alpha1 = String::new();
    tree.write(0, &mut v1alpha1);
    if !v1alpha1.is_empty() {
        documents.insert(0, v1alpha1);
    }
    format!("{preamble}{}", documents.join("---\n"))
}

impl fmt::Display for Base {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let role = if self.worker { "worker" } else { "control plane" };
        let options = if self.rich { "with options" } else { "without options" };
        write!(out, "{role}, contract v1.{}, {options}", self.contract_minor)
    }
}
