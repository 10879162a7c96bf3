//! Where the session's processes run: beside the host, or in a cage that its policy describes.
//!
//! Everything that a shell opens by path goes through [`Cage::show`]: beside the host it is the host's own
//! `/proc/<pid>/fd`, in a cage that of a process inside which holds the descriptor for as long as the
//! [`Visible`] lives.

mod container;
mod environment;
mod limits;

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;

use rustix::termios::Winsize;
use trl_confine::linux::cgroups::{Groups, Hits};
use trl_confine::linux::files::abi as landlock_abi;
use trl_confine::linux::init::{Ending, Program, StreamFrom};
use trl_confine::linux::jail::{Jail, Shown, Spawned, Strength};
use trl_confine::linux::{Extras, Part, ProcessLimits, Step, look};
use trl_confine::plan::{self, Plan, PlanError, Setting};
use trl_confine::report::{self, Layers, WhyNot};
use trl_protocol::fault::{Code, Fault};
use trl_protocol::isolation::{Isolation, IsolationReport};
use trl_protocol::session::{Confinement, SessionLimits, Usage};
use trl_protocol::wire::SessionSpec;

use crate::driver::Exit;
use crate::shell::path_of;
use crate::{usage, workers};
use limits::HeldBy;

#[derive(Debug)]
pub(crate) struct Cage {
    place: Place,
    groups: Groups,
    /// An engine has set limits for the whole container.
    engine_bounds: bool,
    limits: ProcessLimits,
    report: Option<IsolationReport>,
    listener: Listener,
    concealed: Rc<RefCell<Vec<Shown>>>,
}

/// The socket on which programs inside reach the daemon's proxy. Each cage has its own.
#[derive(Debug, Default)]
struct Listener {
    socket: Option<OwnedFd>,
    is_news: bool,
}

impl Listener {
    fn take_from(&mut self, jail: &mut Jail) {
        if let Some(socket) = jail.take_listener() {
            *self = Listener { socket: Some(socket), is_news: true };
        }
    }
}

#[derive(Debug)]
enum Place {
    /// Processes run beside the host.
    Open,
    Closed {
        plan: Box<Plan>,
        strength: Strength,
        jail: Option<Jail>,
        /// Where a program starts whose own directory is not there.
        workspace: PathBuf,
    },
}

/// A descriptor of the host's that programs of the session can open, for as long as this lives.
#[derive(Debug)]
pub(crate) struct Visible {
    path: String,
    held: Option<(Shown, Rc<RefCell<Vec<Shown>>>)>,
}

impl Visible {
    pub(crate) fn path(&self) -> &str {
        &self.path
    }
}

impl Drop for Visible {
    fn drop(&mut self) {
        if let Some((shown, concealed)) = self.held.take() {
            concealed.borrow_mut().push(shown);
        }
    }
}

impl Cage {
    /// What the session's policy says, or why this machine cannot enforce it.
    pub(crate) fn enter(spec: &SessionSpec, mut groups: Groups) -> Result<Cage, Fault> {
        let outside = spec.outside.as_deref().cloned();
        let isolation = spec.isolation.clone().filter(|_| outside.is_none()).unwrap_or_default();
        if !groups.are_there() {
            // Somebody has removed them while this host stood by.
            groups = Groups::make();
        }
        groups.bound(limits::wanted(spec));
        let held_by = match &outside {
            Some(outside) if !outside.requested.is_none() => HeldBy::Engine,
            _ if isolation.is_none() => HeldBy::Nothing,
            _ => HeldBy::Namespaces,
        };
        let bounds = limits::bounds(spec, &groups, held_by)?;
        let mut cage = Cage {
            place: Place::Open,
            groups,
            engine_bounds: container::is_bounded(spec),
            limits: bounds.each,
            report: None,
            listener: Listener::default(),
            concealed: Rc::default(),
        };
        let mut report = outside;
        let mut of_limits = bounds.report;
        if !isolation.is_none() {
            let setting = setting(spec);
            let plan = plan::session(&isolation, &setting, &look).map_err(not_planned)?;
            let (layers, mut jail) = match cage.jail(&plan, Strength::Namespaces) {
                Ok(jail) => (Ok(()), jail),
                Err(why) => {
                    let less = limits::bounds(spec, &cage.groups, HeldBy::Landlock)?;
                    (cage.limits, of_limits) = (less.each, less.report);
                    let jail = cage.accept_less(&isolation, &plan, &why)?;
                    (Err(WhyNot { why: why.to_string(), remedy: why.remedy().to_owned() }), jail)
                }
            };
            let strength = if layers.is_ok() { Strength::Namespaces } else { Strength::InPlace };
            let layers = Layers { landlock: landlock_abi(), namespaces: layers };
            cage.listener.take_from(&mut jail);
            report = Some(report::of(&isolation, &layers, plan.private_bytes));
            let (plan, workspace) = (Box::new(plan), setting.workspace);
            cage.place = Place::Closed { plan, strength, jail: Some(jail), workspace };
        }
        if report.is_some() || of_limits != IsolationReport::default() {
            let mut report = report.unwrap_or_default();
            report.enforced.extend(of_limits.enforced);
            report.missing.extend(of_limits.missing);
            cage.report = Some(report);
        }
        Ok(cage)
    }

    /// What can be had without namespaces, if that is accepted. Another root cannot.
    fn accept_less(&self, isolation: &Isolation, plan: &Plan, why: &Step) -> Result<Jail, Fault> {
        let is_accepted = isolation.best_effort && isolation.root.is_none();
        let less = match why.part {
            Part::Namespaces | Part::Mounts | Part::Network if is_accepted => {
                self.jail(plan, Strength::InPlace)
            }
            _ => Err(why.clone()),
        };
        less.map_err(|step| unavailable(isolation, &step))
    }

    fn jail(&self, plan: &Plan, strength: Strength) -> Result<Jail, Step> {
        let extras = self.extras().map_err(|error| Step {
            part: Part::Limits,
            what: "open the session's cgroups".to_owned(),
            why: error.to_string(),
        })?;
        Jail::enter(plan, strength, extras)
    }

    /// Limits are never left out silently.
    fn extras(&self) -> io::Result<Extras> {
        let groups = match self.groups.entrances() {
            Err(error) if self.groups.is_bounded() => return Err(error),
            entrances => entrances.unwrap_or_default(),
        };
        Ok(Extras { limits: self.limits.clone(), groups, work: Some(workers::perform_inside) })
    }

    /// What `session.info` tells of it.
    pub(crate) fn described(&self, session: &SessionLimits) -> Confinement {
        Confinement {
            isolation: self.report.clone().map(Box::new),
            limits: limits::are_given(session).then(|| Box::new(session.clone())),
            usage: None,
        }
    }

    /// What everything that the session has started has used.
    pub(crate) fn usage(&self) -> Usage {
        usage::of_session(self.groups.usage())
    }

    /// How often the session has run into the limits of its groups, or of its container.
    pub(crate) fn hits(&self) -> Hits {
        match self.engine_bounds {
            true => container::hits(),
            false if self.groups.is_bounded() => self.groups.hits(),
            false => Hits::default(),
        }
    }

    /// Where the daemon's proxy accepts what programs inside connect to.
    pub(crate) fn listener(&self) -> Option<BorrowedFd<'_>> {
        self.listener.socket.as_ref().map(AsFd::as_fd)
    }

    /// Whether that is another since the last time.
    pub(crate) fn take_news_of_listener(&mut self) -> bool {
        std::mem::take(&mut self.listener.is_news)
    }

    /// Whether processes are started by pid 1 inside.
    pub(crate) fn is_closed(&self) -> bool {
        matches!(self.place, Place::Closed { .. })
    }

    /// Readable when something inside has ended.
    pub(crate) fn news(&self) -> Option<BorrowedFd<'_>> {
        match &self.place {
            Place::Closed { jail: Some(jail), .. } => Some(jail.as_fd()),
            Place::Open | Place::Closed { jail: None, .. } => None,
        }
    }

    /// What is done in a child between fork and exec where there is no pid 1 that has done it.
    pub(crate) fn before_exec(&self) -> impl FnMut() -> io::Result<()> + Send + Sync + use<> {
        let extras = match self.place {
            Place::Open => self.extras().map_err(|error| error.raw_os_error().unwrap_or(libc::EIO)),
            Place::Closed { .. } => Ok(Extras::default()),
        };
        move || match &extras {
            Ok(extras) => extras.enter().map_err(|errno| io::Error::from_raw_os_error(errno.raw_os_error())),
            Err(errno) => Err(io::Error::from_raw_os_error(*errno)),
        }
    }

    /// Makes descriptors openable by path for the session's programs.
    pub(crate) fn show(&mut self, fds: &[BorrowedFd<'_>]) -> io::Result<Vec<Visible>> {
        self.tidy();
        if !self.is_closed() {
            return Ok(fds.iter().map(|fd| Visible { path: path_of(fd), held: None }).collect());
        }
        let shown = self.living()?.show(fds)?;
        Ok(self.visible(shown))
    }

    /// Shows what will be needed next, to a cage, without waiting for it; with that goes what is not visible any more.
    pub(crate) fn offer(&mut self, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let concealed = std::mem::take(&mut *self.concealed.borrow_mut());
        let jail = self.living()?;
        jail.conceal(&concealed, false);
        jail.offer(fds)
    }

    /// What was offered, if it is there.
    pub(crate) fn take_offer(&mut self) -> Option<Vec<Visible>> {
        let Place::Closed { jail: Some(jail), .. } = &mut self.place else { return None };
        let shown = jail.take_offer()?;
        Some(self.visible(shown))
    }

    fn visible(&self, shown: Vec<Shown>) -> Vec<Visible> {
        let visible = |shown: Shown| Visible {
            path: shown.path.clone(),
            held: Some((shown, Rc::clone(&self.concealed))),
        };
        shown.into_iter().map(visible).collect()
    }

    pub(crate) fn show_one(&mut self, fd: &impl AsFd) -> io::Result<Visible> {
        self.show(&[fd.as_fd()])?.pop().ok_or_else(|| io::ErrorKind::BrokenPipe.into())
    }

    /// Where the session's programs find what is shown to them.
    pub(crate) fn shown_below(&self) -> String {
        match &self.place {
            Place::Open => format!("/proc/{}/fd/", std::process::id()),
            Place::Closed { jail, .. } => {
                let holder = jail.as_ref().and_then(Jail::holder_inside).unwrap_or(0);
                format!("/proc/{holder}/fd/")
            }
        }
    }

    /// What is not visible any more is let go, so that its readers see its end.
    pub(crate) fn tidy(&mut self) {
        let concealed = std::mem::take(&mut *self.concealed.borrow_mut());
        if let (false, Place::Closed { jail: Some(jail), .. }) = (concealed.is_empty(), &mut self.place) {
            jail.conceal(&concealed, true);
        }
    }

    /// Starts a program inside. Its words, variables and directory are those of `command`.
    pub(crate) fn spawn(
        &mut self,
        command: &Command,
        arg0: &str,
        streams: [StreamFrom; 3],
        size: Winsize,
        given: &[BorrowedFd<'_>],
    ) -> io::Result<Spawned> {
        let mut program = program(command, arg0);
        if let Place::Closed { workspace, .. } = &self.place {
            program
                .directories
                .insert(1.min(program.directories.len()), workspace.as_os_str().as_bytes().to_vec());
        }
        self.living()?.spawn(&program, streams, (size.ws_row, size.ws_col), given)
    }

    /// Has a worker do something inside, with no more rights than the session has.
    pub(crate) fn work(&mut self, request: &[u8], answer: BorrowedFd<'_>) -> io::Result<()> {
        self.living()?.work(request, answer)
    }

    /// A cage whose pid 1 has ended is made anew.
    fn living(&mut self) -> io::Result<&mut Jail> {
        let extras = match &self.place {
            Place::Closed { jail: None, .. } => self.extras()?,
            _ => Extras::default(),
        };
        match &mut self.place {
            Place::Open => Err(io::ErrorKind::Unsupported.into()),
            Place::Closed { jail: Some(jail), .. } => Ok(jail),
            Place::Closed { plan, strength, jail, .. } => {
                let mut fresh = Jail::enter(plan, *strength, extras)
                    .map_err(|step| io::Error::other(step.to_string()))?;
                self.listener.take_from(&mut fresh);
                // What was shown in the former one is gone with it, and its numbers mean something else here.
                self.concealed = Rc::default();
                Ok(jail.insert(fresh))
            }
        }
    }

    /// Who has ended inside, and whether pid 1 has, with all the others.
    pub(crate) fn ended(&mut self) -> (Vec<(i32, Exit)>, bool) {
        let Place::Closed { jail: place, .. } = &mut self.place else { return (Vec::new(), false) };
        let Some(jail) = place else { return (Vec::new(), false) };
        let lives = jail.hear();
        let mut ended = Vec::new();
        while let Some((pid, how)) = jail.next_ended() {
            let exit = match how {
                Ending::Status(code) => Exit::Code(code),
                Ending::Signal(signal) => Exit::Signal(signal),
            };
            ended.push((pid, exit));
        }
        if !lives {
            *place = None;
        }
        (ended, !lives)
    }

    /// Whether a process is part of the cage, not of what runs in it.
    pub(crate) fn is_own(&self, pid: i32) -> bool {
        match &self.place {
            Place::Closed { jail: Some(jail), .. } => jail.is_own(pid),
            Place::Open | Place::Closed { jail: None, .. } => false,
        }
    }

    /// The cage is empty, and goes.
    pub(crate) fn close(&mut self) {
        if let Place::Closed { jail, .. } = &mut self.place
            && let Some(jail) = jail.take()
        {
            jail.end();
        }
    }

    /// Ends everything inside at once, as far as the kernel offers that.
    pub(crate) fn kill(&mut self) {
        if let Place::Closed { jail: Some(jail), .. } = &self.place {
            jail.kill();
        }
        if !self.groups.is_empty() {
            self.groups.kill();
        }
    }
}

fn program(command: &Command, arg0: &str) -> Program {
    let bytes = |text: &std::ffi::OsStr| text.as_bytes().to_vec();
    let variable = |(name, value): (&std::ffi::OsStr, Option<&std::ffi::OsStr>)| {
        value.map(|value| [name.as_bytes(), b"=", value.as_bytes()].concat())
    };
    let home = command.get_envs().find(|(name, _)| *name == "HOME").and_then(|(_, home)| home);
    let dir = command.get_current_dir().map(Path::as_os_str);
    Program {
        path: bytes(command.get_program()),
        arg0: arg0.as_bytes().to_vec(),
        arguments: command.get_args().map(bytes).collect(),
        environment: command.get_envs().filter_map(variable).collect(),
        directories: dir.into_iter().chain(home).map(bytes).collect(),
    }
}

fn setting(spec: &SessionSpec) -> Setting {
    let real = |path: &str| std::fs::canonicalize(path).unwrap_or_else(|_| PathBuf::from(path));
    Setting {
        workspace: real(&spec.working_dir),
        working_dir: Path::new(&spec.working_dir).components().collect(),
        home: spec.env.get("HOME").map(|home| real(home)),
        hidden: spec.hidden_dirs.iter().map(|dir| real(dir)).collect(),
        io_dir: None,
        disk: spec.limits.disk.map(|size| size.0),
    }
}

fn not_planned(error: PlanError) -> Fault {
    Fault::invalid(format!("param `isolation`: {error}"))
        .with_details(serde_json::json!({ "field": "isolation" }))
}

fn unavailable(isolation: &Isolation, step: &Step) -> Fault {
    if step.part == Part::Given {
        let message = format!("param `isolation`: {step}; a session needs {}", step.remedy());
        return Fault::invalid(message).with_details(serde_json::json!({ "field": "isolation" }));
    }
    let hint = if isolation.best_effort {
        ""
    } else {
        "; `best_effort:true` accepts less and reports what is missing"
    };
    let message = format!(
        "isolation `{}` cannot be enforced on this machine: {step}. What helps: {}{hint}",
        isolation.profile.name(),
        step.remedy()
    );
    let details =
        serde_json::json!({"missing": format!("{:?}", step.part).to_lowercase(), "remedy": step.remedy()});
    Fault::new(Code::IsolationUnavailable, message).with_details(details)
}
