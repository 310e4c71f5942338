//! Explanations of codes, and the macro that declares codes with their explanations.

/// Meaning of a code and instructions for the user. `talmox explain` and docs/CODES.md show them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Explanation {
    pub code: &'static str,
    /// One line, without a period at the end.
    pub title: &'static str,
    pub meaning: &'static str,
    /// Instructions for the user.
    pub action: &'static str,
}

/// Declares an enum of codes. A code without an explanation does not compile.
///
/// The texts of the codes are part of the JSON output, so they must never change.
#[macro_export]
macro_rules! codes {
    (
        $(#[$attribute:meta])*
        $visibility:vis enum $Codes:ident {
            $($name:ident = $code:literal {
                title: $title:literal,
                meaning: $meaning:literal,
                action: $action:literal,
            })+
        }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        $visibility enum $Codes { $(#[doc = $title] $name,)+ }

        impl $Codes {
            $visibility const ALL: &[Self] = &[$(Self::$name,)+];

            $visibility fn as_str(self) -> &'static str {
                match self { $(Self::$name => $code,)+ }
            }

            $visibility fn explanation(self) -> $crate::Explanation {
                let (title, meaning, action) = match self {
                    $(Self::$name => ($title, $meaning, $action),)+
                };
                $crate::Explanation { code: self.as_str(), title, meaning, action }
            }
        }

        impl std::fmt::Display for $Codes {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}
