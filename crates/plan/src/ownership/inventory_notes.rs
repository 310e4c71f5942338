//! Notes of the inventory (`notes:` of a node) in the description of a VM.
//!
//! The notes follow the marker line, and the marker contains a hash of them. So they can be replaced and removed later, and
//! text that users write around the marker stays. Notes that a user edited in Proxmox do not match the hash any more: they
//! count as text of the user and stay.

use talmox_pve_types::property::Tags;

use super::marker::Marker;
use crate::sha256::sha256_hex;

/// Number of hexadecimal digits of the hash in the marker.
const DIGITS: usize = 16;

/// The notes in the form in which they are stored and compared: without white space at the ends of lines and of the text. None
/// if nothing is left.
pub(crate) fn normalized(notes: &str) -> Option<String> {
    let lines: Vec<&str> = notes.lines().map(str::trim_end).collect();
    let text = lines.join("\n").trim_matches('\n').to_owned();
    (!text.is_empty()).then_some(text)
}

/// The notes of the inventory that the description of a VM contains. None if it contains none, or if a user edited them.
pub(crate) fn find(description: &str) -> Option<String> {
    let marker = Marker::find(description)?;
    let (_, after) = split(description)?;
    let end = end_of_block(&after, marker.notes.as_deref()?)?;
    Some(after[..end].join("\n"))
}

/// The description with these notes and with this record of tags in its marker. All other text is kept. None if the
/// description has no marker.
pub(crate) fn put(description: &str, notes: Option<&str>, own_tags: &Tags) -> Option<String> {
    let marker = Marker::find(description)?;
    let (head, after) = split(description)?;
    let end = marker.notes.as_deref().and_then(|hash| end_of_block(&after, hash));
    let other = normalized(&after[end.unwrap_or_default()..].join("\n"));
    let marker = Marker { own_tags: own_tags.clone(), notes: notes.map(hash), ..marker };
    let head = marker.replace_in(&head.join("\n"))?;
    let parts = [Some(head), notes.map(str::to_owned), other];
    Some(parts.into_iter().flatten().collect::<Vec<_>>().join("\n\n"))
}

/// Applies the notes and the record of tags of a planned description to the current description, so that text that a user
/// wrote since the plan was made is kept. None if one of them has no marker.
pub fn rebased_description(planned: &str, current: &str) -> Option<String> {
    let marker = Marker::find(planned)?;
    put(current, find(planned).as_deref(), &marker.own_tags)
}

/// The lines up to the marker, and the lines after it without leading empty lines.
fn split(description: &str) -> Option<(Vec<&str>, Vec<&str>)> {
    let lines: Vec<&str> = description.lines().map(str::trim_end).collect();
    let at = lines.iter().position(|line| line.parse::<Marker>().is_ok())?;
    let after = lines[at + 1..].iter().copied().skip_while(|line| line.is_empty()).collect();
    Some((lines[..=at].to_vec(), after))
}

/// Number of the first lines whose hash is `desired`.
fn end_of_block(lines: &[&str], desired: &str) -> Option<usize> {
    (1..=lines.len()).find(|end| hash(&lines[..*end].join("\n")) == desired)
}

fn hash(notes: &str) -> String {
    let mut digits = sha256_hex(notes.as_bytes());
    digits.truncate(DIGITS);
    digits
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ownership::{Adoption, ClusterMark, Stage};

    fn marker() -> Marker {
        Marker {
            cluster: ClusterMark::of("id"),
            node: "cp-1".to_owned(),
            stage: Stage::Made,
            data: None,
            are_tags_rejected: false,
            first_role: None,
            own_tags: Tags::default(),
            notes: None,
        }
    }

    #[test]
    fn notes_are_added_replaced_and_removed_and_other_text_stays() {
        let tags = Tags::of(["talmox", "home"]);
        let bare = format!("# Mine\n\n{}\n\nby hand\n", marker().description("home"));
        let first = put(&bare, Some("rack 1\n\nowner: ops"), &tags).unwrap();
        assert_eq!(find(&first).as_deref(), Some("rack 1\n\nowner: ops"));
        let found = Marker::find(&first).unwrap();
        assert_eq!((&found.own_tags, found.cluster), (&tags, marker().cluster));
        assert!(first.starts_with("# Mine\n\nNode cp-1 of the cluster home."), "{first}");
        assert!(first.ends_with("\n\nrack 1\n\nowner: ops\n\nby hand"), "{first}");
        assert_eq!(Marker::named_cluster(&first), Some("home"));

        let second = put(&format!("{first}\n"), Some("rack 2"), &tags).unwrap();
        assert!(!second.contains("rack 1") && second.ends_with("\n\nrack 2\n\nby hand"));
        let third = put(&second, None, &tags).unwrap();
        assert_eq!(find(&third), None);
        assert!(third.ends_with("own-tags=home;talmox\n\nby hand"), "{third}");
    }

    #[test]
    fn notes_that_a_user_edited_stay() {
        let tags = Tags::default();
        let first = put(&marker().description("home"), Some("rack 1"), &tags).unwrap();
        let edited = first.replace("rack 1", "rack 1, top");
        assert_eq!(find(&edited), None);
        let second = put(&edited, Some("rack 2"), &tags).unwrap();
        assert!(second.ends_with("\n\nrack 2\n\nrack 1, top"), "{second}");
    }

    #[test]
    fn a_planned_description_keeps_what_was_written_since() {
        let tags = Tags::of(["talmox"]);
        let old = marker().description("home");
        let planned = put(&old, Some("rack 1"), &tags).unwrap();
        let current = format!("{old}\n\nwritten since");
        let rebased = rebased_description(&planned, &current).unwrap();
        assert!(rebased.ends_with("\n\nrack 1\n\nwritten since"), "{rebased}");
        assert_eq!(Marker::find(&rebased).unwrap().own_tags, tags);
        assert_eq!(rebased_description(&planned, "no marker"), None);
    }

    #[test]
    fn an_adopted_vm_keeps_its_uuid_and_its_notes() {
        let adoption = Adoption::of("id", "cp-1", "3c8e4b1a");
        let adopted = marker().adopt("made by Terraform", "home", &adoption);
        let text = put(&adopted, Some("rack 1"), &Tags::default()).unwrap();
        assert!(Marker::is_adopted(&text) && text.contains("uuid=3c8e4b1a"), "{text}");
        assert!(text.ends_with("\n\nrack 1\n\nmade by Terraform"), "{text}");
    }

    #[test]
    fn notes_have_one_form() {
        assert_eq!(normalized("\n a  \n\nb\n\n").as_deref(), Some(" a\n\nb"));
        assert_eq!(normalized(" \n\n"), None);
    }
}
