//! Whose turn it is: several flows with shares of one stream, from one sender.
//!
//! Flow f of F has the share s of all packets and its k-th packet stands at `(k + f/F) / s`, counted in packets of
//! the whole stream: every flow is evenly paced at its own rate, and flows of equal shares are spread evenly over a
//! period. Positions of all flows, sorted, are the order of sending; the position over the stream's rate is the
//! intended instant. Positions are computed from k itself, so a flow's count after any time is its rate times that
//! time, rounded, however long it runs. Equal shares give position n to packet n: flows take turns.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

/// Shares are taken as a sum of 1 when they miss it by less than this.
const SUM_TOLERANCE: f64 = 1e-6;

/// One packet's place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Turn {
    /// Which flow.
    pub flow: u16,
    /// 0, 1, 2, ... within the flow.
    pub seq: u64,
    /// Position, in packets of the whole stream.
    pub at: f64,
}

/// Why shares are invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShareError {
    /// No flow at all, or more than a number of a flow can tell.
    #[error("{0} flows; there are 1 to 65535")]
    Flows(usize),
    /// A share that is not above 0.
    #[error("share {0} of the rate is not above 0; leave the flow out")]
    NotPositive(usize),
    /// They do not sum to 1.
    #[error("the shares sum to {0}, not to 1")]
    Sum(String),
}

/// The order of sending.
#[derive(Clone, Debug)]
pub struct Split {
    flows: u16,
    /// Turns taken so far, of equal flows.
    turn: u64,
    /// The turns of unequal flows.
    unequal: Option<Unequal>,
    /// Which flows take turns here: every so many, from the first on.
    first: u16,
    stride: u16,
}

#[derive(Clone, Debug)]
struct Unequal {
    shares: Vec<f64>,
    /// (position as bits, which sort as positive numbers do; flow; seq)
    next: BinaryHeap<Reverse<(u64, u16, u64)>>,
}

impl Unequal {
    fn phase(&self, flow: usize) -> f64 {
        flow as f64 / self.shares.len() as f64
    }

    fn position(&self, flow: usize, seq: u64) -> f64 {
        (seq as f64 + self.phase(flow)) / self.shares[flow]
    }
}

impl Split {
    /// Equal flows.
    ///
    /// # Errors
    /// If it does not exist.
    pub fn even(flows: u16) -> Result<Self, ShareError> {
        if flows == 0 {
            return Err(ShareError::Flows(0));
        }
        Ok(Self { flows, turn: 0, unequal: None, first: 0, stride: 1 })
    }

    /// Flows by their shares, which sum to 1.
    ///
    /// # Errors
    /// When one is not above 0, or the sum is not 1.
    pub fn by_shares(shares: &[f64]) -> Result<Self, ShareError> {
        let flows = u16::try_from(shares.len())
            .ok()
            .filter(|&flows| flows > 0)
            .ok_or(ShareError::Flows(shares.len()))?;
        if let Some(place) = shares.iter().position(|&share| share.is_nan() || share <= 0.0) {
            return Err(ShareError::NotPositive(place));
        }
        let sum: f64 = shares.iter().sum();
        if (sum - 1.0).abs() > SUM_TOLERANCE {
            return Err(ShareError::Sum(sum.to_string()));
        }
        if shares.iter().all(|share| *share == shares[0]) {
            return Self::even(flows);
        }
        let mut unequal = Unequal {
            shares: shares.iter().map(|share| share / sum).collect(),
            next: BinaryHeap::with_capacity(shares.len()),
        };
        for flow in 0..shares.len() {
            let at = unequal.position(flow, 0);
            unequal.next.push(Reverse((at.to_bits(), flow as u16, 0)));
        }
        Ok(Self { flows, turn: 0, unequal: Some(unequal), first: 0, stride: 1 })
    }

    /// The flows `number`, `number + of`, `number + 2 of`, ... of a split that has begun nothing yet, each at its
    /// positions in the whole stream: `of` senders with a part each send what one would. Takes `number < of <=
    /// flows`.
    #[must_use]
    pub fn part(&self, number: u16, of: u16) -> Self {
        debug_assert!(self.stride == 1 && self.turn == 0 && number < of && of <= self.flows);
        let mut part = Self { first: number, stride: of, ..self.clone() };
        if let Some(unequal) = &mut part.unequal {
            unequal.next.retain(|&Reverse((_, flow, _))| flow % of == number);
        }
        part
    }

    /// Whether a flow takes turns here.
    fn has(&self, flow: usize) -> bool {
        flow % usize::from(self.stride) == usize::from(self.first)
    }

    /// How many flows.
    #[must_use]
    pub fn flows(&self) -> u16 {
        self.flows
    }

    /// The next packet.
    #[must_use]
    #[inline]
    pub fn peek(&self) -> Turn {
        let Some(unequal) = &self.unequal else {
            let (flows, stride) = (u64::from(self.flows), u64::from(self.stride));
            let own = (flows - u64::from(self.first)).div_ceil(stride);
            let (flow, seq) = (u64::from(self.first) + stride * (self.turn % own), self.turn / own);
            return Turn { flow: flow as u16, seq, at: (seq * flows + flow) as f64 };
        };
        let Some(&Reverse((at, flow, seq))) = unequal.next.peek() else {
            unreachable!("every flow always has a next packet")
        };
        Turn { flow, seq, at: f64::from_bits(at) }
    }

    /// Goes on to the one after it.
    #[inline]
    pub fn advance(&mut self) {
        self.turn += 1;
        let Some(unequal) = &mut self.unequal else { return };
        let (shares, count) = (&unequal.shares, unequal.shares.len() as f64);
        if let Some(mut top) = unequal.next.peek_mut() {
            let Reverse((at, flow, seq)) = &mut *top;
            *seq += 1;
            let place = usize::from(*flow);
            *at = ((*seq as f64 + place as f64 / count) / shares[place]).to_bits();
            drop::<PeekMut<'_, _>>(top);
        }
    }

    /// Packets of each flow at positions below `at`; none of flows that take no turns here.
    #[must_use]
    pub fn before(&self, at: f64) -> Vec<u64> {
        let Some(unequal) = &self.unequal else {
            let (total, flows) = (at.max(0.0).ceil() as u64, u64::from(self.flows));
            let below = |flow: u64| total / flows + u64::from(flow < total % flows);
            return (0..flows).map(|flow| if self.has(flow as usize) { below(flow) } else { 0 }).collect();
        };
        (0..unequal.shares.len())
            .map(|flow| {
                if !self.has(flow) {
                    return 0;
                }
                // Rounding may be off by one; the positions themselves decide.
                let mut count = (at * unequal.shares[flow] - unequal.phase(flow)).max(0.0).ceil() as u64;
                while count > 0 && unequal.position(flow, count - 1) >= at {
                    count -= 1;
                }
                while unequal.position(flow, count) < at {
                    count += 1;
                }
                count
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn turns(split: &mut Split, count: usize) -> Vec<Turn> {
        (0..count)
            .map(|_| {
                let turn = split.peek();
                split.advance();
                turn
            })
            .collect()
    }

    #[test]
    fn equal_flows_take_turns() {
        let mut split = Split::by_shares(&[1.0 / 3.0; 3]).unwrap();
        let seen: Vec<_> = turns(&mut split, 7).iter().map(|turn| (turn.flow, turn.seq)).collect();
        assert_eq!(seen, [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1), (0, 2)]);
    }

    #[test]
    fn three_quarters_and_a_quarter_go_three_to_one_and_evenly() {
        let mut split = Split::by_shares(&[0.75, 0.25]).unwrap();
        let seen = turns(&mut split, 8);
        assert_eq!(
            seen.iter().filter(|turn| turn.flow == 1).map(|turn| turn.at).collect::<Vec<_>>(),
            [2.0, 6.0]
        );
    }

    #[test]
    fn shares_that_are_none_are_refused() {
        assert_eq!(Split::by_shares(&[1.0, 0.0]).unwrap_err(), ShareError::NotPositive(1));
        assert!(matches!(Split::by_shares(&[0.5, 0.4]).unwrap_err(), ShareError::Sum(_)));
        assert_eq!(Split::by_shares(&[]).unwrap_err(), ShareError::Flows(0));
        assert!(Split::even(0).is_err());
    }

    proptest! {
        #[test]
        fn parts_together_send_what_the_whole_would(
            weights in prop::collection::vec(1u32..50, 2..9), equal: bool, of in 1u16..9, count in 1usize..500,
        ) {
            let sum: u32 = weights.iter().sum();
            let shares: Vec<f64> = weights.iter().map(|&weight| f64::from(weight) / f64::from(sum)).collect();
            let flows = weights.len() as u16;
            let whole = if equal { Split::even(flows) } else { Split::by_shares(&shares) }.unwrap();
            let of = of.min(flows);
            let key = |turn: &Turn| (turn.at.to_bits(), turn.flow, turn.seq);
            let expected: Vec<_> = turns(&mut whole.clone(), count).iter().map(key).collect();
            let end = f64::from_bits(expected[count - 1].0);
            let mut seen: Vec<_> = (0..of)
                .flat_map(|number| turns(&mut whole.part(number, of), count))
                .filter(|turn| turn.at <= end)
                .map(|turn| key(&turn))
                .collect();
            seen.sort_unstable();
            prop_assert_eq!(&seen[..count], &expected[..]);
            let sums = (0..of).map(|number| whole.part(number, of).before(end)).fold(vec![0; weights.len()], |sum, part| {
                sum.iter().zip(&part).map(|(a, b)| a + b).collect()
            });
            prop_assert_eq!(sums, whole.before(end));
        }

        #[test]
        fn each_flow_has_its_share_of_any_stretch_in_order_and_as_counted(
            weights in prop::collection::vec(1u32..1000, 1..20), count in 1usize..2000,
        ) {
            let sum: u32 = weights.iter().sum();
            let shares: Vec<f64> = weights.iter().map(|&weight| f64::from(weight) / f64::from(sum)).collect();
            let mut split = Split::by_shares(&shares).unwrap();
            let seen = turns(&mut split, count);
            let end = split.peek().at;
            prop_assert!(seen.windows(2).all(|pair| pair[0].at <= pair[1].at));
            for (flow, share) in shares.iter().enumerate() {
                let mine: Vec<&Turn> = seen.iter().filter(|turn| usize::from(turn.flow) == flow).collect();
                prop_assert!(mine.iter().enumerate().all(|(place, turn)| turn.seq == place as u64));
                prop_assert!(mine.windows(2).all(|pair| ((pair[1].at - pair[0].at) * share - 1.0).abs() < 1e-6));
                // Within one packet of the share of what the position says.
                prop_assert!((mine.len() as f64 - end * share).abs() <= 1.0 + 1e-6);
                let below = mine.iter().filter(|turn| turn.at < end).count() as u64;
                prop_assert_eq!(split.before(end)[flow], below);
            }
        }
    }
}
