//! Sessions: creation, state, what a replaced shell gets back, and what users may do to a shell.

mod connection_bound;
mod descriptors;
mod first_use;
mod fork;
mod hostile;
mod invisible;
mod large_state;
mod lifecycle;
mod long_life;
mod rename;
mod restore;
mod shell_death;
mod start_up;
mod state;
