//! The host: what happens is observed here, decided by the components, and carried out here.
//!
//! The components each own their part and keep it private: [`Driver`] the shell's lifecycle,
//! [`Commands`] the command table, [`Subscribers`] who is sent what, [`Console`] what people who
//! are attached see, [`Shutdown`] the end. The files of this module are the only ones that talk to
//! the kernel on their behalf.

mod attached;
mod background;
mod background_stop;
mod effects;
mod event_loop;
mod launch;
mod listener;
mod outcome;
mod prompts;
mod repetition;
mod replacement;
mod requests;
mod run;
mod screen;
mod start_up;
mod state;
mod stopping;
mod streams;
mod syntax;
mod typed_line;
mod waiting;
mod wind_down;
mod work_requests;

use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use trl_confine::linux::cgroups::Groups;
use trl_journal::Caps;
use trl_protocol::fault::Fault;
use trl_protocol::limits;
use trl_protocol::session::{Durability, SessionInfo, SessionState};
use trl_protocol::wire::{FromHost, HOST_PROTOCOL, SessionSpec, ToHost};
use trl_sys::trust;

use crate::activity::Activity;
use crate::cage::Cage;
use crate::commands::{Commands, Requester};
use crate::driver::{Driver, Effects, Event, Fresh, Traits};
use crate::rare::{RareSource, RareSources};
use crate::revival::Past;
use crate::shell::dialect::{self, Dialect};
use crate::shell::{Shell, prompts_on_stdout, text};
use crate::shell_state::ShellState;
use crate::shutdown::Shutdown;
use crate::spare::Spare;
use crate::startup::Startup;
use crate::subscribers::{Link, Subscribers};
use crate::terminal::{Console, SharedTerminal};
use crate::timer::Timer;
use crate::workers::Workers;
use event_loop::Source;
use listener::listen_watched;
use replacement::existing_dir;

#[derive(Debug)]
pub(crate) struct Host {
    spec: SessionSpec,
    driver: Driver,
    /// Empty between two events; only its memory is kept.
    effects: Effects,
    shell: Option<Shell>,
    /// Where the next shell is expected to print its prompt.
    prompts_on_stdout: bool,
    state: ShellState,
    commands: Commands,
    subscribers: Subscribers,
    terminal: SharedTerminal,
    /// While people are attached.
    console: Option<Console>,
    activity: Activity,
    startup: Startup,
    shutdown: Shutdown,
    workers: Workers<Requester>,
    kernel: Kernel,
    cage: Cage,
}

/// What the event loop has of the kernel, beyond the shell and the connections.
#[derive(Debug)]
struct Kernel {
    /// The four that follow, and the shell's terminal.
    rare: RareSources,
    watches_terminal: bool,
    /// By all programs. A command may open it again.
    is_terminal_closed: bool,
    listener: Option<UnixListener>,
    /// Readable when a child has ended.
    children: UnixStream,
    /// Readable when the host is asked to terminate.
    terminate: UnixStream,
    timer: Timer,
    /// Empty while the loop waits; only its memory is kept.
    ready: Vec<(Source, PollFlags)>,
    buffer: Vec<u8>,
    spare: Spare,
}

impl Kernel {
    fn new(socket: &str) -> io::Result<Kernel> {
        let (children, children_write) = UnixStream::pair()?;
        let (terminate, terminate_write) = UnixStream::pair()?;
        for (stream, signal) in [(children_write, libc::SIGCHLD), (terminate_write, libc::SIGTERM)] {
            signal_hook::low_level::pipe::register(signal, stream)?;
        }
        children.set_nonblocking(true)?;
        terminate.set_nonblocking(true)?;
        let (timer, rare) = (Timer::new()?, RareSources::new()?);
        rare.add(RareSource::Children, &children)?;
        rare.add(RareSource::Terminate, &terminate)?;
        rare.add(RareSource::Timer, &timer)?;
        let listener = listen_watched(socket, &rare)?;
        Ok(Kernel {
            rare,
            watches_terminal: false,
            is_terminal_closed: false,
            listener: Some(listener),
            children,
            terminate,
            timer,
            ready: Vec::new(),
            buffer: vec![0; 256 * 1024],
            spare: Spare::default(),
        })
    }
}

impl Host {
    /// Takes the session from the first message and starts its shell. If that fails, the daemon
    /// gets a fault.
    pub(crate) fn create(first: UnixStream) -> io::Result<Host> {
        let mut link = Link::new(first);
        // Made while nobody waits for it, in a host that stands by.
        let groups = Groups::make();
        let mut buffer = vec![0; 64 * 1024];
        let spec = loop {
            match link.receive(&mut buffer)?.into_iter().next() {
                Some(ToHost::Hello { create: Some(spec), .. }) => break spec,
                Some(_) => return Err(io::ErrorKind::InvalidData.into()),
                None => {}
            }
        };
        let mut spec = *spec;
        if let Err(fault) = crate::resolve::complete(&mut spec) {
            link.send(&FromHost::Fault { req: 0, fault });
            link.flush_waiting();
            return Err(io::ErrorKind::InvalidInput.into());
        }
        match Host::start(spec, groups) {
            Ok(mut host) => {
                link.greet(&host.welcome());
                if let Err(error) = link.flush().and_then(|()| host.subscribers.adopt(link)) {
                    host.leave_nothing();
                    return Err(error);
                }
                host.save_session();
                Ok(host)
            }
            Err(refused) => {
                let (fault, error) = refused.into_parts();
                link.send(&FromHost::Fault { req: 0, fault });
                link.flush_waiting();
                Err(error)
            }
        }
    }

    /// The daemon is gone before anybody has heard of this session. One that existed before keeps its files.
    fn leave_nothing(&self) {
        std::fs::remove_file(&self.spec.socket).ok();
        if !self.spec.resume {
            std::fs::remove_dir_all(&self.spec.state_dir).ok();
        }
    }

    fn start(mut spec: SessionSpec, groups: Groups) -> Result<Host, Refused> {
        if let Some(most) = spec.open_files {
            restrict_open_files(most);
        }
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        let caps = Caps::of(spec.limits.journal_bytes.unwrap_or(limits::DEFAULT_JOURNAL_BYTES));
        let past = Past::of(&mut spec, caps)?;
        let mut journal = past.journal;
        if spec.durability == Durability::Power {
            journal.survive_power_cuts();
        }
        // The handler for SIGCHLD is there before the first child.
        let kernel = Kernel::new(&spec.socket)?;
        let mut cage = Cage::enter(&spec, groups).map_err(Refused::Isolation)?;
        let (dir, _) = existing_dir(&past.cwd, &spec.env, &cage);
        let on_stdout = prompts_on_stdout(&spec);
        let spawned = Shell::spawn(&spec, &dir, spec.rc, on_stdout, &mut cage);
        let shell = spawned.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound if cage.is_closed() => {
                Refused::Isolation(no_shell_inside(&spec.shell_path))
            }
            _ => Refused::System(error),
        })?;
        let traits = Traits { may_run_nothing: shell.dialect.may_run_nothing() };
        let fresh = Fresh { restore: past.snapshot.is_some(), startup_files: shell.reads_startup_files() };
        let mut state = ShellState::new(past.snapshot, dir, past.restarts);
        if past.is_replaced {
            state.mark_replaced();
        }
        if let Some(note) = past.note {
            state.set_note(note);
        }
        Ok(Host {
            driver: Driver::new(traits, fresh, Instant::now()),
            effects: Effects::new(),
            shell: Some(shell),
            prompts_on_stdout: on_stdout,
            state,
            commands: Commands::new(journal, caps, past.execs, past.next_number, past.command_count),
            subscribers: Subscribers::default(),
            terminal: SharedTerminal::default(),
            console: None,
            activity: Activity::new(past.created_at),
            startup: Startup::default(),
            shutdown: Shutdown::default(),
            workers: Workers::default(),
            kernel,
            cage,
            spec,
        })
    }

    /// Tells the driver what happened, and carries out what it asks for, in order.
    fn drive(&mut self, event: Event) {
        let was_at_own_line = self.driver.is_at_own_line();
        let mut effects = std::mem::take(&mut self.effects);
        self.driver.handle(event, Instant::now(), &mut effects);
        while let Some(effect) = effects.pop_front() {
            if let Some(event) = self.carry_out(effect) {
                self.driver.handle(event, Instant::now(), &mut effects);
            }
        }
        self.effects = effects;
        if !self.startup.is_ready() && self.driver.is_idle() {
            self.end_startup();
        }
        let has_finished = was_at_own_line && self.driver.is_idle() && self.dialect().finishes_printing();
        if has_finished && self.shutdown.has_begun() {
            self.end_shell();
        }
    }

    /// When this session has been unused, or has lived, for too long. Never while a command runs or
    /// a person is attached.
    fn idle_deadline(&self) -> Option<Instant> {
        let busy = self.shutdown.has_begun() || self.commands.has_unfinished();
        if busy || self.subscribers.has_writer() {
            return None;
        }
        self.activity.expires(self.spec.idle_timeout_s, self.spec.ttl_s)
    }

    fn accept(&mut self) {
        let Some(listener) = &self.kernel.listener else { return };
        if let Ok((stream, _)) = listener.accept()
            && trust::check_peer(&stream, Path::new(&self.spec.socket)).is_ok()
        {
            // A connection that cannot be made non-blocking is dropped; the daemon tries again.
            self.subscribers.accept(stream).ok();
        }
    }

    fn on_link(&mut self, id: u64) {
        match self.subscribers.receive(id, &mut self.kernel.buffer) {
            Ok(messages) => {
                for message in messages {
                    self.on_message(id, message);
                }
            }
            Err(_) => self.drop_link(id),
        }
    }

    /// A daemon is gone; what it started continues.
    fn drop_link(&mut self, id: u64) {
        let was_attended = self.subscribers.has_writer();
        self.subscribers.drop_link(id);
        self.ensure_listening();
        self.commands.forget_requesters(|who| who.link == id);
        self.after_viewers_left(was_attended);
    }

    /// Whether what was told is to survive a power cut.
    fn is_durable(&self) -> bool {
        self.spec.durability == Durability::Power
    }

    fn flush_links(&mut self) {
        if self.is_durable() {
            // Once for all that ended in this round, and before anyone hears of it.
            self.commands.sync();
        }
        for id in self.subscribers.flush() {
            self.drop_link(id);
        }
    }

    fn dialect(&self) -> &'static dyn Dialect {
        dialect::of(self.spec.dialect)
    }

    fn shell_pid(&self) -> Option<u32> {
        self.shell.as_ref().map(|shell| shell.raw_pid() as u32)
    }

    fn welcome(&self) -> FromHost {
        FromHost::Welcome {
            protocol: HOST_PROTOCOL,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            session: Box::new(self.info()),
        }
    }

    /// As [`Host::info`], with what takes longer to find out.
    fn info_with_usage(&self) -> SessionInfo {
        let mut info = self.info();
        info.confinement.usage = Some(self.cage.usage());
        info
    }

    fn info(&self) -> SessionInfo {
        let running = self.driver.foreground();
        let [stdout_bytes, stderr_bytes] = self.commands.printed();
        SessionInfo {
            session_id: self.spec.session_id,
            name: self.spec.name.clone(),
            shell: self.spec.shell.clone(),
            working_dir: text::shown(self.state.cwd()),
            state: match running {
                Some(_) => SessionState::Running,
                // One that ends in its start-up files never was more.
                None if self.is_starting() || self.startup.failure().is_some() => SessionState::Creating,
                None => SessionState::Idle,
            },
            env_keys: self.state.env_keys(&self.spec),
            created_at: self.activity.created_at().to_owned(),
            last_activity: self.activity.last().1.to_owned(),
            command_count: self.commands.started(),
            timeout_s: self.spec.timeout_s,
            idle_timeout_s: self.spec.idle_timeout_s,
            pid: self.shell_pid(),
            host_pid: std::process::id(),
            restarts: self.state.restarts(),
            tty: self.spec.tty,
            stdout_bytes,
            stderr_bytes,
            running: running.map(|number| trl_protocol::ExecId { session: self.spec.session_id, number }),
            queued: self.commands.queued(),
            unresponsive: false,
            runtime: None,
            foreign: None,
            damage: None,
            startup_output: self.startup.output().filter(|_| self.spec.rc),
            confinement: self.cage.described(&self.spec.limits),
        }
    }
}

/// Why a session could not be started.
#[derive(Debug)]
enum Refused {
    System(io::Error),
    Isolation(Fault),
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Refused {
        Refused::System(error)
    }
}

impl From<rustix::io::Errno> for Refused {
    fn from(error: rustix::io::Errno) -> Refused {
        Refused::System(error.into())
    }
}

impl Refused {
    fn into_parts(self) -> (Fault, io::Error) {
        match self {
            Refused::System(error) => {
                (Fault::refused_by_system("the session could not be started", &error), error)
            }
            Refused::Isolation(fault) => (fault, io::ErrorKind::Unsupported.into()),
        }
    }
}

/// Answers a daemon's first message with why there will be no session. One that stands by does not wait for that.
pub(crate) fn refuse(first: UnixStream, error: &io::Error) -> io::Result<()> {
    const PATIENCE: Duration = Duration::from_secs(1);
    first.set_read_timeout(Some(PATIENCE))?;
    let mut link = Link::new(first);
    let mut buffer = vec![0; 64 * 1024];
    let until = Instant::now() + PATIENCE;
    while link.receive(&mut buffer)?.is_empty() {
        if Instant::now() >= until {
            return Ok(());
        }
    }
    let fault = Fault::refused_by_system("the session could not be started", error);
    link.send(&FromHost::Fault { req: 0, fault });
    link.flush_waiting();
    Ok(())
}

fn no_shell_inside(path: &str) -> Fault {
    Fault::invalid(format!(
        "param `shell`: {path:?} is not visible in this isolated session; name its directory in `read`, or choose a shell of the system"
    ))
    .with_details(serde_json::json!({ "field": "shell" }))
}

/// The daemon has taken more for itself; programs may rely on what is usual.
fn restrict_open_files(most: u64) {
    let limit = getrlimit(Resource::Nofile);
    // More than is usual does no harm.
    setrlimit(Resource::Nofile, Rlimit { current: Some(most), ..limit }).ok();
}
