//! The kept fuzzing corpora of requests and of messages of a store, as they are and damaged: what was found once stays
//! mended.

use std::fs;
use std::path::Path;
use virtlab_agent::fuzzing::{messages, requests};

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

/// Of numbers in a head: none of them moves what follows.
const NUMBERS: [&[u8]; 8] = [
    &[0],
    &[1],
    &[7],
    &[0xff],
    &[0xff; 4],
    &[0xff; 8],
    &[0; 8],
    &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
];

/// Of each kept seed, how many of its messages are heard: another format of messages needs other seeds, too.
const HEARD: [(&str, usize); 13] = [
    ("another-peer", 1),
    ("asked", 5),
    ("audited", 2),
    ("found", 7),
    ("half", 0),
    ("kept", 13),
    ("last-attempt", 4),
    ("last-version", 5),
    ("leads", 9),
    ("led", 5),
    ("listed", 11),
    ("no-message", 0),
    ("too-long", 0),
];

fn corpus(name: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
    let entries = fs::read_dir(&folder).expect("the corpus is part of the sources");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("it can be listed").path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{} is empty", folder.display());
    let named = |path: &Path| path.file_name().expect("it has a name").to_string_lossy().into_owned();
    paths.iter().map(|path| (named(path), fs::read(path).expect("it can be read"))).collect()
}

/// SplitMix64 (Steele, Lea, Flood 2014).
fn next(state: &mut u64) -> usize {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 31)) as usize
}

#[test]
fn the_corpora_hold() {
    corpus("requests").iter().for_each(|(_, bytes)| requests(bytes));
    let messages = corpus("messages").into_iter().map(|(name, bytes)| (name, messages(&bytes)));
    assert_eq!(messages.collect::<Vec<_>>(), HEARD.map(|(name, heard)| (name.to_owned(), heard)));
}

#[test]
fn damaged_requests_are_refused_and_not_stumbled_over() {
    let kept = corpus("requests");
    let mut state = 21;
    for _ in 0..DAMAGED_EACH {
        for (_, bytes) in &kept {
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

#[test]
fn no_damaged_message_ends_a_node_a_proxy_or_a_client() {
    let kept = corpus("messages");
    let mut state = 21;
    for _ in 0..DAMAGED_EACH {
        for (_, bytes) in &kept {
            let mut damaged = bytes.clone();
            (damaged[0], damaged[1]) = (next(&mut state) as u8, next(&mut state) as u8);
            for _ in 0..=next(&mut state) % 4 {
                let number = NUMBERS[next(&mut state) % NUMBERS.len()];
                let at = next(&mut state) % (damaged.len() - number.len());
                damaged[at..at + number.len()].copy_from_slice(number);
            }
            messages(&damaged);
        }
    }
}
