//! What isolated processes can reach, tried by a program that tries to get out; and that everything else works.

mod escapes;
pub(crate) mod limits;
pub(crate) mod outside;
mod reports;
mod sessions;
