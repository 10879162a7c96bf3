//! What isolated processes can reach, tried by a program that tries to get out; and that everything else works.

mod escapes;
mod files;
pub(crate) mod limits;
mod network;
pub(crate) mod outside;
mod places;
mod reports;
mod root;
mod sessions;
