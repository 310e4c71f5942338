//! Order in which go-yaml writes the keys of unordered maps.

use std::cmp::Ordering;

/// Compares two keys like go-yaml. Letters come after other characters, except after a digit. Numbers are compared by
/// value.
pub fn key_order(a: &str, b: &str) -> Ordering {
    if a == b {
        Ordering::Equal
    } else if key_is_less(a, b) {
        Ordering::Less
    } else {
        Ordering::Greater
    }
}

fn key_is_less(a: &str, b: &str) -> bool {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut after_digits = false;
    for (at, (&left, &right)) in a.iter().zip(&b).enumerate() {
        if left == right {
            after_digits = left.is_ascii_digit();
            continue;
        }
        return match (left.is_alphabetic(), right.is_alphabetic()) {
            (true, true) => left < right,
            (true, false) => after_digits,
            (false, true) => !after_digits,
            (false, false) => {
                let started = (left == '0' || right == '0') && number_is_open(&a[..at]);
                let (left_number, left_length) = run_of_digits(&a[at..], started);
                let (right_number, right_length) = run_of_digits(&b[at..], started);
                (left_number, left_length, left) < (right_number, right_length, right)
            }
        };
    }
    a.len() < b.len()
}

/// Whether the preceding digits contain a digit other than zero. If so, a zero after them is not a leading zero.
fn number_is_open(before: &[char]) -> bool {
    before.iter().rev().take_while(|c| c.is_ascii_digit()).any(|c| *c != '0')
}

fn run_of_digits(text: &[char], started: bool) -> (i64, usize) {
    let digits = text.iter().map_while(|c| c.to_digit(10));
    digits.fold((i64::from(started), 0), |(number, length), digit| {
        let number = number.wrapping_mul(10).wrapping_add(i64::from(digit));
        (number, length + 1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_ordered_naturally() {
        let mut keys = ["eth10", "eth2", "a.b", "ab", "a-b", "1", "B", "10", "a"];
        keys.sort_by(|a, b| key_order(a, b));
        assert_eq!(keys, ["1", "10", "B", "a", "a-b", "a.b", "ab", "eth2", "eth10"]);
    }
}
