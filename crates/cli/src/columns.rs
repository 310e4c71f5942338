//! Removal of table columns on narrow terminals.

use crate::words;

/// Removes optional columns until the table fits the terminal, and returns the titles of the removed columns.
/// `dispensable` lists the optional columns, the most important column first.
pub(crate) fn narrow(
    rows: &mut [Vec<String>],
    dispensable: &[&'static str],
    columns: Option<usize>,
) -> Vec<&'static str> {
    let fits = |left_out: &[&str]| {
        let mut rest = rows.to_vec();
        for title in left_out {
            drop_column(&mut rest, title);
        }
        let widest = words::aligned(&rest).lines().map(|line| line.chars().count()).max();
        columns.is_none_or(|columns| widest.unwrap_or_default() <= columns)
    };
    if fits(&[]) {
        return vec![];
    }
    let mut left_out = dispensable.to_vec();
    left_out.retain(|title| rows[0].iter().any(|known| known == title));
    for title in left_out.clone() {
        let fewer: Vec<&str> = left_out.iter().copied().filter(|other| *other != title).collect();
        if fits(&fewer) {
            left_out.retain(|other| *other != title);
        }
    }
    for title in &left_out {
        drop_column(rows, title);
    }
    left_out
}

/// Note below a table, with the names of the removed columns.
pub(crate) fn no_room(left_out: &[&str]) -> String {
    if left_out.is_empty() {
        return String::new();
    }
    format!("\nColumns not shown because the terminal is too narrow: {}.\n", left_out.join(", "))
}

pub(crate) fn drop_column(rows: &mut [Vec<String>], title: &str) {
    let Some(at) = rows[0].iter().position(|known| known == title) else { return };
    for row in rows {
        row.remove(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Vec<String>> {
        let row = |cells: [&str; 4]| cells.map(str::to_owned).to_vec();
        vec![row(["NODE", "ROLE", "HOST", "CPU"]), row(["cp-1", "controlplane", "pve", "4%"])]
    }

    #[test]
    fn a_narrow_terminal_gets_the_most_important_columns_that_fit() {
        for (columns, left_out) in [
            (None, &[][..]),
            (Some(80), &[]),
            (Some(28), &["CPU"]),
            (Some(20), &["HOST", "CPU"]),
            (Some(10), &["ROLE", "CPU"]),
            (Some(5), &["ROLE", "HOST", "CPU"]),
        ] {
            let mut rows = rows();
            assert_eq!(
                narrow(&mut rows, &["ROLE", "HOST", "CPU"], columns),
                left_out,
                "{columns:?}"
            );
            assert_eq!(rows[1].len(), 4 - left_out.len(), "{columns:?}");
        }
    }
}
