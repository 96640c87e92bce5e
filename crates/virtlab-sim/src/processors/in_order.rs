//! Work that is served in the order in which it comes, by the processor that is free first, within the quota of its
//! guest.
//!
//! Its end is known as it begins, so it is no event: trains of frames rest on that. It is what processes do to send and
//! to receive, which is far shorter than a slice.

use super::Bandwidth;

/// Processors, and until when each is busy.
#[derive(Debug)]
pub struct InOrder {
    free_ns: Vec<u64>,
    /// By guest; absent: as much as it needs.
    bandwidths: Vec<Option<Bandwidth>>,
    /// By guest: until when it works off what had to wait for a period to begin.
    resumed_ns: Vec<u64>,
}

impl InOrder {
    /// So many processors, one at least, all free; what each guest has of them.
    #[must_use]
    pub fn new(processors: usize, bandwidths: Vec<Option<Bandwidth>>) -> Self {
        Self { free_ns: vec![0; processors.max(1)], resumed_ns: vec![0; bandwidths.len()], bandwidths }
    }

    /// Whether a guest may do some work now, and is held to it; else when it may.
    ///
    /// # Errors
    /// When its period's quota is used up: with the instant at which the next begins.
    pub fn may_run(&mut self, now_ns: u64, guest: usize, work_ns: u64) -> Result<(), u64> {
        let Some(bandwidth) = self.bandwidths[guest].as_mut() else { return Ok(()) };
        let at_ns = bandwidth.runnable_ns(now_ns);
        if at_ns > now_ns {
            return Err(at_ns);
        }
        bandwidth.charge(work_ns);
        Ok(())
    }

    /// Whether no processor is free.
    #[must_use]
    pub fn all_busy(&self, now_ns: u64) -> bool {
        self.free_ns.iter().all(|free_ns| *free_ns > now_ns)
    }

    /// On the processor that is free first, done not before `from_ns` and the work. What a processor has to do
    /// counts from when it was requested: a wake-up that is still to come keeps no other waiting, and two that come
    /// at once may overlap. Nor does the work of a guest that is throttled until its next period: it is done from
    /// when that begins, one piece after the other.
    ///
    /// # Panics
    /// Never: there is at least one processor.
    #[inline]
    pub fn work(&mut self, guest: Option<usize>, now_ns: u64, from_ns: u64, work_ns: u64) -> u64 {
        if work_ns == 0 {
            return from_ns;
        }
        let free = self.free_ns.iter_mut().min().expect("there is at least one processor");
        if let Some(guest) = guest
            && let Some(bandwidth) = self.bandwidths[guest].as_mut()
        {
            let begin_ns = now_ns.max(*free);
            let resumed_ns = &mut self.resumed_ns[guest];
            let runnable_ns = bandwidth.runnable_ns(begin_ns).max(*resumed_ns);
            bandwidth.charge(work_ns);
            if runnable_ns > begin_ns {
                *resumed_ns = runnable_ns + work_ns;
                return (*resumed_ns).max(from_ns + work_ns);
            }
        }
        *free = now_ns.max(*free) + work_ns;
        (*free).max(from_ns + work_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::processors::Quota;

    #[test]
    fn work_begins_on_the_processor_that_is_free_first() {
        let mut two = InOrder::new(2, Vec::new());
        assert_eq!([30, 10, 10, 10].map(|work_ns| two.work(None, 0, 0, work_ns)), [30, 10, 20, 30]);
        assert!(two.all_busy(29) && !two.all_busy(30));
        assert_eq!(two.work(None, 5, 50, 10), 60, "what is woken later ends later");
    }

    #[test]
    fn a_guest_that_is_held_back_keeps_no_processor_from_others() {
        let half = Bandwidth::new(Quota { quota_ns: 50, period_ns: 100 }, 0.0);
        let mut one = InOrder::new(1, vec![Some(half), None]);
        assert_eq!((one.work(Some(0), 0, 0, 50), one.work(Some(0), 50, 50, 10)), (50, 110));
        assert_eq!(one.work(Some(1), 50, 50, 20), 70);
        assert_eq!((one.may_run(60, 0, 1), one.may_run(60, 1, 1)), (Err(100), Ok(())));
    }
}
