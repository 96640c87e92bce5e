//! Names the build of the agent: its version, and a hash of all sources that it is made of, so that a run's record tells
//! which agent measured. FNV-1a, 64 bit: it tells builds apart, and protects nothing.

use std::fs;
use std::path::{Path, PathBuf};

const CRATES: [&str; 5] = ["agent", "fabric", "load", "qdisc", "wire"];
const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0100_0000_01b3;

fn main() {
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
