//! The kept fuzzing corpus of requests, as it is and damaged: what was found once stays mended.

use std::fs;
use std::path::Path;
use virtlab_agent::fuzzing::requests;

const DAMAGED_EACH: u64 = 2000;
const WORDS: [&[u8]; 14] = [
    b"null",
    b"-1",
    b"18446744073709551616",
    b"1e999",
    b"[",
    b"{",
    b"\"",
    b"\\ud800",
    b"\x00",
    b"\xff",
    b"65536",
    b"\"do\"",
    b"VLAB",
    b"",
];

fn corpus() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/requests");
    let entries = fs::read_dir(&folder).expect("the corpus is part of the sources");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("it can be listed").path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{} is empty", folder.display());
    paths.iter().map(|path| fs::read(path).expect("it can be read")).collect()
}

/// SplitMix64 (Steele, Lea, Flood 2014).
fn next(state: &mut u64) -> usize {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 31)) as usize
}

#[test]
fn the_corpus_of_requests_holds() {
    corpus().iter().for_each(|bytes| requests(bytes));
}

#[test]
fn damaged_requests_are_refused_and_not_stumbled_over() {
    let kept = corpus();
    let mut state = 21;
    for _ in 0..DAMAGED_EACH {
        for bytes in &kept {
            let mut damaged = bytes.clone();
            for _ in 0..=next(&mut state) % 3 {
                let at = next(&mut state) % (damaged.len() + 1);
                let past = (at + next(&mut state) % 12).min(damaged.len());
                let word = WORDS[next(&mut state) % WORDS.len()];
                damaged.splice(at..past, word.iter().copied());
            }
            requests(&damaged);
        }
    }
}
