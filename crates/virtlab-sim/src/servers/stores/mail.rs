//! What peers have said and what has yet to come, where it goes without packets.

use crate::post::{Arrival, Passage};
use crate::transfers::Load;
use std::collections::VecDeque;
use virtlab_store::{Found, Message};

/// From whom to whom: of the world's stores, and of its peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pair {
    pub store: usize,
    pub from: usize,
    pub to: usize,
}

/// Where a message is.
#[derive(Clone, Copy, Debug)]
pub struct Transit {
    pub pair: Pair,
    /// Which connection of the two it belongs to.
    pub connection: u32,
    pub way: usize,
    pub passage: Passage,
    /// Octets of it that have yet to be sent over the connection; none of a datagram.
    pub left_bytes: Option<u64>,
    /// Whether all of it has crossed its lines, and it comes next.
    pub comes: bool,
}

/// A message on its way.
pub struct Letter {
    pub transit: Transit,
    pub message: Message,
}

/// What one peer has said to all.
pub struct Call {
    pub store: usize,
    pub from: usize,
    pub flood: usize,
    pub message: Message,
    pub load: Load,
    /// What happens to it, the first last.
    pub arrivals: Vec<Arrival>,
}

/// What a node answers to a question to all.
pub struct Reply {
    pub peer: usize,
    pub found: Found,
}

/// One of them.
pub enum Item {
    Letter(Letter),
    Call(Call),
}

/// What one peer says to another over their connection, one message behind the other.
#[derive(Default)]
pub struct Stream {
    /// Which of all that the two have had.
    pub connection: u32,
    /// Whether parts of one have yet to go.
    pub busy: bool,
    /// What has yet to go.
    pub waiting: VecDeque<Message>,
}

/// All that is under way.
#[derive(Default)]
pub struct Mail {
    items: Vec<Option<Item>>,
    vacant: Vec<usize>,
    /// By store, peer that speaks and peer that hears.
    streams: Vec<Vec<Vec<Stream>>>,
    /// Lists that nothing is in, to be used again.
    lists: Vec<Vec<Arrival>>,
    /// What nodes answer at one instant to a question to all.
    pub replies: Vec<Reply>,
}

impl Mail {
    /// Something is under way; its place.
    pub fn put(&mut self, item: Item) -> usize {
        match self.vacant.pop() {
            Some(place) => {
                self.items[place] = Some(item);
                place
            }
            None => {
                self.items.push(Some(item));
                self.items.len() - 1
            }
        }
    }

    /// What is at a place.
    #[inline]
    pub fn at(&mut self, place: usize) -> Option<&mut Item> {
        self.items[place].as_mut()
    }

    /// Something is under way no longer.
    pub fn take(&mut self, place: usize) -> Option<Item> {
        self.vacant.push(place);
        self.items[place].take()
    }

    /// An empty list.
    pub fn list(&mut self) -> Vec<Arrival> {
        self.lists.pop().unwrap_or_default()
    }

    /// A list that is empty again.
    pub fn give_list(&mut self, list: Vec<Arrival>) {
        self.lists.push(list);
    }

    /// Peers of a store, so many, speak to each other.
    pub fn connect(&mut self, store: usize, peers: usize) {
        let of_one = || (0..peers).map(|_| Stream::default()).collect();
        self.streams.resize_with(self.streams.len().max(store + 1), Vec::new);
        self.streams[store] = (0..peers).map(|_| of_one()).collect();
    }

    /// What one says to another; nothing is left of a connection that they had before.
    #[inline]
    pub fn stream(&mut self, pair: Pair, connection: u32) -> &mut Stream {
        let stream = &mut self.streams[pair.store][pair.from][pair.to];
        if stream.connection != connection {
            *stream = Stream { connection, ..Stream::default() };
        }
        stream
    }
}
