//! The library must stay loaded: signal handlers and threads of it go on after the JVM believes it has unloaded a refused agent.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo:rerun-if-changed=build.rs");
}
