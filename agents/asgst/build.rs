//! The library must stay loaded: signal handlers call it after the JVM believes it has unloaded a refused agent. Its name in the dynamic section lets
//! a client that was linked against it find the one that the JVM loaded.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libwalkfuzz_asgst_agent.so");
    println!("cargo:rerun-if-changed=build.rs");
}
