//! The kept fuzzing corpus, replayed: what was found once stays mended.

use std::fs;
use std::path::Path;

fn replay(name: &str, check: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
    let mut count = 0;
    for entry in fs::read_dir(&folder).expect("the corpus is part of the sources") {
        let path = entry.expect("the corpus can be listed").path();
        check(&fs::read(&path).expect("the corpus can be read"));
        count += 1;
    }
    assert!(count > 0, "{} is empty", folder.display());
}

#[test]
fn the_frames_corpus_holds() {
    replay("frames", virtlab_wire::fuzzing::frames);
}

#[test]
fn the_blocks_corpus_holds() {
    replay("blocks", virtlab_wire::fuzzing::blocks);
}

#[test]
fn the_lines_corpus_holds() {
    replay("lines", virtlab_wire::fuzzing::lines);
}
