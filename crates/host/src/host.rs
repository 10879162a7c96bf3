//! The host's state, from its first message on, and whom it is connected with.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::termios::Winsize;
use trl_journal::{Caps, Journal};
use trl_protocol::fault::Fault;
use trl_protocol::limits;
use trl_protocol::session::{SessionInfo, SessionState};
use trl_protocol::wire::{FromHost, HOST_PROTOCOL, RunSpec, SessionSpec, ToHost};
use trl_sys::trust;

use crate::address::listen;
use crate::exec::{Exec, Requester};
use crate::link::{Link, Links};
use crate::replacement::existing_dir;
use crate::revival::Past;
use crate::shell::snapshot::Snapshot;
use crate::shell::{Held, Shell, text};
use crate::spare::Spare;
use crate::strays::Aftermath;
use crate::streams::Subscription;
use crate::terminal::Console;
use crate::timer::Timer;
use crate::wind_down::Ending;

/// What the shell is doing, as far as the engine has asked it to.
#[derive(Debug)]
pub(crate) enum Stage {
    /// No shell: it has ended, or could not be started.
    Dead,
    /// Reading its first line, then the scripts that restore its state.
    Starting {
        /// Whether the state of the shell before it is to be restored.
        restore: bool,
        scripts: VecDeque<String>,
        #[expect(dead_code, reason = "held open while the shell reads it")]
        current: Option<Held>,
    },
    Idle,
    Running(u64),
    /// The command is over, but the prompt is the user's own: asked for its status.
    Asking {
        exec: u64,
    },
    /// Back at its prompt, while others of a stopped command are still to die.
    Waning {
        exec: u64,
        status: i32,
        asked: bool,
    },
    /// Reading an empty line, after a command that was interrupted.
    Clearing {
        exec: u64,
        status: i32,
        asked: bool,
    },
    /// Printing its state after a command.
    Settling(Settling),
}

/// Why the shell prints its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A command may have changed it.
    AfterCommand,
    /// Nothing has changed; the history gets what it lacks.
    History,
    /// A fresh shell shows what the last state is to be compared with.
    Baseline,
}

#[derive(Debug)]
pub(crate) struct Settling {
    pub(crate) script: Held,
    pub(crate) dump: Held,
    /// The shell may not write files of that size (`ulimit -f`): it would die of trying.
    pub(crate) mute: bool,
    pub(crate) uncovered: bool,
    pub(crate) purpose: Purpose,
}

#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) spec: SessionSpec,
    pub(crate) shell: Option<Shell>,
    pub(crate) stage: Stage,
    /// When the control pipe is to be watched, if the shell's prompt has not come until then.
    pub(crate) watch_control_at: Option<Instant>,
    /// When an engine line that is not a command must be done.
    pub(crate) stage_deadline: Option<Instant>,
    pub(crate) execs: BTreeMap<u64, Exec>,
    /// Commands that something may still come from; the others are only kept.
    pub(crate) active: BTreeSet<u64>,
    pub(crate) queue: VecDeque<u64>,
    /// Commands beside the shell that wait until it has told its state.
    pub(crate) held_back: Vec<(Requester, RunSpec)>,
    /// Who waits for a new shell, until this one has printed its state.
    pub(crate) restarts_asked: Vec<Requester>,
    pub(crate) next_number: u64,
    pub(crate) journal: Journal,
    pub(crate) caps: Caps,
    pub(crate) snapshot: Snapshot,
    /// The snapshot is one that the shell has printed.
    pub(crate) has_snapshot: bool,
    pub(crate) cwd: String,
    /// As it is on disk.
    pub(crate) kept_cwd: String,
    pub(crate) last_status: i32,
    /// Commands that left the state alone and are not in the shell's history yet.
    pub(crate) unrecorded: Vec<String>,
    pub(crate) command_count: u64,
    /// Bytes of all commands, by stream.
    pub(crate) printed: [u64; 2],
    pub(crate) restarts: u64,
    /// To be told with the next result.
    pub(crate) shell_note: Option<String>,
    pub(crate) created: Instant,
    pub(crate) created_at: String,
    pub(crate) last_activity: Instant,
    pub(crate) last_activity_at: String,
    pub(crate) links: Links,
    next_link: u64,
    pub(crate) subscriptions: Vec<Subscription>,
    pub(crate) watchers: Vec<Requester>,
    /// The last stop, until the shell has shown that it goes on.
    pub(crate) aftermath: Option<Aftermath>,
    /// The foreground command that the shell's terminal was last given to.
    pub(crate) terminal_owner: Option<u64>,
    /// What was asked for; a new shell's terminal gets it too.
    pub(crate) terminal_size: Option<Winsize>,
    /// While people are attached.
    pub(crate) console: Option<Console>,
    pub(crate) ending: Option<Ending>,
    pub(crate) over: bool,
    pub(crate) listener: Option<UnixListener>,
    pub(crate) children: UnixStream,
    pub(crate) terminate: UnixStream,
    pub(crate) timer: Timer,
    pub(crate) buffer: Vec<u8>,
    pub(crate) spare: Spare,
}

impl Host {
    /// Takes the session from the first message and starts its shell. What goes
    /// wrong is told to the daemon as a fault.
    pub(crate) fn create(first: UnixStream) -> io::Result<Host> {
        let mut link = Link::new(first);
        let mut buffer = vec![0; 64 * 1024];
        let spec = loop {
            match link.receive(&mut buffer)?.into_iter().next() {
                Some(ToHost::Hello { create: Some(spec), .. }) => break spec,
                Some(_) => return Err(io::ErrorKind::InvalidData.into()),
                None => {}
            }
        };
        match Host::start(*spec) {
            Ok(mut host) => {
                let welcome = host.welcome();
                link.greeted = true;
                link.send(&welcome);
                link.flush()?;
                host.adopt(link)?;
                host.keep_session();
                Ok(host)
            }
            Err(error) => {
                let fault = Fault::refused_by_system("the session could not be started", &error);
                link.send(&FromHost::Fault { req: 0, fault });
                link.flush_waiting();
                Err(error)
            }
        }
    }

    fn start(spec: SessionSpec) -> io::Result<Host> {
        if let Some(most) = spec.open_files {
            restrict_open_files(most);
        }
        let (children_read, children_write) = UnixStream::pair()?;
        let (terminate_read, terminate_write) = UnixStream::pair()?;
        for (stream, signal) in [(children_write, libc::SIGCHLD), (terminate_write, libc::SIGTERM)] {
            signal_hook::low_level::pipe::register(signal, stream)?;
        }
        children_read.set_nonblocking(true)?;
        terminate_read.set_nonblocking(true)?;
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        let caps = Caps::of(spec.limits.journal_bytes.unwrap_or(limits::DEFAULT_JOURNAL_BYTES));
        let past = Past::of(&spec, caps)?;
        let (dir, _) = existing_dir(&past.cwd, &spec.env);
        let shell = Shell::spawn(&spec, &dir)?;
        let listener = listen(&spec.socket)?;
        let now = Instant::now();
        Ok(Host {
            shell: Some(shell),
            watch_control_at: spec.rc.then(|| now + crate::engine::FIRST_PROMPT_DUE),
            stage_deadline: Some(now + crate::engine::PATIENCE),
            stage: Stage::Starting {
                restore: past.snapshot.is_some(),
                scripts: VecDeque::new(),
                current: None,
            },
            execs: past.execs,
            active: BTreeSet::new(),
            queue: VecDeque::new(),
            held_back: Vec::new(),
            restarts_asked: Vec::new(),
            next_number: past.next_number,
            journal: past.journal,
            caps,
            has_snapshot: past.snapshot.is_some(),
            snapshot: past.snapshot.unwrap_or_default(),
            kept_cwd: dir.clone(),
            cwd: dir,
            last_status: 0,
            unrecorded: Vec::new(),
            command_count: past.command_count,
            printed: [0; 2],
            restarts: past.restarts,
            shell_note: past.note,
            created: now,
            created_at: past.created_at,
            last_activity: now,
            last_activity_at: timestamp(),
            links: Links::new(),
            next_link: 1,
            subscriptions: Vec::new(),
            watchers: Vec::new(),
            aftermath: None,
            terminal_owner: None,
            terminal_size: None,
            console: None,
            ending: None,
            over: false,
            listener: Some(listener),
            children: children_read,
            terminate: terminate_read,
            timer: Timer::new()?,
            buffer: vec![0; 256 * 1024],
            spare: Spare::default(),
            spec,
        })
    }

    pub(crate) fn active_execs(&self) -> impl Iterator<Item = (u64, &Exec)> {
        self.active.iter().filter_map(|number| self.execs.get(number).map(|exec| (*number, exec)))
    }

    /// When this session has been unused, or has lived, for too long. Never while a command runs
    /// or a person sits at it.
    pub(crate) fn idle_deadline(&self) -> Option<Instant> {
        let busy = self.ending.is_some() || self.active_execs().any(|(_, exec)| exec.outcome().is_none());
        if busy || self.is_attended() {
            return None;
        }
        let after = |from: Instant, seconds: f64| {
            (seconds > 0.0).then(|| from + Duration::from_secs_f64(seconds.min(limits::MAX_SECONDS)))
        };
        [after(self.last_activity, self.spec.idle_timeout_s), after(self.created, self.spec.ttl_s)]
            .into_iter()
            .flatten()
            .min()
    }

    pub(crate) fn adopt(&mut self, mut link: Link) -> io::Result<()> {
        link.flush()?;
        rustix::io::ioctl_fionbio(&link, true)?;
        self.links.insert(self.next_link, link);
        self.next_link += 1;
        Ok(())
    }

    pub(crate) fn accept(&mut self) {
        let Some(listener) = &self.listener else { return };
        if let Ok((stream, _)) = listener.accept()
            && trust::check_peer(&stream, Path::new(&self.spec.socket)).is_ok()
        {
            // A connection that cannot be made non-blocking is dropped; the daemon tries again.
            self.adopt(Link::new(stream)).ok();
        }
    }

    pub(crate) fn on_link(&mut self, id: u64, ready: PollFlags) {
        let Some(link) = self.links.get_mut(&id) else { return };
        if !ready.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
            return;
        }
        match link.receive(&mut self.buffer) {
            Ok(messages) => {
                for message in messages {
                    self.on_message(id, message);
                }
            }
            Err(_) => self.drop_link(id),
        }
    }

    /// A daemon is gone; what it started goes on.
    pub(crate) fn drop_link(&mut self, id: u64) {
        self.links.remove(&id);
        self.be_found();
        self.subscriptions.retain(|subscription| subscription.link != id);
        self.watchers.retain(|watcher| watcher.link != id);
        self.forget_watchers(|link, _| link == id);
        for exec in self.execs.values_mut() {
            if exec.requester.is_some_and(|requester| requester.link == id) {
                exec.requester = None;
            }
        }
    }

    pub(crate) fn flush_links(&mut self) {
        let gone: Vec<u64> =
            self.links.iter_mut().filter_map(|(id, link)| link.flush().is_err().then_some(*id)).collect();
        for id in gone {
            self.drop_link(id);
        }
    }

    pub(crate) fn send(&mut self, link: u64, message: &FromHost) {
        if let Some(link) = self.links.get_mut(&link) {
            link.send(message);
        }
    }

    pub(crate) fn welcome(&self) -> FromHost {
        FromHost::Welcome {
            protocol: HOST_PROTOCOL,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            session: Box::new(self.info()),
        }
    }

    pub(crate) fn running_number(&self) -> Option<u64> {
        match &self.stage {
            Stage::Running(exec) | Stage::Asking { exec } | Stage::Waning { exec, .. } => Some(*exec),
            Stage::Dead
            | Stage::Starting { .. }
            | Stage::Idle
            | Stage::Clearing { .. }
            | Stage::Settling(_) => None,
        }
    }

    pub(crate) fn info(&self) -> SessionInfo {
        let running = self.running_number();
        let mut env_keys = self.spec.env_keys.clone();
        env_keys
            .extend(self.snapshot.exported.iter().filter(|name| !self.spec.env.contains_key(*name)).cloned());
        env_keys.sort();
        env_keys.dedup();
        SessionInfo {
            session_id: self.spec.session_id,
            name: self.spec.name.clone(),
            shell: self.spec.shell.clone(),
            working_dir: text::shown(&self.cwd),
            state: if running.is_some() { SessionState::Running } else { SessionState::Idle },
            env_keys,
            created_at: self.created_at.clone(),
            last_activity: self.last_activity_at.clone(),
            command_count: self.command_count,
            timeout_s: self.spec.timeout_s,
            idle_timeout_s: self.spec.idle_timeout_s,
            pid: self.shell.as_ref().map(|shell| shell.pid.as_raw_nonzero().get() as u32),
            host_pid: std::process::id(),
            restarts: self.restarts,
            tty: self.spec.tty,
            stdout_bytes: self.printed[0],
            stderr_bytes: self.printed[1],
            running: running.map(|number| trl_protocol::ExecId { session: self.spec.session_id, number }),
            queued: self.queue.len(),
            unresponsive: false,
            damage: None,
        }
    }

    pub(crate) fn close_listener(&mut self) {
        self.listener = None;
        // Whoever removed it first did our work.
        std::fs::remove_file(&self.spec.socket).ok();
    }
}

/// The daemon has taken more for itself; programs may rely on what is usual.
fn restrict_open_files(most: u64) {
    let limit = getrlimit(Resource::Nofile);
    // More than is usual does no harm.
    setrlimit(Resource::Nofile, Rlimit { current: Some(most), ..limit }).ok();
}

/// Now, as it is told: RFC 3339, UTC, milliseconds.
pub(crate) fn timestamp() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}
