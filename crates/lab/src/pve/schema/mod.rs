//! What callers may send: parameters, their types and limits, and the words for what is wrong.
