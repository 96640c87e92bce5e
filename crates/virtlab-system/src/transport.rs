//! Frames over a file descriptor: a reader for one thread, a writer that threads share.

use anyhow::{Context, bail};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};
use virtlab_wire::frame::{Decoder, Frame, Kind, encode};

/// Of a reader's words that go into a refusal: it quotes what it read.
const LONGEST_WORDS: usize = 1000;

/// The request in a control frame, and its number.
///
/// # Errors
/// The number, as far as there is one, and why the rest is no request: nothing is understood by half.
pub fn understood<T: DeserializeOwned>(body: &[u8]) -> Result<(Value, T), (Value, String)> {
    let Ok(Value::Object(mut fields)) = serde_json::from_slice(body) else {
        return Err((Value::Null, "a control frame holds one JSON object".to_owned()));
    };
    let number = fields.remove("id").unwrap_or(Value::Null);
    match serde_json::from_value(Value::Object(fields)) {
        Ok(request) => Ok((number, request)),
        Err(error) => {
            let why: String = error.to_string().chars().take(LONGEST_WORDS).collect();
            Err((number, format!("the request is not understood: {why}")))
        }
    }
}

/// The answer to a request of that number. What it says is moved there: `json!` would copy it, as long as it may be.
#[must_use]
pub fn reply(number: Value, outcome: Result<Value, Value>) -> Value {
    let (name, content) = match outcome {
        Ok(answer) => ("ok", answer),
        Err(error) => ("error", error),
    };
    Value::Object([("re".to_owned(), number), (name.to_owned(), content)].into_iter().collect())
}

/// An error as the answer to a request names it.
#[must_use]
pub fn refusal(error: &anyhow::Error) -> Value {
    json!({"what": format!("{error:#}")})
}

/// The body of a control frame. As the words of a `Display` it would take twice the time: half of what an answer costs.
///
/// # Panics
/// Never: keys of a value are strings.
#[must_use]
pub fn body(message: &Value) -> Vec<u8> {
    serde_json::to_vec(message).expect("a value is JSON")
}

/// The receiving side of a control stream.
#[derive(Debug)]
pub struct Reader {
    fd: OwnedFd,
    decoder: Decoder,
    chunk: Vec<u8>,
}

impl Reader {
    /// Reads frames from `fd`.
    #[must_use]
    pub fn new(fd: OwnedFd) -> Self {
        Self { fd, decoder: Decoder::new(), chunk: vec![0; 64 << 10] }
    }

    /// The descriptor, to poll it beside others.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// A frame that is already buffered.
    pub fn buffered(&mut self) -> Option<Frame> {
        self.decoder.next_frame()
    }

    /// Reads what the descriptor has; false at its end.
    ///
    /// # Errors
    /// When the descriptor cannot be read.
    pub fn fill(&mut self) -> anyhow::Result<bool> {
        loop {
            match unistd::read(&self.fd, &mut self.chunk) {
                Ok(0) | Err(Errno::ECONNRESET) => return Ok(false),
                Ok(n) => {
                    self.decoder.feed(&self.chunk[..n]);
                    return Ok(true);
                }
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return Ok(true),
                Err(error) => return Err(error).context("cannot read the control stream"),
            }
        }
    }
}

/// The sending side of a control stream; clones share it, and a frame is never interleaved with another.
#[derive(Clone, Debug)]
pub struct Writer {
    fd: Arc<Mutex<OwnedFd>>,
}

impl Writer {
    /// Writes frames to `fd`.
    #[must_use]
    pub fn new(fd: OwnedFd) -> Self {
        Self { fd: Arc::new(Mutex::new(fd)) }
    }

    /// Sends one frame on a channel.
    ///
    /// # Errors
    /// When the body is too long or the peer is gone.
    pub fn send(&self, channel: u16, kind: Kind, body: &[u8]) -> anyhow::Result<()> {
        let mut bytes = Vec::new();
        encode(channel, kind, body, &mut bytes)?;
        let fd = self.fd.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            match unistd::write(fd.as_fd(), rest) {
                Ok(0) => bail!("the control stream takes no more bytes"),
                Ok(n) => rest = &rest[n..],
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => {
                    poll(&mut [PollFd::new(fd.as_fd(), PollFlags::POLLOUT)], PollTimeout::NONE)?;
                }
                Err(error) => return Err(error).context("cannot write the control stream"),
            }
        }
        Ok(())
    }

    /// Sends one JSON message to the peer itself.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub fn message(&self, message: &Value) -> anyhow::Result<()> {
        self.send(0, Kind::Control, &body(message))
    }

    /// Sends one columnar block to the peer itself.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub fn block(&self, body: &[u8]) -> anyhow::Result<()> {
        self.send(0, Kind::Block, body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::anyhow;

    #[test]
    fn an_answer_is_what_json_makes_of_it() {
        let rows = json!({"rows": [["a", 1.5, null], ["\u{1}\"é", -3, true]]});
        let frame = body(&reply(json!(7), Ok(rows.clone())));
        assert_eq!(frame, json!({"re": 7, "ok": rows}).to_string().into_bytes());
    }

    #[test]
    fn an_error_is_named_with_its_causes() {
        let why = anyhow!("no such device").context("cannot set the address");
        let frame = body(&reply(json!(8), Err(refusal(&why))));
        let said: Value = serde_json::from_slice(&frame).unwrap();
        assert_eq!(said, json!({"re": 8, "error": {"what": "cannot set the address: no such device"}}));
    }
}
