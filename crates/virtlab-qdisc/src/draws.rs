//! The random stream of a discipline that draws: SplitMix64 (Steele, Lea and Flood, OOPSLA 2014), of a seed that is
//! given.

/// Draws one after the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draws(pub u64);

impl Draws {
    /// 64 random bits.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let value = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    }
}
