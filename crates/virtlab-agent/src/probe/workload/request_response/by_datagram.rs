//! The client over UDP: what is due together leaves together, and of what comes each answer finds its request.
//!
//! The kernel says of no datagram whether it arrived, so a request without an answer is lost at its time-out. An answer
//! to any try of a request answers it; one to a request that has ended is counted apart, as late or as a duplicate.

use super::client::Asking;
use super::datagrams::{Came, Datagrams};
use super::exchange::read;
use super::message::Head;
use crate::probe::socket::{Trouble, trouble};
use anyhow::{Context, bail};
use virtlab_load::parameters::request_response::Ending;
use virtlab_system::clock;
use virtlab_wire::Nanos;

/// Where the socket has no room, it is tried again so much later.
const REST: Nanos = Nanos(50_000);

impl Asking<'_> {
    /// Requests leave; when the rest may, if the socket has no room for all of them.
    pub fn post(&mut self) -> anyhow::Result<Option<Nanos>> {
        let Some(Datagrams { fd, outbox, tries, .. }) = &mut self.sockets.datagrams else { return Ok(None) };
        let mut refused = false;
        while !outbox.is_empty() {
            let now = clock::raw();
            let (connections, ledger) = (&mut self.connections, &mut self.ledger);
            let sent = outbox.send(fd, |head| {
                ledger.counted.sent_bytes += u64::from(head.bytes);
                let connection = tries.place(head.number).map(|place| &mut connections[place]);
                let Some(connection) = connection else { return };
                let attempt = connection.attempt.as_mut().filter(|attempt| attempt.number == head.number);
                if let Some(attempt) = attempt.filter(|attempt| attempt.due.sent.is_none()) {
                    attempt.due.sent = Some(now);
                    ledger.pacing.record(now.since(attempt.due.intended.max(connection.free)));
                }
            });
            match sent.map_err(|error| (trouble(&error), error)) {
                Ok(()) => refused = false,
                Err((Trouble::Again | Trouble::NoRoom, _)) => return Ok(Some(now + REST)),
                // What an earlier one met is told once; there is no way for one that is refused again.
                Err((Trouble::Refused, _)) if !refused => refused = true,
                Err((Trouble::Refused, _)) => {
                    outbox.pass_over();
                    self.ledger.counted.send_errors += 1;
                }
                Err((Trouble::Fatal, error)) => return Err(error).context("cannot send"),
            }
        }
        Ok(None)
    }

    /// Takes the answers that have come.
    pub fn collect(&mut self) -> anyhow::Result<()> {
        let mut heads = Vec::new();
        loop {
            let Some(Datagrams { fd, inbox, .. }) = &mut self.sockets.datagrams else { return Ok(()) };
            let more = inbox.receive(fd, |came| match came {
                Came::Whole(head, _) => {
                    heads.push(head);
                    Ok(())
                }
                Came::Garbled => {
                    bail!("what came is no message of this protocol: the server answers otherwise")
                }
            })?;
            let now = clock::raw();
            for head in heads.drain(..) {
                self.came(head, now)?;
            }
            if !more {
                return Ok(());
            }
        }
    }

    fn came(&mut self, head: Head, now: Nanos) -> anyhow::Result<()> {
        self.ledger.counted.received_bytes += u64::from(head.bytes);
        let own = &self.client.parameters;
        let Some(Datagrams { tries, .. }) = &mut self.sockets.datagrams else { return Ok(()) };
        let answer = read(head, tries.place(head.number).map(|_| head.number), own)?;
        let Some(place) = tries.place(head.number) else { return Ok(()) };
        let connection = &mut self.connections[place];
        if connection.attempt.is_some_and(|attempt| attempt.has_tried(head.number)) {
            self.answered(place, answer, now);
            return Ok(());
        }
        let again = connection.again.filter(|again| again.has_tried(head.number));
        match again.filter(|_| answer.ending == Ending::Answered) {
            // Before it was asked again; its place rests until then.
            Some(attempt) => {
                connection.again = None;
                self.retrying -= 1;
                self.ledger.counted.retries -= 1;
                self.ledger.answered(place, attempt.due, now, answer);
            }
            None => tries.astray(place, head.number),
        }
        Ok(())
    }
}
