//! Makes a row type of each schema in `blocks.json`, which Python reads, too.

use serde_json::{Map, Value};
use std::fmt::Write;
use std::path::Path;

const SCHEMAS: &str = "../../python/virtlab/plan/blocks.json";

fn main() {
    // Asked when it runs: a build folder may be shared by several copies of the sources.
    let own = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo says where the package is");
    let path = Path::new(&own).join(SCHEMAS);
    println!("cargo::rerun-if-changed={}", path.display());
    let text = std::fs::read_to_string(path).expect("blocks.json can be read");
    let schemas: Map<String, Value> = serde_json::from_str(&text).expect("blocks.json holds schemas by name");
    let rows: String = schemas.iter().map(|(name, schema)| row(name, schema)).collect();
    let out = std::env::var_os("OUT_DIR").expect("cargo says where it goes");
    std::fs::write(Path::new(&out).join("rows.rs"), rows).expect("row types can be written");
}

/// The type of one schema's rows.
fn row(name: &str, schema: &Value) -> String {
    let columns: Vec<(&str, &str)> = schema["columns"]
        .as_array()
        .expect("a schema has a list of columns")
        .iter()
        .map(|column| column.as_str().and_then(|text| text.split_once(": ")).expect("'name: dtype'"))
        .collect();
    let meaning = schema["meaning"].as_str().expect("a schema has a meaning");
    let mut text = format!("record!(\n    /// `{name}`: {meaning}\n    {}, {name:?}, {{", type_name(name));
    for (column, dtype) in columns {
        let kind = match dtype {
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
