//! Mapping of storages in a migration (`targetstorage`).

use std::collections::BTreeMap;

use crate::schema::split_list;

/// Target storage of each source storage in a migration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StorageMap {
    /// Whether the parameter is `1`: every volume stays on the storage of the same name.
    pub(crate) identity: bool,
    pub(crate) entries: BTreeMap<String, String>,
    /// Target storage for all source storages without an entry.
    pub(crate) default: Option<String>,
}

impl StorageMap {
    /// Parses a list such as `a:b,c`. The storage ids in it are already verified.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut map = Self::default();
        for entry in split_list(text) {
            if entry == "1" {
                map.identity = true;
            } else if let Some((from, to)) = entry.split_once(':') {
                if map.entries.insert(from.to_owned(), to.to_owned()).is_some() {
                    return Err(format!("duplicate mapping for source '{from}'\n"));
                }
            } else if map.default.replace(entry.to_owned()).is_some() {
                return Err("default target ID can only be provided once\n".to_owned());
            }
        }
        if map.identity && (map.default.is_some() || !map.entries.is_empty()) {
            return Err("identity mapping cannot be combined with other mappings\n".to_owned());
        }
        Ok(map)
    }

    pub(crate) fn target<'a>(&'a self, storage: &'a str) -> &'a str {
        let mapped = self.entries.get(storage).or(self.default.as_ref());
        mapped.map_or(storage, String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_override_the_default() {
        let map = StorageMap::parse("a:b,c").unwrap();
        assert_eq!((map.target("a"), map.target("z")), ("b", "c"));
        assert_eq!(StorageMap::parse("1").unwrap().target("a"), "a");
        assert_eq!(StorageMap::default().target("a"), "a");
    }

    #[test]
    fn contradictory_maps_are_rejected() {
        for text in ["a:b,a:c", "a,b", "1,a", "1,a:b"] {
            assert!(StorageMap::parse(text).is_err(), "{text}");
        }
    }
}
