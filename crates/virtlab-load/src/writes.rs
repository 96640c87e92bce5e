//! Where a server writes on the disk of its guest, and in which requests: the same on both arms.

use virtlab_disk::{SECTOR_BYTES, whole_sectors};

/// One request asks for no more, so that a kernel passes it on as one.
pub const PIECE_BYTES: u64 = 256 << 10;
/// Of what a server overwrites, over and over.
pub const MOST_BYTES: u64 = 64 << 20;

/// Places of writes, one after another, from the beginning again at the end.
#[derive(Clone, Copy, Debug)]
pub struct Places {
    end: u64,
    next: u64,
    sector: u64,
}

impl Places {
    /// In a file of a file system of that size; longer than its bound only for a single write.
    #[must_use]
    pub fn in_file(size_bytes: u64) -> Self {
        Self { end: size_bytes.min(MOST_BYTES), next: 0, sector: 1 }
    }

    /// On a disk of that size, in whole sectors.
    #[must_use]
    pub fn on_disk(size_bytes: u64) -> Self {
        Self { end: size_bytes.min(MOST_BYTES), next: 0, sector: SECTOR_BYTES }
    }

    /// Whether they are on a disk.
    #[must_use]
    pub const fn are_on_disk(&self) -> bool {
        self.sector > 1
    }

    /// Where the next write begins, of so many bytes.
    pub fn next(&mut self, bytes: u64) -> u64 {
        let length = bytes.div_ceil(self.sector) * self.sector;
        if self.next + length > self.end {
            self.next = 0;
        }
        self.next += length;
        self.next - length
    }
}

/// The requests of a write at a place: offset and bytes of each, in whole sectors.
pub fn pieces(offset: u64, bytes: u64) -> impl Iterator<Item = (u64, u64)> {
    let length = whole_sectors(bytes);
    (0..length.div_ceil(PIECE_BYTES)).map(move |piece| {
        let begin = piece * PIECE_BYTES;
        (offset + begin, PIECE_BYTES.min(length - begin))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_follow_each_other_and_begin_again_at_the_end() {
        let mut places = Places::on_disk(2048);
        assert_eq!([600, 600, 512, 1].map(|bytes| places.next(bytes)), [0, 1024, 0, 512]);
        let mut file = Places::in_file(u64::MAX);
        assert_eq!([10, 10, MOST_BYTES, 1, MOST_BYTES + 5].map(|bytes| file.next(bytes)), [0, 10, 0, 0, 0]);
        let mut small = Places::in_file(25);
        assert_eq!([10, 10, 10].map(|bytes| small.next(bytes)), [0, 10, 0]);
    }

    #[test]
    fn a_long_write_is_in_pieces() {
        let of = |bytes| pieces(512, bytes).collect::<Vec<_>>();
        assert_eq!(of(1), [(512, 512)]);
        assert_eq!(of(PIECE_BYTES), [(512, PIECE_BYTES)]);
        assert_eq!(of(PIECE_BYTES + 1), [(512, PIECE_BYTES), (512 + PIECE_BYTES, 512)]);
    }
}
