//! Files that are generated from the code and checked in, so that they can be read and linked to.

use std::fs;
use std::path::Path;

use crate::Problems;

/// Path and content of every generated file.
fn files() -> Vec<(&'static str, String)> {
    vec![("schema/inventory.schema.json", format!("{:#}\n", talmox_model::schema()))]
}

pub(crate) fn write(root: &Path) -> Problems {
    let write = |(path, content): (&str, String)| {
        let path = root.join(path);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(path, content)
    };
    files()
        .into_iter()
        .filter_map(|file| write(file).err())
        .map(|error| error.to_string())
        .collect()
}

pub(crate) fn check(root: &Path) -> Problems {
    let is_stale = |path: &str, content: &String| {
        fs::read_to_string(root.join(path)).ok().as_ref() != Some(content)
    };
    files()
        .into_iter()
        .filter(|(path, content)| is_stale(path, content))
        .map(|(path, _)| format!("{path} is not current: run `cargo xtask generate`"))
        .collect()
}
