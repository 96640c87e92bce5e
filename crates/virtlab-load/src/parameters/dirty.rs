//! `dirty`: memory that is written to at a rate, page after page.

use super::{OutOfRange, Role, positive};
use crate::pages::PAGE_BYTES;
use serde::Deserialize;

/// As a Plan calls it.
pub const NAME: &str = "dirty";

/// What a role says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dirty {
    /// Of pages written, as bytes; 0: none is.
    pub rate_byte_per_s: u64,
    /// Memory that is written to.
    pub working_set_bytes: u64,
}

impl Role for Dirty {
    const NAME: &str = NAME;
}

impl Dirty {
    /// # Errors
    /// The first parameter that no end could play.
    pub fn check(&self) -> Result<(), OutOfRange> {
        positive("working_set_bytes", self.working_set_bytes)?;
        if !self.working_set_bytes.is_multiple_of(PAGE_BYTES) {
            return Err(OutOfRange::new("working_set_bytes", "must be a whole number of pages of 4096 B"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::of;
    use super::*;

    #[test]
    fn a_working_set_is_whole_pages() {
        let said = |bytes: u64| {
            let own: Dirty =
                of(&format!(r#"{{"rate_byte_per_s": 0, "working_set_bytes": {bytes}}}"#)).unwrap();
            own.check().map_err(|error| error.to_string())
        };
        assert_eq!(said(8192), Ok(()));
        assert_eq!(said(0).unwrap_err(), "working_set_bytes must be above 0");
        assert_eq!(said(4097).unwrap_err(), "working_set_bytes must be a whole number of pages of 4096 B");
    }
}
