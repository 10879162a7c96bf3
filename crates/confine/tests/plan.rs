//! Plans, as tables: what is asked for, on a machine that is described here, and what is mounted.

use std::path::{Path, PathBuf};

use trl_confine::plan::{Kind, Mount, Plan, PlanError, Root, Setting, What, errand, session};
use trl_protocol::isolation::{Isolation, Net, Profile};

/// A machine with a merged `/usr`, a key of its host and a home.
fn look(path: &Path) -> Option<Kind> {
    let dirs = [
        "/usr",
        "/etc",
        "/opt",
        "/var",
        "/etc/ssh",
        "/home/me",
        "/home/me/project",
        "/srv/data",
        "/rootfs",
        "/var/lib/trl",
        "/home/me/.cargo",
        "/home",
        "/srv",
        "/home/me/project/sub",
        "/home/me/project/sub/own",
        "/rootfs/own",
        "/home/me/.ssh",
        "/var/lib",
        "/data",
        "/data/cargo",
    ];
    match path.to_str()? {
        "/home/me/linked" => Some(Kind::Link("/data/cargo".into())),
        "/home/me/project/out" => Some(Kind::Link("../.ssh".into())),
        "/home/me/state" => Some(Kind::Link("/var/lib/trl".into())),
        "/bin" => Some(Kind::Link("usr/bin".into())),
        "/lib64" => Some(Kind::Link("usr/lib64".into())),
        "/etc/shadow" | "/etc/passwd" | "/proc/kcore" => Some(Kind::File),
        dir if dirs.contains(&dir) => Some(Kind::Dir),
        _ => None,
    }
}

fn setting(workspace: &str) -> Setting {
    Setting {
        workspace: workspace.into(),
        working_dir: workspace.into(),
        home: Some("/home/me".into()),
        hidden: vec!["/var/lib/trl".into(), "/run/user/1/trl".into()],
        ..Setting::default()
    }
}

fn plan(isolation: &Isolation, workspace: &str) -> Result<Plan, PlanError> {
    session(isolation, &setting(workspace), &look)
}

/// What is on top at a place.
fn at<'a>(plan: &'a Plan, place: &str) -> Option<&'a What> {
    plan.mounts.iter().rfind(|mount| mount.at == Path::new(place)).map(|mount| &mount.what)
}

fn bind(from: &str, writable: bool, required: bool) -> What {
    What::Bind { from: from.into(), writable, required }
}

#[test]
fn profiles_show_what_they_say() {
    let workspace = plan(&Isolation::of(Profile::Workspace), "/home/me/project").unwrap();
    let strict = plan(&Isolation::of(Profile::Strict), "/home/me/project").unwrap();
    for plan in [&workspace, &strict] {
        assert_eq!(at(plan, "/usr"), Some(&bind("/usr", false, false)));
        assert_eq!(at(plan, "/bin"), Some(&What::Link { to: "usr/bin".into() }));
        assert_eq!(at(plan, "/home/me"), Some(&What::Private));
        assert_eq!(at(plan, "/home/me/project"), Some(&bind("/home/me/project", true, true)));
        assert_eq!(at(plan, "/tmp"), Some(&What::Private));
        assert_eq!(at(plan, "/proc/kcore"), Some(&What::Hidden));
        assert_eq!(at(plan, "/srv/data"), None);
        assert!(plan.own_network);
        assert_eq!(plan.root, Root::Assembled);
    }
    assert_eq!(at(&workspace, "/etc"), Some(&bind("/etc", false, false)));
    assert_eq!(at(&workspace, "/etc/shadow"), Some(&What::Hidden));
    assert_eq!(at(&workspace, "/etc/ssh"), Some(&What::Hidden));
    assert_eq!(
        at(&workspace, "/var/lib/trl"),
        Some(&What::Hidden),
        "the daemon's own, in a visible directory"
    );
    assert_eq!(at(&strict, "/etc"), None);
    assert_eq!(at(&strict, "/etc/passwd"), Some(&bind("/etc/passwd", false, false)));
    assert_eq!(at(&strict, "/opt"), None);
    assert_eq!(at(&strict, "/var/lib/trl"), None, "not visible anyway");
}

/// Of a machine that has all of them, none is readable; a path that leaves this list or that of the plan fails here.
const SECRET: &[&str] = &[
    "/etc/NetworkManager/system-connections",
    "/etc/cloud",
    "/etc/docker/key.json",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/ipsec.secrets",
    "/etc/krb5.keytab",
    "/etc/kubernetes",
    "/etc/letsencrypt",
    "/etc/pki/tls/private",
    "/etc/ppp",
    "/etc/rancher",
    "/etc/security/opasswd",
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/ssh",
    "/etc/ssl/private",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/wireguard",
    "/etc/wpa_supplicant",
    "/var/backups",
    "/var/cache/debconf",
    "/var/crash",
    "/var/lib/cloud",
    "/var/lib/containerd",
    "/var/lib/containers",
    "/var/lib/docker",
    "/var/lib/etcd",
    "/var/lib/incus",
    "/var/lib/kubelet",
    "/var/lib/libvirt",
    "/var/lib/lxd",
    "/var/lib/mysql",
    "/var/lib/postgresql",
    "/var/lib/private",
    "/var/lib/rabbitmq",
    "/var/lib/rancher",
    "/var/lib/redis",
    "/var/lib/samba",
    "/var/lib/sss",
    "/var/lib/sudo",
    "/var/log",
    "/var/mail",
    "/var/run",
    "/var/spool",
    "/var/snap",
];

const OF_THE_KERNEL: &[&str] = &[
    "/proc/acpi",
    "/proc/asound",
    "/proc/kallsyms",
    "/proc/kcore",
    "/proc/keys",
    "/proc/key-users",
    "/proc/kmsg",
    "/proc/latency_stats",
    "/proc/scsi",
    "/proc/sched_debug",
    "/proc/sysrq-trigger",
    "/proc/timer_list",
];

#[test]
fn no_secret_of_the_machine_is_shown() {
    let everything = |_: &Path| Some(Kind::Dir);
    let of = |profile| session(&Isolation::of(profile), &setting("/home/me/project"), &everything).unwrap();
    let (workspace, strict) = (of(Profile::Workspace), of(Profile::Strict));
    for path in SECRET {
        assert_eq!(at(&workspace, path), Some(&What::Hidden), "{path}");
        let shown = strict.mounts.iter().find(|mount| Path::new(path).starts_with(&mount.at));
        assert_eq!(shown, None, "{path}");
    }
    for plan in [&workspace, &strict] {
        for path in OF_THE_KERNEL {
            assert_eq!(at(plan, path), Some(&What::Hidden), "{path}");
        }
        for path in ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys"] {
            assert_eq!(at(plan, path), Some(&bind(path, false, false)), "{path}");
        }
        let is_device = |mount: &&Mount| mount.what == What::Device;
        let mut devices: Vec<_> =
            plan.mounts.iter().filter(is_device).map(|mount| mount.at.as_path()).collect();
        devices.sort();
        let few =
            ["full", "null", "random", "tty", "urandom", "zero"].map(|name| Path::new("/dev").join(name));
        assert_eq!(devices, few);
    }
    // Of the rest, the strict profile shows no directory of /etc, /var or /run that is not a part of a program's needs.
    let beyond = ["/etc", "/opt", "/var", "/srv", "/snap", "/run", "/root", "/home", "/boot", "/sys"];
    assert!(strict.mounts.iter().all(|mount| !beyond.iter().any(|path| Path::new(path) == mount.at)));
}

#[test]
fn parents_come_before_what_is_below_them() {
    let plan = plan(&Isolation::of(Profile::Workspace), "/home/me/project").unwrap();
    let depth = |mount: &Mount| mount.at.components().count();
    assert!(plan.mounts.windows(2).all(|pair| depth(&pair[0]) <= depth(&pair[1])));
}

/// A working directory that holds more than the session's own is not given away.
#[test]
fn shared_directories_are_no_workspace() {
    for dir in [
        "/",
        "/home",
        "/home/me",
        "/usr",
        "/usr/lib",
        "/etc",
        "/etc/ssh",
        "/tmp",
        "/var/tmp",
        "/var/lib",
        "/var/log/x",
        "/proc/1",
        "/run/x",
        "/dev/shm",
        "/boot",
        "/usr/src",
    ] {
        let plan = plan(&Isolation::of(Profile::Workspace), dir).unwrap();
        let writable =
            plan.mounts.iter().any(|mount| matches!(mount.what, What::Bind { writable: true, .. }));
        assert!(!writable, "{dir}: {:?}", plan.mounts);
    }
    for dir in
        ["/usr/src/app", "/usr/local/src/app", "/var/www", "/var/lib/app", "/opt/app", "/srv/data", "/data"]
    {
        let plan = plan(&Isolation::of(Profile::Workspace), dir).unwrap();
        assert_eq!(at(&plan, dir), Some(&bind(dir, true, true)), "{dir}");
    }
    let own = plan(&Isolation::of(Profile::Workspace), "/var/lib/trl/sessions");
    assert!(matches!(own, Err(PlanError::Own { field: "working_dir", .. })), "{own:?}");
}

#[test]
fn named_paths() {
    let isolation = Isolation {
        profile: Profile::Strict,
        read: vec!["/srv/data".into()],
        write: vec!["/home/me/.cargo".into()],
        hide: vec!["/home/me/project/secret".into()],
        net: Net::Full,
        ..Isolation::default()
    };
    let plan = plan(&isolation, "/home/me/project").unwrap();
    assert_eq!(at(&plan, "/srv/data"), Some(&bind("/srv/data", false, true)));
    assert_eq!(at(&plan, "/home/me/.cargo"), Some(&bind("/home/me/.cargo", true, true)));
    assert_eq!(at(&plan, "/home/me/project/secret"), Some(&What::Hidden));
    assert!(!plan.own_network);
}

/// A named path that is a link appears by both names; what is hidden, by its own.
#[test]
fn links_are_followed_once() {
    let isolation = Isolation {
        read: vec!["/home/me/linked".into()],
        hide: vec!["/work/secret".into()],
        ..Isolation::of(Profile::Strict)
    };
    let setting = Setting { working_dir: "/work".into(), ..setting("/home/me/project") };
    let plan = session(&isolation, &setting, &look).unwrap();
    assert_eq!(at(&plan, "/data/cargo"), Some(&bind("/data/cargo", false, true)));
    assert_eq!(at(&plan, "/home/me/linked"), Some(&What::Alias { to: "/data/cargo".into() }));
    assert_eq!(at(&plan, "/work"), Some(&What::Alias { to: "/home/me/project".into() }));
    assert_eq!(at(&plan, "/home/me/project/secret"), Some(&What::Hidden));
    let last = plan.mounts.iter().rposition(|mount| !matches!(mount.what, What::Alias { .. })).unwrap();
    assert!(plan.mounts[last + 1..].iter().all(|mount| matches!(mount.what, What::Alias { .. })));
    assert_eq!(plan.mounts.len() - last - 1, 2);
}

/// The daemon's own directories are hidden wherever they would appear, and what leads to them cannot be renamed.
#[test]
fn the_daemons_own_is_hidden_by_every_name() {
    let isolation = Isolation { write: vec!["/var/lib".into()], ..Isolation::of(Profile::Strict) };
    let plan = plan(&isolation, "/home/me/project").unwrap();
    assert_eq!(at(&plan, "/var/lib/trl"), Some(&What::Hidden));
    assert_eq!(plan.own_in_reach.as_deref(), Some(Path::new("/var/lib/trl")));
    let setting = Setting { hidden: vec!["/home/me/project/sub/own".into()], ..setting("/home/me/project") };
    let plan = session(&Isolation::of(Profile::Strict), &setting, &look).unwrap();
    assert_eq!(at(&plan, "/home/me/project/sub"), Some(&bind("/home/me/project/sub", true, true)));
    assert_eq!(at(&plan, "/home/me/project/sub/own"), Some(&What::Hidden));
    for write in [vec![], vec!["/rootfs".to_owned()]] {
        let isolation = Isolation { root: Some("/rootfs".into()), write, ..Isolation::of(Profile::Strict) };
        let setting = Setting { hidden: vec!["/rootfs/own".into()], ..setting.clone() };
        let plan = session(&isolation, &setting, &look).unwrap();
        assert_eq!(at(&plan, "/own"), Some(&What::Hidden));
    }
}

/// What does not exist cannot be mounted over: a session that could create it is refused.
#[test]
fn what_is_hidden_cannot_be_created() {
    let hidden = |own: &str| Setting { hidden: vec![own.into()], ..setting("/home/me/project") };
    let strict = Isolation::of(Profile::Strict);
    for own in ["/home/me/project/new", "/home/me/project/new/own"] {
        let refused = session(&strict, &hidden(own), &look);
        assert_eq!(refused, Err(PlanError::OwnMissing { path: own.into() }));
    }
    let read = Isolation { read: vec!["/srv".into()], ..strict.clone() };
    let write = Isolation { write: vec!["/srv".into()], ..strict.clone() };
    assert_eq!(at(&session(&read, &hidden("/srv/new"), &look).unwrap(), "/srv/new"), None);
    assert_eq!(
        session(&write, &hidden("/srv/new"), &look),
        Err(PlanError::OwnMissing { path: "/srv/new".into() })
    );
    // Below another that is hidden, nothing can be created.
    let setting = Setting {
        hidden: vec!["/home/me/project/sub/own/new".into(), "/home/me/project/sub/own".into()],
        ..setting("/home/me/project")
    };
    let plan = session(&strict, &setting, &look).unwrap();
    assert_eq!(at(&plan, "/home/me/project/sub/own"), Some(&What::Hidden));
    for write in [vec![], vec!["/rootfs".to_owned()]] {
        let is_writable = !write.is_empty();
        let isolation = Isolation { root: Some("/rootfs".into()), write, ..strict.clone() };
        assert_eq!(session(&isolation, &hidden("/rootfs/new"), &look).is_err(), is_writable);
    }
}

/// A home that is a part of the system is not replaced by an empty one.
#[test]
fn a_strange_home_changes_nothing() {
    for home in ["/", "/usr", "/etc", "/proc", "/dev", "relative", "/a/../b"] {
        let setting = Setting { home: Some(home.into()), ..setting("/home/me/project") };
        let plan = session(&Isolation::of(Profile::Workspace), &setting, &look).unwrap();
        let is_private =
            plan.mounts.iter().any(|mount| mount.at == Path::new(home) && mount.what == What::Private);
        assert!(!is_private, "{home}");
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let with = |change: &dyn Fn(&mut Isolation)| {
        let mut isolation = Isolation::of(Profile::Workspace);
        change(&mut isolation);
        plan(&isolation, "/home/me/project").map(drop)
    };
    let relative = |path: &str| PlanError::Relative { field: "read", path: path.to_owned() };
    for path in ["data", "/srv/../etc", ""] {
        assert_eq!(with(&|isolation| isolation.read = vec![path.to_owned()]), Err(relative(path)));
    }
    let absent = PlanError::NotThere { field: "write", path: "/no/such".to_owned() };
    assert_eq!(with(&|isolation| isolation.write = vec!["/no/such".to_owned()]), Err(absent));
    let own = PlanError::Own { field: "read", path: "/var/lib/trl/keys".to_owned() };
    assert_eq!(with(&|isolation| isolation.read = vec!["/var/lib/trl/keys".to_owned()]), Err(own));
    let linked = PlanError::Own { field: "write", path: "/home/me/state".to_owned() };
    assert_eq!(with(&|isolation| isolation.write = vec!["/home/me/state".to_owned()]), Err(linked));
    let out = PlanError::LeadsOut {
        field: "read",
        path: "/home/me/project/out".to_owned(),
        to: "/home/me/.ssh".to_owned(),
    };
    assert_eq!(with(&|isolation| isolation.read = vec!["/home/me/project/out".to_owned()]), Err(out));
    let everything = |field| PlanError::Everything { field, path: "/".to_owned() };
    assert_eq!(with(&|isolation| isolation.read = vec!["/".to_owned()]), Err(everything("read")));
    assert_eq!(with(&|isolation| isolation.hide = vec!["/".to_owned()]), Err(everything("hide")));
    assert_eq!(with(&|isolation| isolation.root = Some("/".to_owned())), Err(everything("root")));
    for path in ["/proc", "/proc/sys", "/dev/kmsg"] {
        let kernel = PlanError::Kernel { field: "write", path: path.to_owned() };
        assert_eq!(with(&|isolation| isolation.write = vec![path.to_owned()]), Err(kernel));
    }
    let no_root = PlanError::NotThere { field: "root", path: "/no/root".to_owned() };
    assert_eq!(with(&|isolation| isolation.root = Some("/no/root".to_owned())), Err(no_root));
}

#[test]
fn a_root_of_its_own_has_nothing_of_the_machine() {
    let mut isolation = Isolation { root: Some("/rootfs".to_owned()), ..Isolation::of(Profile::Strict) };
    let temporary = plan(&isolation, "/home/me/project").unwrap();
    assert_eq!(temporary.root, Root::Overlay("/rootfs".into()));
    assert_eq!(at(&temporary, "/usr"), None);
    assert_eq!(at(&temporary, "/home/me/project"), Some(&bind("/home/me/project", true, true)));
    isolation.write = vec!["/rootfs".to_owned()];
    assert_eq!(plan(&isolation, "/home/me/project").unwrap().root, Root::Writable("/rootfs".into()));
}

#[test]
fn an_errand_has_one_directory_and_what_it_is_given() {
    let plan = errand(Path::new("/home/me/desk"), &[PathBuf::from("/srv/data")], false, &look);
    assert_eq!(at(&plan, "/answer"), Some(&bind("/home/me/desk", true, true)));
    assert_eq!(at(&plan, "/home/me/desk"), None);
    assert_eq!(at(&plan, "/srv/data"), Some(&bind("/srv/data", false, true)));
    assert_eq!(at(&plan, "/etc"), None);
    assert_eq!(at(&plan, "/home/me"), None);
    assert!(plan.own_network);
}
