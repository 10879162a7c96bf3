//! How the program is linked; docs/decisions/0016 has the reason.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // Fixed addresses: a position-independent program has its tables of addresses written anew at each start, and
    // every host of a session would keep a copy of them.
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux") {
        println!("cargo:rustc-link-arg-bins=-no-pie");
    }
}
