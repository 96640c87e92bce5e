//! The control thread: requests in, replies and events out, roles armed, started, stopped, collected.
//!
//! Nothing here waits for traffic: a role runs on its own threads, and its samples are sent by a thread of their own. A
//! request is understood wholly or refused: an unknown kind or field is an error reply.

use super::endpoint::Endpoint;
use super::parameters;
use super::priority::{self, Governor};
use super::report::Report;
use super::run::{Phase, Run};
use super::spool::Budget;
use super::telemetry::{self, Sampling, Wanted};
use super::threads;
use super::workload::operations::{Objects, lock};
use super::workload::{self, Arming, Prepared, Side, ValueCheck};
use anyhow::{Context, bail};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use virtlab_store::Catalogue;
use virtlab_system::clock;
use virtlab_system::transport::{Reader, Writer, refusal, reply, understood};
use virtlab_wire::frame::{Frame, Kind};
use virtlab_wire::rows::{Record, SeriesRow};
use virtlab_wire::{Nanos, PROTOCOL};

/// A stopped role has to be over within this.
const STOP_PATIENCE: Duration = Duration::from_secs(3);

#[derive(Debug, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Request {
    Hello {
        protocol: (u16, u16),
        #[serde(default)]
        heartbeat_ns: Option<u64>,
    },
    Clock {},
    Live {},
    Ack {
        #[serde(rename = "stream")]
        _stream: String,
        #[serde(rename = "schema")]
        _schema: String,
        #[serde(rename = "number")]
        _number: u64,
    },
    Bye {},
    Arm(Box<Arm>),
    Start {
        role: String,
        #[serde(default)]
        at_ns: Option<u64>,
    },
    Set {
        role: String,
        parameter: String,
        value: Value,
    },
    Stop {
        role: String,
    },
    Collect {
        role: String,
    },
    Disarm {
        role: String,
    },
    /// What a role knows of its objects from that one on, which another guest is told.
    TellObjects {
        role: String,
        first: u32,
    },
    /// What a role of another guest has told.
    TakeObjects {
        role: String,
        #[serde(default)]
        place: Option<String>,
        page: Catalogue,
    },
    Sample {
        sources: Vec<Wanted>,
    },
    Counters {
        groups: Vec<String>,
    },
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Arm {
    role: String,
    side: Side,
    workload: String,
    #[serde(default)]
    parameters: Map<String, Value>,
    local: Endpoint,
    peer: Endpoint,
    #[serde(default)]
    seed: u64,
    /// Of its threads, where it sleeps most of the time; absent: they are scheduled as others.
    #[serde(default)]
    fifo_priority: Option<i32>,
}

/// How a request is answered.
enum Answer {
    /// At once.
    Reply(Value),
    /// At once, and then something begins.
    ReplyThen(Value, Box<dyn FnOnce()>),
    /// By a thread of its own.
    Later,
    /// Not at all.
    Silence,
}

struct Armed {
    run: Arc<Run>,
    check: ValueCheck,
    /// Whether what is measured changes when this process stands still.
    counts_on_us: bool,
    /// Of its threads.
    fifo_priority: Option<i32>,
    /// Of a role that has some.
    objects: Option<Arc<dyn Objects>>,
}

impl Armed {
    fn objects(&self, role: &str) -> anyhow::Result<&Arc<dyn Objects>> {
        self.objects.as_ref().with_context(|| format!("role '{role}' has no objects"))
    }
}

/// The state of the control thread.
pub struct Control {
    writer: Writer,
    roles: BTreeMap<String, Armed>,
    budget: Arc<Budget>,
    heartbeat: Option<Nanos>,
    sampling: Option<Sampling>,
    leaving: bool,
}

impl Control {
    /// Serves on this writer.
    pub fn new(writer: Writer) -> Self {
        Self {
            writer,
            roles: BTreeMap::new(),
            budget: Budget::of_this_guest(),
            heartbeat: None,
            sampling: None,
            leaving: false,
        }
    }

    /// Serves requests until the stream ends or says `bye`.
    ///
    /// # Errors
    /// When the stream breaks.
    pub fn serve(mut self, mut reader: Reader) -> anyhow::Result<()> {
        let mut heard = clock::monotonic();
        while !self.leaving {
            if let Some(frame) = reader.buffered() {
                self.take(&frame)?;
                continue;
            }
            let timeout = self.heartbeat.map_or(PollTimeout::NONE, |heartbeat| {
                let left = (heard + heartbeat).since(clock::monotonic()).0 / 1_000_000 + 1;
                PollTimeout::try_from(left.min(60_000) as i32).unwrap_or(PollTimeout::NONE)
            });
            let mut waiting = [PollFd::new(reader.fd(), PollFlags::POLLIN)];
            match poll(&mut waiting, timeout) {
                Ok(0) => {
                    if self.heartbeat.is_some_and(|heartbeat| clock::monotonic().since(heard) >= heartbeat) {
                        self.stop_all("no request came within the heartbeat");
                        heard = clock::monotonic();
                    }
                }
                Ok(_) => {
                    if !reader.fill()? {
                        break;
                    }
                    heard = clock::monotonic();
                }
                Err(nix::errno::Errno::EINTR) => {}
                Err(error) => return Err(error).context("cannot wait for the control stream"),
            }
        }
        self.roles.values().for_each(|armed| armed.run.request_stop());
        Ok(())
    }

    fn take(&mut self, frame: &Frame) -> anyhow::Result<()> {
        if frame.kind != Kind::Control || frame.channel != 0 {
            let text = format!("passed over a {:?} frame on channel {}", frame.kind, frame.channel);
            return self.writer.message(&json!({"log": "warning", "text": text}));
        }
        let (id, request) = match understood::<Request>(&frame.body) {
            Ok(understood) => understood,
            Err((Value::Null, what)) => {
                let text = format!("passed over a control message: {what}");
                return self.writer.message(&json!({"log": "warning", "text": text}));
            }
            Err((id, what)) => return self.writer.message(&reply(id, Err(json!({"what": what})))),
        };
        match self.answer(&id, request) {
            Ok(Answer::Reply(answer)) => self.writer.message(&reply(id, Ok(answer))),
            Ok(Answer::ReplyThen(answer, then)) => {
                self.writer.message(&reply(id, Ok(answer)))?;
                then();
                Ok(())
            }
            Ok(Answer::Later | Answer::Silence) => Ok(()),
            Err(error) => self.writer.message(&reply(id, Err(refusal(&error)))),
        }
    }

    fn answer(&mut self, id: &Value, request: Request) -> anyhow::Result<Answer> {
        Ok(match request {
            Request::Hello { protocol, heartbeat_ns } => {
                if protocol.0 != PROTOCOL.0 {
                    bail!(
                        "protocol {}.{} is not spoken here, this agent speaks {}.{}; install the same version of virtlab \
                         on both sides",
                        protocol.0,
                        protocol.1,
                        PROTOCOL.0,
                        PROTOCOL.1
                    );
                }
                self.heartbeat = heartbeat_ns.map(Nanos);
                Answer::Reply(hello())
            }
            Request::Clock {} => Answer::Reply(clocks()),
            Request::Live {} => {
                let seen = |(role, armed): (&String, &Armed)| {
                    armed.run.seen_so_far().map(|totals| (role.clone(), totals))
                };
                let roles: Map<String, Value> = self.roles.iter().filter_map(seen).collect();
                Answer::Reply(json!({"t_ns": clock::raw().0, "roles": roles}))
            }
            Request::Ack { .. } => Answer::Silence,
            Request::Bye {} => {
                self.leaving = true;
                Answer::Reply(json!({}))
            }
            Request::Arm(arm) => self.arm(*arm)?,
            Request::Start { role, at_ns } => {
                let armed = self.role(&role)?;
                let (run, watched, priority) = (armed.run.clone(), armed.counts_on_us, armed.fifo_priority);
                if !matches!(run.phase(), Phase::Armed) {
                    bail!("role '{role}' was started before; disarm it and arm it again");
                }
                let at = at_ns.map_or_else(clock::raw, Nanos);
                Answer::ReplyThen(
                    json!({"t_ns": at.0}),
                    Box::new(move || {
                        run.start(at);
                        if watched {
                            run.watch(at, priority);
                        }
                    }),
                )
            }
            Request::Set { role, parameter, value } => {
                let armed = self.role(&role)?;
                (armed.check)(&parameter, &value)?;
                armed.run.tune(&parameter, value);
                Answer::Reply(json!({"t_ns": clock::raw().0}))
            }
            Request::Stop { role } => self.stop(id, &self.role(&role)?.run.clone()),
            Request::Collect { role } => self.collect(id, &self.role(&role)?.run.clone())?,
            Request::Disarm { role } => {
                let armed =
                    self.roles.remove(&role).with_context(|| format!("no role '{role}' is armed here"))?;
                self.disarm(id, &armed.run)
            }
            Request::TellObjects { role, first } => {
                let armed = self.role(&role)?;
                if !matches!(armed.run.phase(), Phase::Armed | Phase::Finished(_)) {
                    bail!("role '{role}' still runs, and its objects are in use");
                }
                let objects = armed.objects(&role)?;
                let page = lock(objects.folder()).tell(first);
                Answer::Reply(json!({"place": objects.place(), "end": page.end(), "page": page}))
            }
            Request::TakeObjects { role, place, page } => {
                let armed = self.role(&role)?;
                if !matches!(armed.run.phase(), Phase::Armed) {
                    bail!("role '{role}' has begun, and takes no objects any more");
                }
                let objects = armed.objects(&role)?.clone();
                self.later(id, move |_| {
                    let whole = lock(objects.folder()).take(&page).context("page")?;
                    if let Some(place) = place.filter(|_| whole) {
                        objects.move_to(&place)?;
                    }
                    Ok(json!({"whole": whole}))
                })
            }
            Request::Sample { sources } => {
                let before = self.sampling.take();
                if !sources.is_empty() {
                    self.sampling = Some(Sampling::begin(sources)?);
                }
                match before {
                    Some(before) => self.later(id, move |writer| {
                        let rows = before.end()?;
                        rows.blocks(&mut |body| writer.block(body))?;
                        Ok(json!({"rows": {(SeriesRow::SCHEMA): rows.len()}, "overflowed": rows.overflowed}))
                    }),
                    None => Answer::Reply(json!({"rows": {}, "overflowed": 0})),
                }
            }
            Request::Counters { groups } => {
                let t_ns = clock::raw().0;
                Answer::Reply(json!({"t_ns": t_ns, "rows": telemetry::counters(&groups)?}))
            }
        })
    }

    fn role(&self, name: &str) -> anyhow::Result<&Armed> {
        self.roles.get(name).with_context(|| format!("no role '{name}' is armed here"))
    }

    fn arm(&mut self, arm: Arm) -> anyhow::Result<Answer> {
        let Arm { role, side, workload, parameters, local, peer, seed, fifo_priority } = arm;
        if self.roles.contains_key(&role) {
            bail!("role '{role}' is armed already; disarm it first");
        }
        let (common, own) = parameters::split(&parameters)?;
        let budget = common.spool_bytes.map_or_else(|| self.budget.clone(), Budget::new);
        let run = Run::new(&role, self.writer.clone(), budget);
        let arming = Arming { run: &run, side, common, own, local, peer, seed };
        let Prepared { workload: prepared, check } = workload::prepare(&workload, arming)
            .with_context(|| format!("cannot arm role '{role}' ({workload})"))?;
        let (port, counts_on_us, objects) = (prepared.port(), prepared.counts_on_us(), prepared.objects());
        let governor = fifo_priority.and_then(|traffic| match Governor::begin(traffic) {
            Ok(governor) => Some(governor),
            Err(error) => {
                run.warn(&format!("role '{role}' has no real-time priority: {error:#}"));
                None
            }
        });
        let fifo_priority = fifo_priority.filter(|_| governor.is_some());
        let here = run.clone();
        let play = move || {
            if let Some(Err(errno)) = fifo_priority.map(priority::take) {
                here.warn(&format!("role '{}' has no real-time priority: {}", here.role, errno.desc()));
            }
            let report = prepared.run(&here);
            if governor.is_some_and(|governor| governor.gave_back()) {
                here.warn(&format!(
                    "role '{}' used most of a processor: its threads have no real-time priority any more",
                    here.role
                ));
            }
            here.finish(report);
        };
        threads::start(&role, Box::new(play)).context("cannot start a thread")?;
        self.roles.insert(role, Armed { run, check, counts_on_us, fifo_priority, objects });
        Ok(Answer::Reply(port.map_or_else(|| json!({}), |port| json!({"port": port}))))
    }

    fn stop(&self, id: &Value, run: &Arc<Run>) -> Answer {
        run.request_stop();
        let run = run.clone();
        self.later(id, move |_| {
            run.wait_for_finish(STOP_PATIENCE)
                .with_context(|| format!("role '{}' did not stop", run.role))?;
            Ok(json!({"t_ns": clock::raw().0}))
        })
    }

    fn disarm(&self, id: &Value, run: &Arc<Run>) -> Answer {
        run.request_stop();
        let run = run.clone();
        self.later(id, move |_| {
            run.wait_for_finish(STOP_PATIENCE)
                .with_context(|| format!("role '{}' did not stop", run.role))?;
            Ok(json!({}))
        })
    }

    fn collect(&self, id: &Value, run: &Arc<Run>) -> anyhow::Result<Answer> {
        let Phase::Finished(report) = run.phase() else {
            bail!("role '{}' still runs; stop it before its samples are collected", run.role);
        };
        let run = run.clone();
        Ok(self.later(id, move |writer| send_samples(writer, &run, &report)))
    }

    /// Answers from a thread of its own, so that nothing waits behind it.
    fn later(
        &self,
        id: &Value,
        work: impl FnOnce(&Writer) -> anyhow::Result<Value> + Send + 'static,
    ) -> Answer {
        let writer = self.writer.clone();
        let working = writer.clone();
        answer_from_a_thread(id.clone(), writer, Box::new(move || work(&working)))
    }

    fn stop_all(&self, why: &str) {
        let running = self.roles.values().filter(|armed| !matches!(armed.run.phase(), Phase::Finished(_)));
        for armed in running {
            armed.run.forsake(why);
            let _ = self
                .writer
                .message(&json!({"log": "warning", "text": format!("stopped '{}': {why}", armed.run.role)}));
        }
    }
}

/// Does the work in a thread and sends what it returned as the answer. `work` is boxed: this is in the binary once.
fn answer_from_a_thread(
    id: Value,
    writer: Writer,
    work: Box<dyn FnOnce() -> anyhow::Result<Value> + Send>,
) -> Answer {
    std::thread::spawn(move || {
        let message = reply(id, work().map_err(|error| refusal(&error)));
        // A stream that is gone ends the process from the control thread.
        let _ = writer.message(&message);
    });
    Answer::Later
}

/// Sends the blocks of a role, then says what was sent.
fn send_samples(writer: &Writer, run: &Run, report: &Report) -> anyhow::Result<Value> {
    let mut numbers: BTreeMap<&str, u64> = BTreeMap::new();
    let mut rows: BTreeMap<&str, usize> = BTreeMap::new();
    for table in &report.tables {
        let number = numbers.entry(table.schema()).or_default();
        *number = table.blocks(&run.role, *number, &mut |body| writer.block(body))?;
        *rows.entry(table.schema()).or_default() += table.rows();
    }
    let mut counters = report.counters.clone();
    for (name, value) in report.last.as_ref().map_or_else(|| Ok(Vec::new()), |last| last())? {
        counters.insert(name.to_owned(), i64::try_from(value).unwrap_or(i64::MAX));
    }
    Ok(json!({"rows": rows, "counters": counters, "taints": report.taints}))
}

fn clocks() -> Value {
    let pair = clock::pair();
    json!({"raw_ns": pair.raw.0, "realtime_ns": pair.realtime.0, "bound_ns": pair.bound.0})
}

fn hello() -> Value {
    let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    json!({
        "protocol": [PROTOCOL.0, PROTOCOL.1],
        "build": env!("VIRTLAB_BUILD"),
        "role": "probe",
        "capabilities": workload::NAMES,
        "boot_id": boot_id.trim(),
        "clocks": clocks(),
    })
}
