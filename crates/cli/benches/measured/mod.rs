//! The parts of a measurement: who is asked, what it is compared with, how it is shown.

pub mod bare;
pub mod crowd;
pub mod elsewhere;
pub mod idle;
pub mod mcp;
pub mod neighbours;
pub mod samples;
pub mod table;
pub mod wire;
