//! Content of objects that describes itself: it begins with key, number of the content and length, as far as there is
//! room, and every word follows from all three. So swapped, stale, short, damaged and deduplicated content is seen by a
//! client that knows what it wrote.

use virtlab_store::Key;

const WORDS: usize = 512;
const WORD: usize = size_of::<u64>();
/// Words that are compared one by one: what describes the content, and so many that those behind are aligned.
const HEAD_WORDS: usize = 4;

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

/// Of an object's content: what its words are mixed with in each block of the table, and its first words.
struct Form {
    seed: u64,
    head: [u64; 3],
}

impl Form {
    fn of(key: Key, content: u64, bytes: usize) -> Self {
        let bytes = bytes as u64;
        Self { seed: key.mixed(content) ^ bytes, head: [key.0, content, bytes] }
    }

    fn of_block(&self, number: usize) -> u64 {
        Key(self.seed).mixed(number as u64)
    }

    /// Of the block of that number, which is mixed with `own`.
    fn word(&self, number: usize, own: u64, place: usize) -> u64 {
        match self.head.get(place) {
            Some(word) if number == 0 => *word,
            _ => TABLE[place % WORDS] ^ own,
        }
    }
}

/// The content of that number of an object.
pub fn make(key: Key, content: u64, bytes: u64) -> Vec<u8> {
    let mut made = vec![0; bytes as usize];
    fill(key, content, &mut made);
    made
}

/// The same into memory of its length.
pub fn fill(key: Key, content: u64, made: &mut [u8]) {
    let form = Form::of(key, content, made.len());
    for (number, block) in made.chunks_mut(WORDS * WORD).enumerate() {
        let own = form.of_block(number);
        let (whole, rest) = block.as_chunks_mut::<WORD>();
        wide::mix(whole, &TABLE, own);
        let last = form.word(number, own, whole.len());
        rest.copy_from_slice(&last.to_le_bytes()[..rest.len()]);
    }
    for (octets, word) in made.as_chunks_mut::<WORD>().0.iter_mut().zip(form.head) {
        *octets = word.to_le_bytes();
    }
}

/// Whether these octets are the content of that number of an object.
pub fn is_content(key: Key, content: u64, octets: &[u8]) -> bool {
    let form = Form::of(key, content, octets.len());
    octets.chunks(WORDS * WORD).enumerate().all(|(number, block)| {
        let own = form.of_block(number);
        let (whole, rest) = block.as_chunks::<WORD>();
        let first = if number == 0 { HEAD_WORDS.min(whole.len()) } else { 0 };
        let mut head = whole[..first].iter().enumerate();
        let last = form.word(number, own, whole.len()).to_le_bytes();
        head.all(|(place, octets)| u64::from_le_bytes(*octets) == form.word(number, own, place))
            && wide::difference(&whole[first..], &TABLE[first..], own) == 0
            && (rest.is_empty() || *rest == last[..rest.len()])
    })
}

/// Several words at a time, over slices and without a branch, by the widest registers of this processor.
mod wide {
    use super::WORD;

    #[inline(always)]
    fn mixed(words: &mut [[u8; WORD]], table: &[u64], own: u64) {
        for (octets, word) in words.iter_mut().zip(table) {
            *octets = (word ^ own).to_le_bytes();
        }
    }

    #[inline(always)]
    fn differing(words: &[[u8; WORD]], table: &[u64], own: u64) -> u64 {
        let differs = |octets: &[u8; WORD], word: &u64| u64::from_le_bytes(*octets) ^ word ^ own;
        words.iter().zip(table).fold(0, |all, (octets, word)| all | differs(octets, word))
    }

    #[cfg(target_arch = "x86_64")]
    mod avx2 {
        use super::WORD;

        #[target_feature(enable = "avx2")]
        pub fn mixed(words: &mut [[u8; WORD]], table: &[u64], own: u64) {
            super::mixed(words, table, own);
        }

        #[target_feature(enable = "avx2")]
        pub fn differing(words: &[[u8; WORD]], table: &[u64], own: u64) -> u64 {
            super::differing(words, table, own)
        }
    }

    /// Makes words of those of the table.
    pub fn mix(words: &mut [[u8; WORD]], table: &[u64], own: u64) {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: this processor has AVX2.
            return unsafe { avx2::mixed(words, table, own) };
        }
        mixed(words, table, own);
    }

    /// Bits in which words differ from those that are made so; 0: in none.
    pub fn difference(words: &[[u8; WORD]], table: &[u64], own: u64) -> u64 {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: this processor has AVX2.
            return unsafe { avx2::differing(words, table, own) };
        }
        differing(words, table, own)
    }
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

    #[test]
    fn each_octet_counts_at_every_length() {
        for bytes in (0..80).chain(4088..4106).chain(8190..8194) {
            let good = make(Key(5), 9, bytes);
            assert!(is_content(Key(5), 9, &good), "{bytes}");
            for at in 0..good.len() {
                let mut damaged = good.clone();
                damaged[at] ^= 128;
                assert!(!is_content(Key(5), 9, &damaged), "{bytes}: at {at}");
            }
        }
    }
}
