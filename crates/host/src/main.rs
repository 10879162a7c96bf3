//! The host program on its own, statically linked: what is brought to containers and other machines.

use std::process::ExitCode;

fn main() -> ExitCode {
    trl_host::far::main(std::env::args_os().skip(1))
}
