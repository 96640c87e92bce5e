//! Shares of operations, which need not have any sum.

use crate::folder::Deed;

/// What a client does, by shares.
#[derive(Clone, Debug)]
pub struct Mix {
    /// Each with the sum of shares up to it.
    deeds: Vec<(f64, Deed)>,
}

impl Mix {
    /// Of operations by their names, as files have them.
    ///
    /// # Errors
    /// The name that is no operation; or that nothing has a share.
    pub fn of<'a>(shares: impl IntoIterator<Item = (&'a str, f64)>) -> Result<Self, String> {
        let mut sum = 0.0;
        let mut deeds = Vec::new();
        for (name, share) in shares {
            let deed = match name {
                "create" => Deed::Create,
                "read" => Deed::Read,
                "overwrite" => Deed::Overwrite,
                "delete" => Deed::Delete,
                "stat" => Deed::Stat,
                "open" => Deed::Open,
                "list" => Deed::List,
                other => return Err(format!("there is no operation '{other}'")),
            };
            if share.is_finite() && share > 0.0 {
                sum += share;
                deeds.push((sum, deed));
            }
        }
        if deeds.is_empty() { Err("it asks for nothing".to_owned()) } else { Ok(Self { deeds }) }
    }

    /// The one of a number from 0 to 1.
    #[must_use]
    pub fn draw(&self, uniform: f64) -> Deed {
        let (all, last) = self.deeds.last().copied().unwrap_or((0.0, Deed::Create));
        self.deeds.iter().find(|(sum, _)| uniform * all < *sum).map_or(last, |(_, deed)| *deed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operation_has_its_share_and_names_are_known() {
        let mix = Mix::of([("create", 1.0), ("read", 3.0)]).unwrap();
        let drawn: Vec<Deed> = [0.0, 0.24, 0.26, 0.999].map(|uniform| mix.draw(uniform)).to_vec();
        assert_eq!(drawn, [Deed::Create, Deed::Create, Deed::Read, Deed::Read]);
        assert!(Mix::of([("creat", 1.0)]).is_err() && Mix::of([("read", 0.0)]).is_err());
    }
}
