//! Names the build of the agent: its version, and a hash of all sources that it is made of, so that a run's record
//! tells which agent measured. FNV-1a, 64 bit: it tells builds apart, and protects nothing. And has a static agent
//! linked small: with packed relocations, and without tables for unwinding.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const CRATES: [&str; 9] = ["agent", "disk", "fabric", "leader", "load", "qdisc", "store", "system", "wire"];
const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0100_0000_01b3;

fn main() {
    if is_static() {
        pack_relocations();
        leave_out_tables();
        println!("cargo::rustc-link-arg-bins=-Wl,-z,now"); // RELRO in full, whatever the compiler takes for granted
    }
    // Asked when it runs: a build folder may be shared by several copies of the sources.
    let own = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo says where the package is");
    let root = Path::new(&own).join("../..");
    let alone = [
        "Cargo.lock",
        "Cargo.toml",
        "crates/virtlab-wire/build.rs",
        "python/virtlab/catalogue/workloads/defaults.json",
        "python/virtlab/plan/blocks.json",
    ];
    let mut sources = alone.map(PathBuf::from).to_vec();
    for name in CRATES {
        let folder = format!("crates/virtlab-{name}");
        sources.push(PathBuf::from(&folder).join("Cargo.toml"));
        collect(&root, &PathBuf::from(folder).join("src"), &mut sources);
    }
    sources.sort();
    let mut hash = OFFSET;
    for path in &sources {
        println!("cargo::rerun-if-changed={}", root.join(path).display());
        let content = fs::read(root.join(path)).expect("sources can be read");
        for byte in path.to_string_lossy().bytes().chain([0]).chain(content).chain([0]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(PRIME);
        }
    }
    println!("cargo::rustc-env=VIRTLAB_BUILD={}+{hash:016x}", env!("CARGO_PKG_VERSION"));
}

/// Of what cargo compiles for: `CARGO_CFG_TARGET_` and this name.
fn of_target(name: &str) -> String {
    std::env::var(format!("CARGO_CFG_TARGET_{name}")).unwrap_or_default()
}

fn is_static() -> bool {
    of_target("ENV") == "gnu" && of_target("FEATURE").split(',').any(|feature| feature == "crt-static")
}

/// A static agent that can be loaded anywhere relocates itself by a table; packed, it takes hardly a byte per pointer
/// instead of 24. What is linked in reads such a table from glibc 2.36 on.
fn pack_relocations() {
    let said = Command::new("getconf").arg("GNU_LIBC_VERSION").output();
    let version = said.ok().and_then(|said| String::from_utf8(said.stdout).ok()).unwrap_or_default();
    let number = version.trim().strip_prefix("glibc 2.").and_then(|number| number.parse::<u32>().ok());
    if number >= Some(36) {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// An agent that ends at a panic never unwinds, and none of its crates asks for tables for that. The standard library
/// brings them along all the same, a tenth of the whole. GNU ld and lld alike take a script that adds to their own. On
/// other processors, what gcc begins a static program with names the tables.
fn leave_out_tables() {
    let flags = std::env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let wants_none = flags.split('\x1f').any(|flag| flag.ends_with("force-unwind-tables=no"));
    if wants_none && of_target("ARCH") == "x86_64" {
        let own = std::env::var("CARGO_MANIFEST_DIR").expect("cargo says where the package is");
        println!("cargo::rerun-if-changed={own}/without_tables.ld");
        println!("cargo::rustc-link-arg-bins=-Wl,--no-eh-frame-hdr,-T,{own}/without_tables.ld");
    }
}

/// All Rust files below a folder, and the folder itself, so that a new file is noticed.
fn collect(root: &Path, folder: &Path, found: &mut Vec<PathBuf>) {
    println!("cargo::rerun-if-changed={}", root.join(folder).display());
    for entry in fs::read_dir(root.join(folder)).expect("sources can be listed") {
        let entry = entry.expect("sources can be listed");
        let path = folder.join(entry.file_name());
        if entry.path().is_dir() {
            collect(root, &path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}
