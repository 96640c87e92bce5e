//! The switch role: all physical switches and links of a testbed, played on real packets by one thread.
//!
//! The machine itself is `virtlab-fabric`, pure. Here are the rings that frames come from, the clock that says when
//! they leave, and the control stream. A process of its own, so that it can stand on its own CPU.

mod budget;
mod lateness;
mod player;
pub(crate) mod request;
mod ring;
mod sender;
mod stamps;
mod timing;

use anyhow::{Context, bail};
use budget::Budget;
use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use nix::time::{ClockId, clock_gettime};
use player::Player;
use request::{Configure, Request};
use serde_json::{Value, json};
use std::os::fd::{FromRawFd, OwnedFd};
use timing::{Sleeper, Spin};
use virtlab_system::standstill::Standstills;
use virtlab_system::transport::{Reader, Writer, refusal, reply, understood};
use virtlab_system::{clock, slice};
use virtlab_wire::frame::Kind;
use virtlab_wire::{Nanos, PROTOCOL};

const CONTROL_TOKEN: u64 = 0;
const RING_TOKEN: u64 = 1;
/// How often a thread that does not sleep looks at its control stream.
const GLANCE_EVERY: Nanos = Nanos(1_000_000);

/// Command-line options.
#[derive(clap::Args)]
pub struct Options {
    /// Open descriptor of the byte stream to the control plane.
    #[arg(long, default_value_t = 3)]
    control_fd: i32,
}

/// Serves the control stream until it ends.
///
/// # Errors
/// When the control stream or the kernel's waiting breaks; a request that fails is answered, not fatal.
pub fn main(options: Options) -> anyhow::Result<()> {
    // SAFETY: the descriptor was handed to this process for this purpose, and nothing else here uses it.
    let control = unsafe { OwnedFd::from_raw_fd(options.control_fd) };
    fcntl(&control, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))
        .context("--control-fd names no open descriptor")?;
    let writer = Writer::new(control.try_clone()?);
    let flags = OFlag::from_bits_truncate(fcntl(&control, FcntlArg::F_GETFL)?);
    fcntl(&control, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    Switch::new(Reader::new(control), writer)?.serve()
}

struct Switch {
    reader: Reader,
    writer: Writer,
    sleeper: Sleeper,
    player: Option<Player>,
    running: bool,
    spin: Spin,
    budget: Budget,
    overshoot_p99: Nanos,
    standstills: Standstills,
    started: Nanos,
    cpu_at_start: Nanos,
}

fn cpu_time() -> Nanos {
    let time = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).expect("the CPU clock can be read");
    Nanos(time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
}

impl Switch {
    fn new(reader: Reader, writer: Writer) -> anyhow::Result<Self> {
        let sleeper = Sleeper::new()?;
        sleeper.watch(reader.fd(), CONTROL_TOKEN)?;
        Ok(Self {
            reader,
            writer,
            sleeper,
            player: None,
            running: false,
            spin: Spin::Auto,
            budget: Budget::none(),
            overshoot_p99: Nanos::ZERO,
            standstills: Standstills::from(clock::monotonic()),
            started: Nanos::ZERO,
            cpu_at_start: Nanos::ZERO,
        })
    }

    fn serve(mut self) -> anyhow::Result<()> {
        let mut glanced = clock::monotonic();
        loop {
            let asked = match &mut self.player {
                Some(player) if self.running => {
                    let now = player.round();
                    self.standstills.runs_with(now, player.first_arrival());
                    let next = player.next_departure();
                    let sleep_until = match (self.spin, next) {
                        (Spin::Always, _) => Some(now),
                        (_, None) => None,
                        (_, Some(next)) => Some(next.since(self.budget.value())),
                    };
                    if player.ready() || sleep_until.is_some_and(|until| until <= now) {
                        if now.since(glanced) < GLANCE_EVERY {
                            spin_until(player, next, glanced + GLANCE_EVERY);
                            continue;
                        }
                        glanced = now;
                        self.sleeper.glance(CONTROL_TOKEN)?
                    } else {
                        glanced = now;
                        let look = self.standstills.next_look_while(next.is_some());
                        let until = sleep_until.into_iter().chain(look).min();
                        let asked = self.sleeper.sleep(until, CONTROL_TOKEN)?;
                        if let Some(overshoot) =
                            self.sleeper.overslept(sleep_until.filter(|_| sleep_until == until))
                        {
                            self.budget.note(overshoot);
                        }
                        asked
                    }
                }
                Some(player) => {
                    player.discard(); // else the rings would end every sleep at once
                    self.sleeper.sleep(None, CONTROL_TOKEN)?
                }
                None => self.sleeper.sleep(None, CONTROL_TOKEN)?,
            };
            if asked && !self.attend()? {
                return Ok(());
            }
        }
    }

    /// Serves what stands on the control stream; false when it is time to end.
    fn attend(&mut self) -> anyhow::Result<bool> {
        let open = self.reader.fill()?;
        while let Some(frame) = self.reader.buffered() {
            if frame.kind != Kind::Control {
                continue;
            }
            let (id, ends, answer) = match understood::<Request>(&frame.body) {
                Ok((id, request)) => (id, matches!(request, Request::Bye {}), self.answer(request)),
                Err((id, what)) => (id, false, Err(anyhow::anyhow!(what))),
            };
            self.writer.message(&reply(id, answer.map_err(|error| refusal(&error))))?;
            if ends {
                return Ok(false);
            }
        }
        Ok(open)
    }

    fn answer(&mut self, request: Request) -> anyhow::Result<Value> {
        match request {
            Request::Hello { protocol } => hello(protocol),
            Request::Clock {} => {
                let paired = clock::pair();
                Ok(json!({"raw_ns": paired.raw, "realtime_ns": paired.realtime}))
            }
            Request::Configure(configure) => self.configure(*configure),
            Request::Start {} => {
                let player = self.player.as_mut().context("configure comes before start")?;
                if self.running {
                    bail!("the switch forwards already");
                }
                player.start()?;
                self.running = true;
                self.started = clock::raw();
                self.count_from_now();
                Ok(json!({"t_ns": self.started}))
            }
            Request::Reset {} => {
                self.player.as_mut().context("configure comes before reset")?.reset();
                self.count_from_now();
                Ok(json!({"t_ns": clock::raw()}))
            }
            Request::Move { forwarding } => {
                self.player.as_mut().context("configure comes before move")?.relocate(&forwarding)?;
                Ok(json!({"t_ns": clock::raw()}))
            }
            Request::Rate { link, bit_per_s } => {
                self.player.as_mut().context("configure comes before rate")?.set_rate(&link, bit_per_s)?;
                Ok(json!({"t_ns": clock::raw()}))
            }
            Request::State { link, up } => {
                self.player.as_mut().context("configure comes before state")?.set_state(&link, up)?;
                Ok(json!({"t_ns": clock::raw()}))
            }
            Request::Stats {} => {
                let mut report = self.player.as_mut().context("configure comes before stats")?.stats();
                report["t_ns"] = json!(clock::raw());
                report["started_ns"] = json!(self.started);
                report["running"] = json!(self.running);
                report["sleep_overshoot_p99_ns"] = json!(self.overshoot_p99);
                let (least, most) = self.budget.range();
                report["spin_budget"] = json!({
                    "now_ns": self.budget.value(), "min_ns": least, "max_ns": most,
                });
                report["cpu_ns"] = json!(cpu_time().since(self.cpu_at_start));
                report["sleeps"] = json!(self.sleeper.sleeps);
                report["standstills"] = json!(self.standstills.count);
                report["standstill_max_ns"] = json!(self.standstills.longest);
                Ok(report)
            }
            Request::Record { frames } => {
                self.player.as_mut().context("configure comes before record")?.record(frames)?;
                Ok(json!({}))
            }
            Request::Recorded {} => {
                Ok(self.player.as_mut().context("configure comes before recorded")?.recorded())
            }
            Request::Stop {} => {
                self.running = false;
                Ok(json!({"t_ns": clock::raw()}))
            }
            Request::Bye {} => Ok(json!({})),
        }
    }

    fn count_from_now(&mut self) {
        self.cpu_at_start = cpu_time();
        self.sleeper.sleeps = 0;
        self.budget.forget();
        self.standstills = Standstills::from(clock::monotonic());
    }

    fn configure(&mut self, configure: Configure) -> anyhow::Result<Value> {
        if self.running {
            bail!("the switch forwards; stop it before it is configured again");
        }
        if configure.spin == Spin::Always && (configure.fifo_priority.is_some() || timing::is_real_time()) {
            bail!(
                "spin: 'always' under SCHED_FIFO stalls the machine for half a second at a time; use one of the two"
            );
        }
        self.player = None;
        if let Some(cpu) = configure.cpu {
            timing::pin(cpu).context("cpu")?;
        }
        if let Some(priority) = configure.fifo_priority {
            timing::real_time(priority).context("fifo_priority")?;
        } else {
            slice::shortest().context("cannot ask for short slices")?;
        }
        self.spin = configure.spin;
        let player = Player::new(configure)?;
        let (p50, p99) = self.sleeper.overshoot()?;
        self.overshoot_p99 = p99;
        self.budget = if self.spin == Spin::Never { Budget::none() } else { Budget::new(p99) };
        for ring in player.rings() {
            self.sleeper.watch(ring.fd(), RING_TOKEN)?;
        }
        self.player = Some(player);
        Ok(json!({
            "sleep_overshoot_p50_ns": p50, "sleep_overshoot_p99_ns": p99, "spin_budget_ns": self.budget.value(),
        }))
    }
}

/// Spins until a frame comes, the next departure is due, or it is time to look at the control stream.
fn spin_until(player: &Player, next: Option<Nanos>, glance: Nanos) {
    let until = next.map_or(glance, |next| next.min(glance));
    while !player.ready() && clock::monotonic() < until {
        std::hint::spin_loop();
    }
}

fn hello(protocol: (u16, u16)) -> anyhow::Result<Value> {
    if protocol.0 != PROTOCOL.0 {
        bail!(
            "protocol {}.{} is asked, this agent speaks {}.{}; install an agent of the same version",
            protocol.0,
            protocol.1,
            PROTOCOL.0,
            PROTOCOL.1
        );
    }
    let paired = clock::pair();
    let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let played = virtlab_qdisc::TABLE.iter().filter(|each| each.is_played()).map(|each| each.name);
    let capabilities: Vec<&str> = played.chain(["vlan", "ecn", "record"]).collect();
    Ok(json!({
        "protocol": PROTOCOL, "build": env!("VIRTLAB_BUILD"), "role": "switch",
        "capabilities": capabilities, "boot_id": boot_id.trim(),
        "clocks": {"raw_ns": paired.raw, "realtime_ns": paired.realtime},
    }))
}
