//! What the leader answers: a request is read, done, and replied to, one at a time.

use crate::disk::Served;
use crate::kernel::tap;
use crate::machine::facts::facts;
use crate::machine::placement;
use crate::machine::sharing::Sharings;
use crate::processes::child::{Child, Placement, Terminal};
use crate::request::Request;
use crate::serve::{Ending, Leader};
use crate::streams::conduit::{Conduit, Conduits, Descriptor, Key};
use crate::streams::door::Door;
use crate::world::apply;
use crate::world::folder::Folder;
use crate::world::observe;
use crate::world::reach;
use anyhow::{anyhow, bail};
use nix::poll::PollFlags;
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::os::fd::OwnedFd;
use std::path::Path;
use virtlab_system::clock;
use virtlab_system::transport::{self, understood};
use virtlab_system::work;
use virtlab_wire::frame::{Frame, Kind};
use virtlab_wire::{Nanos, PROTOCOL};

impl Leader {
    /// Answers a frame of a client.
    pub(super) fn request(&mut self, id: u32, frame: &Frame) {
        if frame.kind != Kind::Control {
            return;
        }
        let (number, outcome) = match understood::<Request>(&frame.body) {
            Ok((_, Request::Ack { .. })) => return,
            Ok((number, request)) => (number, self.answer(id, request)),
            Err((number, what)) => (number, Err(json!({"what": what}))),
        };
        let mut message = transport::reply(number, outcome);
        if let Some(client) = self.clients.get_mut(&id) {
            let body = transport::body(&message);
            if body.len() > virtlab_wire::frame::MAXIMUM_BODY_BYTES {
                let what =
                    format!("the answer has {} bytes, more than a frame holds; ask for less", body.len());
                client.message(&transport::reply(message["re"].take(), Err(json!({"what": what}))));
            } else {
                client.send(0, Kind::Control, &body);
            }
        }
    }

    fn answer(&mut self, id: u32, request: Request) -> Result<Value, Value> {
        if let Request::Apply { batch } = &request {
            return match apply::apply(&mut self.world, batch) {
                Ok(()) => Ok(json!({"applied": batch.len()})),
                Err(failure) => {
                    Err(json!({"what": failure.what, "index": failure.index, "kernel": failure.kernel}))
                }
            };
        }
        let outcome = self.perform(id, request);
        let home = self.world.go_home();
        outcome.and_then(|value| home.map(|()| value)).map_err(|error| json!({"what": format!("{error:#}")}))
    }

    fn perform(&mut self, id: u32, request: Request) -> anyhow::Result<Value> {
        match request {
            Request::Hello { protocol } => self.hello(protocol),
            Request::Clock {} => Ok(clocks()),
            Request::WorkRate {} => Ok(json!({"per_s": work::rate_per_s()})),
            Request::Bye {} => {
                self.over = true;
                Ok(json!({}))
            }
            Request::Ack { .. } | Request::Apply { .. } => Ok(json!({})),
            Request::Observe { namespaces } => observe::observe(&mut self.world, &namespaces),
            Request::Ping { pairs, deadline_ns } => {
                let answers = reach::ping(&mut self.world, &pairs, Nanos(deadline_ns))?;
                Ok(json!({"answers": answers}))
            }
            Request::TryQdiscs { kinds } => observe::try_qdiscs(&mut self.world, &kinds),
            Request::Spawn { channel, role, namespace, cpus, fifo_priority, cgroups } => {
                if !["probe", "switch"].contains(&role.as_str()) {
                    bail!("'{role}' is not a role of an agent in a world");
                }
                self.free(id, channel)?;
                let placement = Placement { namespace, cpus, fifo_priority, cgroups, ..Placement::default() };
                let child = Child::agent(&mut self.world, &self.program.file, &role, &placement)?;
                Ok(self.adopt(id, channel, child))
            }
            Request::Exec {
                channel,
                namespace,
                network,
                argv,
                environment,
                terminal,
                cpus,
                cgroups,
                descriptors,
                confined,
                user,
                folder,
                host,
            } => {
                self.free(id, channel)?;
                let fifo_priority = None;
                let placement = Placement {
                    namespace,
                    network,
                    cpus,
                    fifo_priority,
                    cgroups,
                    confined,
                    user,
                    folder,
                    host,
                };
                let (conduits, theirs) = self.make_conduits((id, channel), &descriptors)?;
                let child =
                    Child::command(&mut self.world, &argv, &environment, terminal, &placement, &theirs)?;
                self.conduits.add(conduits);
                Ok(self.adopt(id, channel, child))
            }
            Request::Resize { channel, rows, columns } => {
                self.child(id, channel)?.resize(Terminal { rows, columns })?;
                Ok(json!({}))
            }
            Request::HandOver { channel, held } => {
                let key = (id, channel);
                let unread = match held {
                    Some(held) => self.conduits.hold_back(key, held)?,
                    None => {
                        self.conduits.take_over(key)?;
                        self.hear_conduit(key, PollFlags::POLLIN);
                        false
                    }
                };
                Ok(json!({"unread": unread}))
            }
            Request::Kill { channel, signal } => {
                self.child(id, channel)?.signal(signal)?;
                Ok(json!({}))
            }
            Request::Sample { sources, hold, shared } => {
                let held = self.sampler.end();
                self.send_samples(&held);
                self.sampling_client = id;
                self.sampler.begin(&sources, hold, Sharings::read(&shared)?, clock::monotonic())?;
                Ok(json!({}))
            }
            Request::Disks {} => {
                Ok(json!({"disks": self.conduits.disks.iter().map(Served::facts).collect::<Vec<_>>()}))
            }
            Request::Mount { namespace, disk } => self.mount(&namespace, &disk),
            Request::Placed {} => Ok(json!({"rows": placement::placed(&self.placed_children())})),
            Request::Counters { groups } => {
                let children = self.placed_children();
                let rows =
                    self.sampler.counters(&mut self.world, &groups, &children, &self.conduits.disks)?;
                Ok(json!({"t_ns": clock::raw(), "rows": rows}))
            }
            Request::Keep { socket, idle_ns } => self.keep(Path::new(&socket), Nanos(idle_ns)),
        }
    }

    /// Gives what will be started in a namespace a disk on a store, as a file system.
    fn mount(&mut self, namespace: &str, disk: &Value) -> anyhow::Result<Value> {
        let Some(network) = disk.get("network").and_then(Value::as_str) else {
            bail!("a disk on a store has other words")
        };
        let network = self.world.namespace(network)?.share()?;
        anyhow::ensure!(self.world.namespace(namespace)?.disk.is_none(), "'{namespace}' has a disk already");
        let (served, mounts) = Served::mounted(disk, network, self.program.build.mount)?;
        self.world.namespace(namespace)?.disk = Some(Folder::of(mounts)?);
        self.conduits.disks.push(served);
        Ok(json!({}))
    }

    fn placed_children(&self) -> Vec<(String, Pid)> {
        self.children.values().map(|entry| (entry.child.namespace.clone(), entry.child.pid)).collect()
    }

    fn hello(&self, protocol: (u16, u16)) -> anyhow::Result<Value> {
        if protocol.0 != PROTOCOL.0 {
            bail!(
                "this agent speaks protocol {}.{}, not {}.{}; install virtlab and its agent of one version",
                PROTOCOL.0,
                PROTOCOL.1,
                protocol.0,
                protocol.1
            );
        }
        let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let mut capabilities =
            vec!["apply", "observe", "ping", "spawn", "exec", "descriptors", "sample", "counters", "keep"];
        if !self.born.rootless {
            capabilities.push("root");
        }
        if self.born.own_proc {
            capabilities.push("own_proc");
        }
        Ok(json!({
            "protocol": PROTOCOL, "build": self.program.build.name, "role": "leader",
            "capabilities": capabilities, "boot_id": boot_id.trim(), "clocks": clocks(), "machine": facts(),
            "workloads": self.program.build.workloads,
        }))
    }

    /// Conduits of a command that is about to run, and the descriptors that it is born with.
    fn make_conduits(&mut self, of: Key, wanted: &[Descriptor]) -> anyhow::Result<(Conduits, Vec<OwnedFd>)> {
        let mut made = Conduits::default();
        let mut theirs = Vec::new();
        for descriptor in wanted {
            if let Descriptor::Tap { namespace, link } = descriptor {
                let end = self.world.tap(namespace, link)?;
                tap::forget(&end);
                theirs.push(end);
            } else if let Descriptor::Users { namespace } = descriptor {
                theirs.push(self.world.users_of(namespace)?);
            } else if let Descriptor::Disk { disk } = descriptor
                && let Some(name) = disk.get("join")
            {
                let mut every = self.conduits.disks.iter_mut();
                let served = every.find(|one| one.lives() && name.as_str() == Some(&one.name));
                theirs.push(served.ok_or_else(|| anyhow!("no such disk is served"))?.join(disk, of.1)?);
            } else if let Descriptor::Disk { disk } = descriptor {
                let (served, end) = if let Some(network) = disk.get("network").and_then(Value::as_str) {
                    let network = self.world.namespace(network)?.share()?;
                    Served::on_store(disk, network, self.program.build.on_store)?
                } else {
                    Served::begin(disk, of.1)?
                };
                made.disks.push(served);
                theirs.push(end);
            } else if let Descriptor::Heir { channel } = *descriptor {
                anyhow::ensure!(self.conduits.hold((of.0, channel)), "no agent begins there");
                theirs.push(made.heir((of.0, channel), of.1)?);
            } else if let Some((first, conduit, end)) = Conduit::new(descriptor, of.1)? {
                conduit.range(first).try_for_each(|channel| self.free(of.0, channel))?;
                made.insert((of.0, first), conduit)?;
                theirs.push(end);
            }
        }
        Ok((made, theirs))
    }

    fn free(&self, id: u32, channel: u16) -> anyhow::Result<()> {
        let taken = self.conduits.hold((id, channel)) || self.children.contains_key(&(id, channel));
        if channel == 0 || taken {
            bail!("channel {channel} is taken");
        }
        Ok(())
    }

    fn adopt(&mut self, id: u32, channel: u16, child: Child) -> Value {
        let pid = child.pid.as_raw();
        self.children.insert(
            (id, channel),
            Ending { child, since: None, stopped: None, agent_open: true, of_world: false },
        );
        json!({"pid": pid})
    }

    fn child(&self, id: u32, channel: u16) -> anyhow::Result<&Child> {
        let entry = self.children.get(&(id, channel));
        entry.map(|entry| &entry.child).ok_or_else(|| anyhow!("nothing runs on channel {channel}"))
    }

    /// Keeps the world for clients that come through its door.
    fn keep(&mut self, path: &Path, idle: Nanos) -> anyhow::Result<Value> {
        if self.door.is_some() {
            bail!("the world is kept already");
        }
        self.door = Some(Door::new(path, idle)?);
        self.children.values_mut().for_each(|entry| entry.of_world = true);
        Ok(json!({}))
    }
}

fn clocks() -> Value {
    let paired = clock::pair();
    json!({"raw_ns": paired.raw, "realtime_ns": paired.realtime, "bound_ns": paired.bound})
}
