//! Names the build of the agent: its version, and a hash of all sources that it is made of, so that a run's record tells
//! which agent measured. FNV-1a, 64 bit: it tells builds apart, and protects nothing. And packs its relocations.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const CRATES: [&str; 9] = ["agent", "disk", "fabric", "leader", "load", "qdisc", "store", "system", "wire"];
const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0100_0000_01b3;

fn main() {
    pack_relocations();
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

/// A static agent that can be loaded anywhere relocates itself by a table; packed, it takes hardly a byte per pointer
/// instead of 24. What is linked in reads such a table from glibc 2.36 on.
fn pack_relocations() {
    let of = |name: &str| std::env::var(format!("CARGO_CFG_TARGET_{name}")).unwrap_or_default();
    if of("ENV") != "gnu" || !of("FEATURE").split(',').any(|feature| feature == "crt-static") {
        return;
    }
    let said = Command::new("getconf").arg("GNU_LIBC_VERSION").output();
    let version = said.ok().and_then(|said| String::from_utf8(said.stdout).ok()).unwrap_or_default();
    let number = version.trim().strip_prefix("glibc 2.").and_then(|number| number.parse::<u32>().ok());
    if number >= Some(36) {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
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
