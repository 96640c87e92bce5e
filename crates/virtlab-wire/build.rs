//! Makes a row type of each schema in `blocks.json`, which Python reads, too.
//!
//! Its strings, in their order, say all: a schema's name, then `meaning` and a text, perhaps `disk_bytes`, which has a
//! number, and `columns` with one string each. A library that reads JSON would be compiled once more for this alone.

use std::fmt::Write;
use std::path::Path;

const SCHEMAS: &str = "../../python/virtlab/plan/blocks.json";

fn main() {
    // Asked when it runs: a build folder may be shared by several copies of the sources.
    let own = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo says where the package is");
    let path = Path::new(&own).join(SCHEMAS);
    println!("cargo::rerun-if-changed={}", path.display());
    let text = std::fs::read_to_string(path).expect("blocks.json can be read");
    let rows = rows(&strings(&text));
    let out = std::env::var_os("OUT_DIR").expect("cargo says where it goes");
    std::fs::write(Path::new(&out).join("rows.rs"), rows).expect("row types can be written");
}

/// All strings of a JSON text without escapes.
fn strings(text: &str) -> Vec<&str> {
    assert!(!text.contains('\\'), "blocks.json escapes nothing");
    text.split('"').skip(1).step_by(2).collect()
}

/// The types of all schemas' rows.
fn rows(mut strings: &[&str]) -> String {
    let mut all = String::new();
    while let [name, "meaning", meaning, rest @ ..] = strings {
        let ["columns", rest @ ..] = rest.strip_prefix(&["disk_bytes"]).unwrap_or(rest) else { break };
        let columns: Vec<_> = rest.iter().map_while(|text| text.split_once(": ")).collect();
        strings = &rest[columns.len()..];
        all += &row(name, meaning, &columns);
    }
    assert!(
        strings.is_empty(),
        "a schema is a name, a meaning, perhaps 'disk_bytes', and 'columns': {strings:?}"
    );
    all
}

/// The type of one schema's rows.
fn row(name: &str, meaning: &str, columns: &[(&str, &str)]) -> String {
    let mut text = format!("record!(\n    /// `{name}`: {meaning}\n    {}, {name:?}, {{", type_name(name));
    for (column, dtype) in columns {
        let kind = match *dtype {
            "i64" => "I64",
            "i32" | "name" => "I32",
            "f64" => "F64",
            other => panic!("column {column} of {name}: no dtype {other}"),
        };
        write!(text, " {column}: {kind},").expect("text takes text");
    }
    text + " }\n);\n"
}

/// `rt_job/1` is `RtJobRow`.
fn type_name(schema: &str) -> String {
    let (name, version) = schema.split_once('/').expect("a schema is 'name/version'");
    assert_eq!(version, "1", "{schema}: write how rows of later versions are called");
    let word = |word: &str| word[..1].to_uppercase() + &word[1..];
    name.split('_').map(word).collect::<String>() + "Row"
}
