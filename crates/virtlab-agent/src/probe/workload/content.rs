//! Content of objects that describes itself: it begins with key, number of the content and length, as far as there is room,
//! and every word follows from all three. So swapped, stale, short, damaged and deduplicated content is seen by a
//! client that knows what it wrote.

use virtlab_store::Key;

const WORDS: usize = 512;

/// Words without a pattern, made once: those of splitmix64 (S. Vigna).
const TABLE: [u64; WORDS] = {
    let mut table = [0; WORDS];
    let mut at = 0;
    while at < WORDS {
        table[at] = Key(at as u64).mixed(0x7669_7274_6c61_6221);
        at += 1;
    }
    table
};

/// All words of a block of the table, for an object of that seed.
fn block(seed: u64, number: u64) -> [u64; WORDS] {
    let own = Key(seed).mixed(number);
    let mut words = TABLE;
    for word in &mut words {
        *word ^= own;
    }
    words
}

fn each(key: Key, content: u64, bytes: usize, mut piece: impl FnMut(usize, &[u8]) -> bool) -> bool {
    let seed = key.mixed(content) ^ bytes as u64;
    let size = WORDS * 8;
    for (number, from) in (0..bytes).step_by(size).enumerate() {
        let mut words = block(seed, number as u64);
        if number == 0 {
            words[..3].copy_from_slice(&[key.0, content, bytes as u64]);
        }
        let octets = words.map(u64::to_le_bytes);
        let octets = octets.as_flattened();
        if !piece(from, &octets[..size.min(bytes - from)]) {
            return false;
        }
    }
    true
}

/// The content of that number of an object.
pub fn make(key: Key, content: u64, bytes: u64) -> Vec<u8> {
    let mut made = vec![0; bytes as usize];
    fill(key, content, &mut made);
    made
}

/// The same into memory of its length.
pub fn fill(key: Key, content: u64, made: &mut [u8]) {
    each(key, content, made.len(), |from, piece| {
        made[from..from + piece.len()].copy_from_slice(piece);
        true
    });
}

/// Whether these octets are the content of that number of an object.
pub fn is_content(key: Key, content: u64, octets: &[u8]) -> bool {
    each(key, content, octets.len(), |from, piece| octets[from..from + piece.len()] == *piece)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_swapped_stale_and_short_content_is_seen() {
        for bytes in [1, 7, 24, 4096, 4097, 10_000] {
            let good = make(Key(5), 9, bytes);
            assert_eq!(good.len() as u64, bytes);
            assert!(is_content(Key(5), 9, &good));
            assert!(!is_content(Key(6), 9, &good) || bytes == 1, "{bytes}: of another object");
            assert!(!is_content(Key(5), 8, &good) || bytes < 9, "{bytes}: of another write");
            for at in [0, good.len() / 2, good.len() - 1] {
                let mut damaged = good.clone();
                damaged[at] ^= 16;
                assert!(!is_content(Key(5), 9, &damaged), "{bytes}: one bit at {at}");
            }
            assert!(bytes < 24 || !is_content(Key(5), 9, &good[..good.len() - 1]), "{bytes}: short");
        }
        assert_eq!(make(Key(5), 9, 30)[..16], [5u64.to_le_bytes(), 9u64.to_le_bytes()].concat());
    }
}
