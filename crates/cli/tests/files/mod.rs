//! Files of a session: `file.…` and `trl cp`.

mod copy;
mod requests;
