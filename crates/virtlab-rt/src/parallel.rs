//! The same work on many items by several threads. What comes of it does not depend on how many there are.

use std::sync::{Mutex, PoisonError};
use std::thread;

/// What `work` makes of each item, in their order, by so many threads (0: one for each processor). Each thread has room
/// of its own, and takes the next item when it is done with one.
///
/// # Errors
/// One of those that `work` has; no item is begun after it.
pub fn each<I, R, T, E>(
    threads: usize,
    items: I,
    work: impl Fn(I::Item, &mut R) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E>
where
    I: Iterator + Send,
    R: Default,
    T: Send,
    E: Send,
{
    if threads == 1 {
        let mut room = R::default();
        return items.map(|item| work(item, &mut room)).collect();
    }
    let wanted = match threads {
        0 => thread::available_parallelism().map_or(1, usize::from),
        asked => asked,
    };
    let threads = items.size_hint().1.map_or(wanted, |most| wanted.min(most));
    let left = Mutex::new(Some(items.enumerate()));
    let worker = || {
        let (mut room, mut made) = (R::default(), Vec::new());
        loop {
            let next = left.lock().unwrap_or_else(PoisonError::into_inner).as_mut().and_then(Iterator::next);
            let Some((place, item)) = next else { return made };
            let one = work(item, &mut room);
            if one.is_err() {
                *left.lock().unwrap_or_else(PoisonError::into_inner) = None;
            }
            made.push((place, one));
        }
    };
    let mut made: Vec<_> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        let joined = workers
            .into_iter()
            .map(|one| one.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        joined.flatten().collect()
    });
    made.sort_unstable_by_key(|(place, _)| *place);
    made.into_iter().map(|(_, one)| one).collect()
}

#[cfg(test)]
mod tests {
    use super::each;

    #[test]
    fn results_are_in_the_order_of_items_however_many_threads_there_are() {
        for threads in [0, 1, 2, 7] {
            let found = each(threads, 0..1000, |item: usize, seen: &mut usize| {
                *seen += 1;
                if item.is_multiple_of(97) {
                    std::thread::yield_now();
                }
                Ok::<_, ()>(item * item)
            });
            assert_eq!(found, Ok((0..1000).map(|item| item * item).collect()));
        }
    }

    #[test]
    fn room_is_kept_from_item_to_item_of_a_thread() {
        let found = each(3, 0..100, |_, seen: &mut usize| {
            *seen += 1;
            Ok::<_, ()>(*seen)
        });
        let seen = found.expect("nothing fails");
        let threads = seen.iter().filter(|seen| **seen == 1).count();
        assert!((1..=3).contains(&threads));
        assert!(seen.iter().max() >= Some(&34), "one of three did a third at least");
    }

    #[test]
    fn an_error_ends_it() {
        for threads in [1, 4] {
            let found = each(
                threads,
                0..1_000_000_000_usize,
                |item, (): &mut ()| {
                    if item == 5 { Err("five") } else { Ok(()) }
                },
            );
            assert_eq!(found, Err("five"));
        }
    }

    #[test]
    fn parts_of_a_slice_are_filled() {
        let mut out = vec![0; 1001];
        let parts = each(4, out.chunks_mut(10).enumerate(), |(number, part), (): &mut ()| {
            part.fill(number + 1);
            Ok::<_, ()>(())
        });
        assert_eq!(parts.map(|each| each.len()), Ok(101));
        assert!(out.iter().enumerate().all(|(place, value)| *value == place / 10 + 1));
    }
}
