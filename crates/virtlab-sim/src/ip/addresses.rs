//! Addresses as small numbers: what a packet carries is four bytes, whichever IP version it is of.
//!
//! The first bit of a number says the version, so that the length of a header needs no look-up.

use core::net::IpAddr;
use std::collections::BTreeMap;
use virtlab_load::size::IpVersion;

/// An address that this world knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Number(u32);

const V6: u32 = 1 << 31;

impl Number {
    /// The version of its packets.
    pub const fn version(self) -> IpVersion {
        if self.0 & V6 == 0 { IpVersion::V4 } else { IpVersion::V6 }
    }

    /// As the bits that [`Number::of_bits`] takes.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// What [`Number::bits`] gave.
    pub const fn of_bits(bits: u32) -> Self {
        Self(bits)
    }

    const fn place(self) -> usize {
        (self.0 & !V6) as usize
    }
}

/// All addresses of a world.
#[derive(Clone, Debug, Default)]
pub struct Book {
    all: Vec<IpAddr>,
    numbers: BTreeMap<IpAddr, Number>,
}

impl Book {
    /// The number of an address, a new one when it has none yet.
    pub fn number(&mut self, address: IpAddr) -> Number {
        *self.numbers.entry(address).or_insert_with(|| {
            let place = u32::try_from(self.all.len()).expect("a world has few addresses");
            self.all.push(address);
            Number(place | if address.is_ipv6() { V6 } else { 0 })
        })
    }

    /// The number of an address that has one.
    pub fn find(&self, address: IpAddr) -> Option<Number> {
        self.numbers.get(&address).copied()
    }

    /// The address of a number that this book gave.
    pub fn address(&self, number: Number) -> IpAddr {
        self.all[number.place()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_one_number_that_tells_its_version() {
        let mut book = Book::default();
        let (four, six) = ("10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap());
        let numbers = [book.number(four), book.number(six), book.number(four)];
        assert_eq!(numbers[0], numbers[2]);
        assert_eq!([numbers[0], numbers[1]].map(Number::version), [IpVersion::V4, IpVersion::V6]);
        assert_eq!([numbers[0], numbers[1]].map(|number| book.address(number)), [four, six]);
        assert_eq!(Number::of_bits(numbers[1].bits()), numbers[1]);
    }
}
