//! Files that are generated from the code and checked in, so that they can be read without a build.

use std::fs;
use std::path::Path;

use crate::{Problems, stubs};

/// Path and content of every generated file.
fn files(root: &Path) -> Result<Vec<(String, String)>, String> {
    let schema = format!("{:#}\n", talmox_model::schema());
    let mut files = vec![("schema/inventory.schema.json".to_owned(), schema)];
    files.extend(stubs::files(root)?);
    Ok(files)
}

pub(crate) fn write(root: &Path) -> Problems {
    let write = |(path, content): (String, String)| {
        let path = root.join(path);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(path, content)
    };
    match files(root) {
        Err(problem) => vec![problem],
        Ok(files) => {
            let failed = files.into_iter().filter_map(|file| write(file).err());
            failed.map(|error| error.to_string()).collect()
        }
    }
}

pub(crate) fn check(root: &Path) -> Problems {
    let is_stale = |path: &str, content: &String| {
        fs::read_to_string(root.join(path)).ok().as_ref() != Some(content)
    };
    match files(root) {
        Err(problem) => vec![problem],
        Ok(files) => {
            let stale = files.into_iter().filter(|(path, content)| is_stale(path, content));
            stale
                .map(|(path, _)| format!("{path} is not current: run `cargo xtask generate`"))
                .collect()
        }
    }
}
