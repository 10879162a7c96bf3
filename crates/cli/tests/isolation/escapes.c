// Attempts to reach what an isolated process must not reach. `escapes NAME KEY=VALUE…` tries one; it prints
// `escaped` or `held ERRNO-TEXT`. `escapes list` prints all names. `escapes prepare KEY=VALUE…` makes what some of
// them look for (run outside), prints `ready` and waits for the end of its input.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/bpf.h>
#include <linux/netlink.h>
#include <linux/perf_event.h>
#include <linux/rtnetlink.h>
#include <linux/vm_sockets.h>
#include <mqueue.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/klog.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/swap.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif
#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif
#ifndef SYS_openat2
#define SYS_openat2 437
#endif
#define SETXATTRAT 463
#define OPEN_TREE_ATTR 467
#define FILE_SETATTR 469

static char **arguments;
static const char *self;

static const char *given(const char *key) {
    size_t length = strlen(key);
    for (char **word = arguments; *word; word++)
        if (!strncmp(*word, key, length) && (*word)[length] == '=') return *word + length + 1;
    return "/nonexistent";
}
static pid_t pid_given(const char *key) {
    pid_t pid = atoi(given(key));
    return pid > 0 ? pid : 4194303;
}
static const char *in(const char *dir, const char *name) {
    static char path[4][4096];
    static int next;
    char *result = path[next++ % 4];
    snprintf(result, 4096, "%s/%s", dir, name);
    return result;
}
static const char *out(const char *name) { return in(given("out"), name); }
static const char *proc_of(const char *key, const char *name) {
    static char path[4096];
    snprintf(path, sizeof path, "/proc/%d/%s", pid_given(key), name);
    return path;
}

// Each returns whether it got out; errno says why not.
static int reads(const char *path, const char *expected) {
    char text[65536] = {0};
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return 0;
    ssize_t count = read(fd, text, sizeof text - 1);
    close(fd);
    if (count <= 0) return 0;
    if (!expected) return 1;
    return memmem(text, count, expected, strlen(expected)) != NULL;
}
static int writable(const char *path) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    close(fd);
    return 1;
}
static int lists(const char *path, const char *name) {
    DIR *dir = opendir(path);
    if (!dir) return 0;
    struct dirent *entry;
    int found = 0;
    while ((entry = readdir(dir)))
        if (name ? !strcmp(entry->d_name, name) : entry->d_name[0] != '.') found = 1;
    closedir(dir);
    errno = ENOENT;
    return found;
}
#define SECRET "the-secret-of-the-outside"

static int read_secret(void) { return reads(out("secret"), SECRET); }
static int read_home(void) { return reads(in(given("home"), ".ssh/id_test"), SECRET); }
static int list_home(void) { return lists(given("home"), ".ssh"); }
static int read_tmp(void) { return reads(given("tmp_file"), SECRET); }
static int stat_outside(void) {
    struct stat meta;
    return !stat(out("secret"), &meta);
}
static int access_outside(void) { return !access(out("secret"), F_OK); }
static int list_outside(void) { return lists(given("out"), "secret"); }
static int list_state(void) { return lists(given("state"), NULL); }
static int list_runtime(void) { return lists(given("runtime"), NULL); }
static int read_shadow(void) { return reads("/etc/shadow", ":"); }
static int read_ssh_host_keys(void) { return lists("/etc/ssh", NULL); }
static int write_outside(void) { return writable(out("secret")); }
static int create_outside(void) {
    int fd = open(out("made"), O_WRONLY | O_CREAT, 0600);
    return fd >= 0;
}
static int mkdir_outside(void) { return !mkdir(out("made-dir"), 0700) || errno == EEXIST; }
static int unlink_outside(void) { return !unlink(out("to-unlink")); }
static int rename_outside(void) {
    return !rename(out("to-rename"), out("renamed")) || !rename(out("renamed"), out("to-rename"));
}
static int rename_into_workspace(void) { return !rename(out("to-take"), "taken"); }
static int chmod_outside(void) { return !chmod(out("secret"), 0600); }
static int fchmodat2_outside(void) { return !syscall(SYS_fchmodat2, AT_FDCWD, out("secret"), 0600, 0); }
static int chown_outside(void) { return !chown(out("secret"), getuid(), getgid()); }
static int utime_outside(void) { return !utimes(out("secret"), NULL); }
static int setxattr_outside(void) { return !setxattr(out("secret"), "user.trl", "x", 1, 0); }
static int setxattrat_outside(void) {
    struct { unsigned long long value; unsigned size, flags; } value = {(unsigned long long)(size_t)"x", 1, 0};
    return !syscall(SETXATTRAT, AT_FDCWD, out("secret"), 0, "user.trl", &value, sizeof value);
}
static int file_setattr_outside(void) {
    unsigned long long attributes[4] = {0};
    return !syscall(FILE_SETATTR, AT_FDCWD, out("secret"), attributes, 24, 0);
}
static int truncate_outside(void) { return !truncate(out("to-truncate"), 0); }
static int write_usr(void) {
    int fd = open("/usr/trl-escape-test", O_WRONLY | O_CREAT, 0600);
    if (fd >= 0) unlink("/usr/trl-escape-test");
    return fd >= 0;
}
static int write_etc(void) { return writable("/etc/hosts"); }
static int symlink_out(void) {
    unlink("link");
    return !symlink(out("secret"), "link") && reads("link", SECRET);
}
static int symlink_dir_out(void) {
    unlink("dirlink");
    return !symlink(given("out"), "dirlink") && reads("dirlink/secret", SECRET);
}
static int hardlink_out(void) {
    unlink("hard");
    return !link(out("secret"), "hard") && reads("hard", SECRET);
}
static int dotdot_out(void) {
    char path[8192] = "";
    for (int i = 0; i < 40; i++) strcat(path, "../");
    strcat(path, out("secret") + 1);
    return reads(path, SECRET);
}
static int proc_self_root(void) { return reads(in("/proc/self/root", out("secret") + 1), SECRET); }
static int proc_self_cwd_dotdot(void) {
    char path[8192] = "/proc/self/cwd/";
    for (int i = 0; i < 40; i++) strcat(path, "../");
    strcat(path, out("secret") + 1);
    return reads(path, SECRET);
}
static int proc_1_root(void) { return reads(in("/proc/1/root", out("secret") + 1), SECRET); }
static int proc_1_cwd(void) {
    char path[8192] = "/proc/1/cwd/";
    for (int i = 0; i < 40; i++) strcat(path, "../");
    strcat(path, out("secret") + 1);
    return reads(path, SECRET);
}
static int proc_1_environ(void) { return reads("/proc/1/environ", NULL); }
static int proc_1_mem(void) {
    int fd = open("/proc/1/mem", O_RDWR);
    return fd >= 0;
}
static int proc_1_maps(void) { return reads("/proc/1/maps", NULL); }
static int proc_any_root(void) {
    DIR *dir = opendir("/proc");
    struct dirent *entry;
    while (dir && (entry = readdir(dir))) {
        char path[8192];
        snprintf(path, sizeof path, "/proc/%s/root%s", entry->d_name, out("secret"));
        if (atoi(entry->d_name) > 0 && reads(path, SECRET)) return 1;
    }
    return 0;
}
static int proc_any_environ(void) {
    DIR *dir = opendir("/proc");
    struct dirent *entry;
    while (dir && (entry = readdir(dir))) {
        char path[8192];
        snprintf(path, sizeof path, "/proc/%s/environ", entry->d_name);
        if (atoi(entry->d_name) > 0 && reads(path, "SECRET_OF_VICTIM=")) return 1;
    }
    return 0;
}
static int proc_any_fd(void) {
    DIR *dir = opendir("/proc");
    struct dirent *entry;
    while (dir && (entry = readdir(dir))) {
        for (int fd = 3; atoi(entry->d_name) > 0 && fd < 32; fd++) {
            char path[8192];
            struct stat meta;
            snprintf(path, sizeof path, "/proc/%s/fd/%d", entry->d_name, fd);
            // Not a pipe: it would take away what this program has printed.
            if (stat(path, &meta) || !S_ISREG(meta.st_mode)) continue;
            if (reads(path, SECRET)) return 1;
        }
    }
    return 0;
}
static int proc_victim_mem(void) {
    int fd = open(proc_of("victim", "mem"), O_RDWR);
    return fd >= 0;
}
static int proc_victim_oom(void) { return writable(proc_of("victim", "oom_score_adj")); }
static int see_victim(void) { return reads(proc_of("victim", "cmdline"), "prepare"); }
static int see_daemon(void) { return reads(proc_of("daemon", "cmdline"), "serve"); }
static int inherited_descriptors(void) {
    for (int fd = 3; fd < 1024; fd++) {
        char link[64], path[4096] = {0};
        struct stat meta;
        if (fstat(fd, &meta)) continue;
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        if (readlink(link, path, sizeof path - 1) < 0) continue;
        if (S_ISDIR(meta.st_mode)) return 1;
        if (S_ISSOCK(meta.st_mode)) return 1;
        if (S_ISREG(meta.st_mode) && path[0] == '/' && strncmp(path, "/memfd:", 7)) return 1;
    }
    errno = ENOENT;
    return 0;
}

static int ptrace_victim(void) {
    // Without stopping it, which would outlast this program.
    if (ptrace(PTRACE_SEIZE, pid_given("victim"), 0, 0)) return 0;
    ptrace(PTRACE_DETACH, pid_given("victim"), 0, 0);
    return 1;
}
static int signal_victim(void) { return !kill(pid_given("victim"), 0); }
static int signal_daemon(void) { return !kill(pid_given("daemon"), 0); }
static int signal_host(void) { return !kill(pid_given("host"), 0); }
static int pidfd_victim(void) {
    int fd = syscall(SYS_pidfd_open, pid_given("victim"), 0);
    return fd >= 0 && !syscall(SYS_pidfd_send_signal, fd, 0, NULL, 0);
}
static int pidfd_getfd_victim(void) {
    int fd = syscall(SYS_pidfd_open, pid_given("victim"), 0);
    return fd >= 0 && syscall(SYS_pidfd_getfd, fd, 0, 0) >= 0;
}
static int memory_of_victim(void) {
    char local[8];
    struct iovec here = {local, 8}, there = {(void *)environ, 8};
    return process_vm_readv(pid_given("victim"), &here, 1, &there, 1, 0) >= 0 || errno == EFAULT;
}
static int prlimit_victim(void) {
    struct rlimit old;
    return !prlimit(pid_given("victim"), RLIMIT_CORE, NULL, &old);
}
static int prlimit_daemon(void) {
    struct rlimit old;
    return !prlimit(pid_given("daemon"), RLIMIT_CPU, NULL, &old);
}
static int prlimit_ancestors(void) {
    struct rlimit old;
    // Every process above the session's own shell is outside.
    return !prlimit(pid_given("host"), RLIMIT_CPU, NULL, &old);
}
static int priority_of_victim(void) { return !setpriority(PRIO_PROCESS, pid_given("victim"), 1); }
static int affinity_of_victim(void) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(0, &set);
    return !sched_setaffinity(pid_given("victim"), sizeof set, &set);
}
static int scheduler_of_victim(void) {
    struct sched_param param = {0};
    return !sched_setscheduler(pid_given("victim"), SCHED_BATCH, &param);
}
static int io_priority_of_victim(void) { return !syscall(SYS_ioprio_set, 1, pid_given("victim"), (2 << 13) | 7); }
static int kcmp_victim(void) { return syscall(SYS_kcmp, getpid(), pid_given("victim"), 1, 0, 0) >= 0; }
static int move_pages_victim(void) { return !syscall(SYS_move_pages, pid_given("victim"), 0, NULL, NULL, NULL, 0); }
static int scheduler_real_time(void) {
    struct sched_param param = {.sched_priority = 1}, usual = {0};
    int escaped = !sched_setscheduler(0, SCHED_FIFO, &param);
    sched_setscheduler(0, SCHED_OTHER, &usual);
    return escaped;
}

static key_t key_given(void) { return atoi(given("key")); }
static int sysv_shared_memory(void) { return shmget(key_given(), 0, 0) >= 0; }
static int sysv_numbers(void) {
    // Without asking for a key: by the number that the kernel counts with.
    struct shmid_ds found;
    for (int i = 0; i < 256; i++)
        if (shmctl(i, SHM_STAT, &found) >= 0 && found.shm_perm.__key == key_given()) return 1;
    return 0;
}
static int sysv_semaphores(void) { return semget(key_given(), 0, 0) >= 0; }
static int sysv_messages(void) { return msgget(key_given(), 0) >= 0; }
static int posix_shared_memory(void) { return reads(in("/dev/shm", given("shm")), SECRET); }
static int posix_messages(void) {
    char name[256];
    snprintf(name, sizeof name, "%s", given("mq"));
    return syscall(SYS_mq_open, name, O_RDONLY | O_NONBLOCK, 0, NULL) >= 0;
}
static int user_keyring(void) {
    return syscall(SYS_keyctl, 10 /* search */, -4 /* user keyring */, "user", given("keyname"), 0) >= 0;
}
static int add_to_keyring(void) { return syscall(SYS_add_key, "user", "trl-added", "x", 1, -4) >= 0; }
static int session_keyring(void) { return syscall(SYS_keyctl, 0 /* id */, -3 /* session */, 1) >= 0; }

static int unix_connect(const char *name, int abstract, int type) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
    size_t length = strlen(name) < 100 ? strlen(name) : 100;
    if (fd < 0) return 0;
    memcpy(address.sun_path + abstract, name, length);
    socklen_t size = offsetof(struct sockaddr_un, sun_path) + length + 1;
    return !connect(fd, (struct sockaddr *)&address, size - (abstract ? 0 : 0));
}
static int abstract_socket(void) { return unix_connect(given("abstract"), 1, SOCK_STREAM); }
static int path_socket(void) { return unix_connect(out("socket"), 0, SOCK_STREAM); }
static int tmp_socket(void) { return unix_connect(given("tmp_socket"), 0, SOCK_STREAM); }
static int run_socket(void) { return unix_connect(given("run_socket"), 0, SOCK_STREAM); }
static int dbus_socket(void) {
    return unix_connect("/run/dbus/system_bus_socket", 0, SOCK_STREAM) ||
           unix_connect("/var/run/dbus/system_bus_socket", 0, SOCK_STREAM);
}
static int docker_socket(void) {
    return unix_connect("/run/docker.sock", 0, SOCK_STREAM) || unix_connect("/var/run/docker.sock", 0, SOCK_STREAM) ||
           unix_connect("/run/containerd/containerd.sock", 0, SOCK_STREAM) ||
           unix_connect("/run/podman/podman.sock", 0, SOCK_STREAM);
}
static int ssh_agent_socket(void) {
    const char *path = getenv("SSH_AUTH_SOCK");
    return unix_connect(path ? path : given("tmp_socket"), 0, SOCK_STREAM);
}
static int daemon_socket(void) { return unix_connect(given("socket"), 0, SOCK_STREAM); }
static int any_socket_of_hosts(void) {
    DIR *dir = opendir(given("runtime"));
    struct dirent *entry;
    if (!dir) return 0;
    while ((entry = readdir(dir)))
        if (unix_connect(in(given("runtime"), entry->d_name), 0, SOCK_STREAM)) return 1;
    return 0;
}
static int bind_abstract(void) {
    // A name that the outside could take for somebody else's: reachable only if the name space is shared.
    return abstract_socket();
}
static int tcp_to(int family, const char *host) {
    struct sockaddr_storage address = {0};
    socklen_t size;
    if (family == AF_INET) {
        struct sockaddr_in *in4 = (void *)&address;
        in4->sin_family = family;
        in4->sin_port = htons(atoi(given("port")));
        inet_pton(family, host, &in4->sin_addr);
        size = sizeof *in4;
    } else {
        struct sockaddr_in6 *in6 = (void *)&address;
        in6->sin6_family = family;
        in6->sin6_port = htons(atoi(given("port6")));
        inet_pton(family, host, &in6->sin6_addr);
        size = sizeof *in6;
    }
    int fd = socket(family, SOCK_STREAM, 0);
    return fd >= 0 && !connect(fd, (void *)&address, size);
}
static int tcp_loopback(void) { return tcp_to(AF_INET, "127.0.0.1"); }
static int tcp_loopback_other(void) { return tcp_to(AF_INET, "127.0.0.53"); }
static int tcp_any(void) { return tcp_to(AF_INET, "0.0.0.0"); }
static int tcp_loopback_6(void) { return tcp_to(AF_INET6, "::1"); }
static int udp_to(const char *host) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(given("udp")))};
    struct timeval wait = {1, 0};
    char text[16];
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    inet_pton(AF_INET, host, &address.sin_addr);
    if (fd < 0 || connect(fd, (void *)&address, sizeof address)) return 0;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
    return send(fd, "?", 1, 0) == 1 && recv(fd, text, sizeof text, 0) > 0;
}
static int udp_loopback(void) { return udp_to("127.0.0.1"); }
static int dns_server(void) { return udp_to("127.0.0.53"); }
static int raw_socket(void) { return socket(AF_INET, SOCK_RAW, IPPROTO_ICMP) >= 0; }
static int packet_socket(void) { return socket(AF_PACKET, SOCK_RAW, htons(3)) >= 0; }
static int vsock(void) { return socket(AF_VSOCK, SOCK_STREAM, 0) >= 0; }
static int alg_socket(void) { return socket(AF_ALG, SOCK_SEQPACKET, 0) >= 0; }
static int netlink_kernel_events(void) { return socket(AF_NETLINK, SOCK_RAW, NETLINK_KOBJECT_UEVENT) >= 0; }
static int netlink_interfaces(void) {
    struct {
        struct nlmsghdr head;
        struct ifinfomsg info;
    } ask = {{sizeof ask, RTM_GETLINK, NLM_F_REQUEST | NLM_F_DUMP, 1, 0}, {0}};
    static char text[65536];
    int fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE), found = 0;
    if (fd < 0 || send(fd, &ask, sizeof ask, 0) < 0) return 0;
    ssize_t count = recv(fd, text, sizeof text, 0);
    for (struct nlmsghdr *head = (void *)text; NLMSG_OK(head, count); head = NLMSG_NEXT(head, count)) {
        if (head->nlmsg_type != RTM_NEWLINK) break;
        struct ifinfomsg *info = NLMSG_DATA(head);
        found |= !(info->ifi_flags & IFF_LOOPBACK) && (info->ifi_flags & IFF_UP);
    }
    errno = ENODEV;
    return found;
}

static int in_child(int (*attempt)(void)) {
    int pipes[2], result[2] = {0, EIO};
    if (pipe(pipes)) return 0;
    pid_t child = fork();
    if (!child) {
        result[0] = attempt();
        result[1] = errno;
        write(pipes[1], result, sizeof result);
        _exit(0);
    }
    close(pipes[1]);
    read(pipes[0], result, sizeof result);
    waitpid(child, NULL, 0);
    errno = result[1];
    return result[0];
}
static int do_unshare_user(void) { return !unshare(CLONE_NEWUSER); }
static int unshare_user(void) { return in_child(do_unshare_user); }
static int do_unshare_mount(void) { return !unshare(CLONE_NEWNS); }
static int unshare_mount(void) { return in_child(do_unshare_mount); }
static int do_unshare_net(void) { return !unshare(CLONE_NEWUSER | CLONE_NEWNET); }
static int unshare_net(void) { return in_child(do_unshare_net); }
static int clone_user(void) {
    pid_t child = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL);
    if (!child) _exit(0);
    if (child > 0) waitpid(child, NULL, 0);
    return child > 0;
}
static int clone3_user(void) {
    unsigned long long request[11] = {CLONE_NEWUSER, 0, 0, 0, SIGCHLD};
    pid_t child = syscall(SYS_clone3, request, 64);
    if (!child) _exit(0);
    if (child > 0) waitpid(child, NULL, 0);
    return child > 0;
}
static int do_setns(const char *kind) {
    char name[64];
    snprintf(name, sizeof name, "ns/%s", kind);
    int fd = open(proc_of("victim", name), O_RDONLY);
    return fd >= 0 && !setns(fd, 0);
}
static int do_setns_mount(void) { return do_setns("mnt") && reads(out("secret"), SECRET); }
static int setns_mount(void) { return in_child(do_setns_mount); }
static int do_setns_net(void) { return do_setns("net"); }
static int setns_net(void) { return in_child(do_setns_net); }
static int do_setns_pid1(void) {
    int fd = open("/proc/1/ns/net", O_RDONLY);
    return fd >= 0 && !setns(fd, 0);
}
static int setns_init(void) { return in_child(do_setns_pid1); }
static int do_mount_tmpfs(void) {
    // In a namespace of its own where that is possible, so that nothing outside changes.
    unshare(CLONE_NEWNS);
    mkdir("mnt", 0700);
    return !mount("none", "mnt", "tmpfs", 0, NULL);
}
static int mount_tmpfs(void) { return in_child(do_mount_tmpfs); }
static int do_mount_proc(void) {
    unshare(CLONE_NEWNS);
    mkdir("mnt", 0700);
    return !mount("none", "mnt", "proc", 0, NULL);
}
static int mount_proc(void) { return in_child(do_mount_proc); }
static int do_remount(void) {
    unshare(CLONE_NEWNS);
    mount("none", "/", NULL, MS_PRIVATE | MS_REC, NULL);
    return !mount("/usr", "/usr", NULL, MS_BIND, NULL) && !mount("none", "/usr", NULL, MS_REMOUNT | MS_BIND, NULL);
}
static int remount_writable(void) { return in_child(do_remount); }
static int do_umount(void) {
    unshare(CLONE_NEWNS);
    mount("none", "/", NULL, MS_PRIVATE | MS_REC, NULL);
    return !umount2("/proc", MNT_DETACH);
}
static int unmount_cover(void) { return in_child(do_umount); }
static int do_pivot(void) {
    unshare(CLONE_NEWNS);
    return !syscall(SYS_pivot_root, ".", ".") || errno == EINVAL;
}
static int pivot(void) { return in_child(do_pivot); }
static int do_chroot(void) {
    mkdir("jail", 0700);
    if (chroot("jail")) return 0;
    for (int i = 0; i < 60; i++) chdir("..");
    chroot(".");
    return reads(out("secret"), SECRET);
}
static int chroot_out(void) { return in_child(do_chroot); }
static int new_mount_interface(void) { return syscall(SYS_fsopen, "tmpfs", 0) >= 0; }
static int open_tree_clone(void) { return syscall(SYS_open_tree, AT_FDCWD, "/", 1 /* clone */) >= 0; }
static int open_tree_attr(void) {
    unsigned long long attributes[4] = {0};
    int fd = syscall(OPEN_TREE_ATTR, AT_FDCWD, "/", 1 /* clone */, attributes, sizeof attributes);
    return fd >= 0;
}
static int handles(void) {
    struct {
        struct file_handle head;
        char bytes[128];
    } handle = {{.handle_bytes = 128}, {0}};
    int mount_id, dir = open(".", O_RDONLY | O_DIRECTORY);
    if (name_to_handle_at(AT_FDCWD, ".", &handle.head, &mount_id, 0)) return 0;
    return open_by_handle_at(dir, &handle.head, O_RDONLY) >= 0;
}
static int make_device(void) {
    unlink("device");
    if (mknod("device", S_IFBLK | 0600, makedev(254, 0))) return 0;
    unlink("device");
    return 1;
}
static int make_memory_device(void) {
    unlink("memory");
    int made = !mknod("memory", S_IFCHR | 0600, makedev(1, 1)) && open("memory", O_RDONLY) >= 0;
    unlink("memory");
    return made;
}
static int open_disk(void) {
    DIR *dir = opendir("/dev");
    struct dirent *entry;
    while (dir && (entry = readdir(dir))) {
        struct stat meta;
        const char *path = in("/dev", entry->d_name);
        if (!stat(path, &meta) && S_ISBLK(meta.st_mode) && open(path, O_RDONLY) >= 0) return 1;
    }
    return 0;
}
static int open_kernel_log(void) { return open("/dev/kmsg", O_RDONLY | O_NONBLOCK) >= 0; }
static int open_memory(void) { return open("/dev/mem", O_RDONLY) >= 0; }
static int open_fuse(void) { return open("/dev/fuse", O_RDWR) >= 0; }
static int open_tun(void) { return open("/dev/net/tun", O_RDWR) >= 0; }
static int type_into_terminal(void) {
    int fd = open("/dev/tty", O_RDWR);
    if (fd < 0) fd = 0;
    return !ioctl(fd, TIOCSTI, "x");
}
static int other_terminals(void) {
    // Terminals of others, which are numbered where the outside's are visible.
    return given("terminal")[0] == '/' && writable(given("terminal"));
}

static int io_uring(void) {
    char params[256] = {0};
    return syscall(SYS_io_uring_setup, 1, params) >= 0;
}
static int bpf_map(void) {
    union bpf_attr attr = {.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4, .max_entries = 1};
    return syscall(SYS_bpf, BPF_MAP_CREATE, &attr, sizeof attr) >= 0;
}
static int perf_events(void) {
    struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE, .size = sizeof attr, .config = PERF_COUNT_SW_CPU_CLOCK};
    attr.exclude_kernel = 1;
    return syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0) >= 0;
}
static int page_faults(void) { return syscall(SYS_userfaultfd, 1 /* user mode only */) >= 0; }
static int load_kernel(void) { return !syscall(SYS_kexec_load, 0, 0, NULL, 0); }
static int load_module(void) { return !syscall(SYS_init_module, "x", 1, "") || (errno != EPERM && errno != ENOSYS); }
static int unload_module(void) { return !syscall(SYS_delete_module, "trl_no_such_module", 0) || (errno != EPERM && errno != ENOSYS); }
static int reboot_call(void) { return !syscall(SYS_reboot, 1, 2, 3, NULL) || errno == EINVAL; }
static int swap(void) { return !swapon("/nonexistent/trl", 0) || errno == ENOENT; }
static int accounting(void) { return !acct("/nonexistent/trl") || errno == ENOENT; }
static int host_name(void) {
    struct utsname name;
    uname(&name);
    return !sethostname(name.nodename, strlen(name.nodename));
}
static int kernel_log(void) {
    char text[16];
    return klogctl(3, text, sizeof text) >= 0;
}
static int file_events(void) { return syscall(SYS_fanotify_init, 0, 0) >= 0; }
static int core_pattern(void) { return writable("/proc/sys/kernel/core_pattern"); }
static int binary_formats(void) { return writable("/proc/sys/fs/binfmt_misc/register") || writable("/proc/sys/kernel/modprobe"); }
static int sysctl_write(void) { return writable("/proc/sys/kernel/threads-max"); }
static int sysrq(void) { return writable("/proc/sysrq-trigger"); }
static int uevent_helper(void) { return writable("/sys/kernel/uevent_helper") || writable("/sys/power/state"); }
static int kernel_symbols(void) { return reads("/proc/kcore", NULL) || reads("/proc/timer_list", NULL); }
static int cgroup_files(void) {
    const char *files[] = {"/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/memory/cgroup.procs",
                           "/sys/fs/cgroup/unified/cgroup.procs", "/sys/fs/cgroup/pids/tasks", NULL};
    for (int i = 0; files[i]; i++)
        if (writable(files[i])) return 1;
    return 0;
}
static int do_cgroup_mount(void) {
    unshare(CLONE_NEWNS);
    mkdir("cg", 0700);
    return !mount("none", "cg", "cgroup2", 0, NULL) && writable("cg/cgroup.procs");
}
static int cgroup_mount(void) { return in_child(do_cgroup_mount); }

static int run_self(int fd, const char *attempt) {
    int status;
    pid_t child = fork();
    if (!child) {
        char *words[64] = {(char *)self, (char *)attempt};
        for (int i = 0; i < 60 && arguments[i]; i++) words[i + 2] = arguments[i];
        dup2(open("/dev/null", O_WRONLY), 1);
        fexecve(fd, words, environ);
        _exit(99);
    }
    waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 42;
}
static int memfd_program(void) {
    static char text[1 << 20];
    int from = open("/proc/self/exe", O_RDONLY), to = memfd_create("x", MFD_CLOEXEC);
    ssize_t count;
    if (from < 0 || to < 0) return 0;
    while ((count = read(from, text, sizeof text)) > 0) write(to, text, count);
    errno = EACCES;
    return run_self(to, "read_secret");
}
static int setuid_program(void) {
    int fd = open(given("suid"), O_RDONLY);
    if (fd < 0) fd = open("suid", O_RDONLY);
    return fd >= 0 && getuid() != 0 && run_self(fd, "is_root");
}
// A program that others could run with this user's rights, left in the workspace.
static int has_set_id(const char *name) {
    struct stat meta;
    int found = !stat(name, &meta) && (meta.st_mode & (S_ISUID | S_ISGID));
    unlink(name);
    return found;
}
static const char *plain_file(const char *name) {
    unlink(name);
    close(open(name, O_CREAT | O_WRONLY, 0755));
    return name;
}
static int leave_setuid_chmod(void) {
    chmod(plain_file("suid-1"), 04755);
    return has_set_id("suid-1");
}
static int leave_setuid_fchmod(void) {
    int fd = open(plain_file("suid-2"), O_WRONLY);
    fchmod(fd, 04755);
    close(fd);
    return has_set_id("suid-2");
}
static int leave_setgid_fchmodat(void) {
    fchmodat(AT_FDCWD, plain_file("suid-3"), 02755, 0);
    return has_set_id("suid-3");
}
static int leave_setuid_fchmodat2(void) {
    syscall(SYS_fchmodat2, AT_FDCWD, plain_file("suid-4"), 04755, 0);
    return has_set_id("suid-4");
}
static int leave_setuid_open(void) {
    close(syscall(SYS_openat, AT_FDCWD, "suid-5", O_CREAT | O_WRONLY, 04755));
    return has_set_id("suid-5");
}
static int leave_setuid_openat2(void) {
    unsigned long long how[3] = {O_CREAT | O_WRONLY, 04755, 0};
    close(syscall(SYS_openat2, AT_FDCWD, "suid-6", how, sizeof how));
    return has_set_id("suid-6");
}
static int leave_setuid_mknod(void) {
    mknod("suid-7", S_IFREG | 04755, 0);
    return has_set_id("suid-7");
}
static int leave_setuid_creat(void) {
    close(creat("suid-8", 04755));
    return has_set_id("suid-8");
}
static int leave_setuid_temporary(void) {
    int fd = open(".", O_TMPFILE | O_WRONLY, 04755);
    struct stat meta;
    return fd >= 0 && !fstat(fd, &meta) && (meta.st_mode & S_ISUID);
}
static int is_root(void) { return geteuid() == 0; }
static int become_root(void) { return getuid() != 0 && (!setuid(0) || !setresuid(0, 0, 0)); }
static int become_other(void) { return getuid() == 0 && in_child(({ int f(void) { return !setuid(12345); } f; })); }
static int gain_capabilities(void) { return prctl(PR_CAPBSET_READ, 21 /* SYS_ADMIN */) == 1 && geteuid() == 0; }
static int new_privileges(void) { return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0; }
static int looser_filter(void) { return prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == 0; }
static int personality_change(void) {
    int escaped = syscall(SYS_personality, 0x0008) >= 0;
    syscall(SYS_personality, 0);
    return escaped;
}
static int race_symlink(void) {
    mkdir("real", 0700);
    close(open("real/secret", O_CREAT | O_WRONLY, 0600));
    unlink("swap");
    pid_t child = fork();
    if (!child) {
        for (;;) {
            symlink("real", "swap");
            unlink("swap");
            symlink(given("out"), "swap");
            unlink("swap");
        }
    }
    int escaped = 0;
    for (int i = 0; i < 20000 && !escaped; i++) escaped = reads("swap/secret", SECRET);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    return escaped;
}
static int race_rename(void) {
    mkdir("a", 0700);
    mkdir("a/b", 0700);
    int dir = open("a/b", O_RDONLY | O_DIRECTORY);
    rename("a/b", "b");
    char path[8192] = "";
    for (int i = 0; i < 40; i++) strcat(path, "../");
    strcat(path, out("secret") + 1);
    int fd = openat(dir, path, O_RDONLY);
    rmdir("b");
    return fd >= 0;
}
static int race_workspace(void) {
    // A directory that is exchanged for a link while files in it are opened by their whole path.
    mkdir("work", 0700);
    close(open("work/secret", O_CREAT | O_WRONLY, 0600));
    unlink("other");
    symlink(given("out"), "other");
    pid_t child = fork();
    if (!child)
        for (;;) syscall(SYS_renameat2, AT_FDCWD, "work", AT_FDCWD, "other", 2 /* exchange */);
    int escaped = 0;
    for (int i = 0; i < 20000 && !escaped; i++) escaped = reads("work/secret", SECRET);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    return escaped;
}
// Not an attempt that can be judged from here: a process that wants to outlive its session.
static void leave_escapee(void) {
    if (given("escapee")[0] == '/') return;
    pid_t child = fork();
    if (child) {
        waitpid(child, NULL, 0);
        return;
    }
    setsid();
    for (int signal_number = 1; signal_number < 32; signal_number++) signal(signal_number, SIG_IGN);
    if (fork()) _exit(0);
    for (int fd = 0; fd < 64; fd++) close(fd);
    for (;;) pause();
}
static int tokens_in_environment(void) {
    for (char **variable = environ; *variable; variable++)
        if (!strncmp(*variable, "TRL_AUTH_TOKEN=", 15) || !strncmp(*variable, "SSH_AUTH_SOCK=", 14) ||
            !strncmp(*variable, "TRL_SOCKET_PATH=", 16) || !strncmp(*variable, "DBUS_", 5)) return 1;
    errno = ENOENT;
    return 0;
}

#define ATTEMPT(name) {#name, name}
static const struct {
    const char *name;
    int (*attempt)(void);
} attempts[] = {
    // First, since others open descriptors.
    ATTEMPT(inherited_descriptors),
    ATTEMPT(read_secret), ATTEMPT(read_home), ATTEMPT(list_home), ATTEMPT(read_tmp), ATTEMPT(stat_outside),
    ATTEMPT(access_outside), ATTEMPT(list_outside), ATTEMPT(list_state), ATTEMPT(list_runtime), ATTEMPT(read_shadow),
    ATTEMPT(read_ssh_host_keys), ATTEMPT(write_outside), ATTEMPT(create_outside), ATTEMPT(mkdir_outside),
    ATTEMPT(unlink_outside), ATTEMPT(rename_outside), ATTEMPT(rename_into_workspace), ATTEMPT(chmod_outside),
    ATTEMPT(fchmodat2_outside), ATTEMPT(chown_outside), ATTEMPT(utime_outside), ATTEMPT(setxattr_outside),
    ATTEMPT(setxattrat_outside), ATTEMPT(file_setattr_outside),
    ATTEMPT(truncate_outside), ATTEMPT(write_usr), ATTEMPT(write_etc), ATTEMPT(symlink_out), ATTEMPT(symlink_dir_out),
    ATTEMPT(hardlink_out), ATTEMPT(dotdot_out), ATTEMPT(proc_self_root), ATTEMPT(proc_self_cwd_dotdot),
    ATTEMPT(proc_1_root), ATTEMPT(proc_1_cwd), ATTEMPT(proc_1_environ), ATTEMPT(proc_1_mem), ATTEMPT(proc_1_maps),
    ATTEMPT(proc_any_root), ATTEMPT(proc_any_environ), ATTEMPT(proc_any_fd), ATTEMPT(proc_victim_mem),
    ATTEMPT(proc_victim_oom), ATTEMPT(see_victim), ATTEMPT(see_daemon),
    ATTEMPT(ptrace_victim), ATTEMPT(signal_victim), ATTEMPT(signal_daemon), ATTEMPT(signal_host),
    ATTEMPT(pidfd_victim), ATTEMPT(pidfd_getfd_victim), ATTEMPT(memory_of_victim), ATTEMPT(prlimit_victim),
    ATTEMPT(prlimit_daemon), ATTEMPT(prlimit_ancestors), ATTEMPT(priority_of_victim), ATTEMPT(affinity_of_victim),
    ATTEMPT(scheduler_of_victim), ATTEMPT(io_priority_of_victim), ATTEMPT(kcmp_victim), ATTEMPT(move_pages_victim),
    ATTEMPT(scheduler_real_time), ATTEMPT(sysv_shared_memory), ATTEMPT(sysv_semaphores), ATTEMPT(sysv_messages),
    ATTEMPT(sysv_numbers), ATTEMPT(dbus_socket), ATTEMPT(docker_socket), ATTEMPT(ssh_agent_socket),
    ATTEMPT(posix_shared_memory), ATTEMPT(posix_messages), ATTEMPT(user_keyring), ATTEMPT(add_to_keyring),
    ATTEMPT(session_keyring), ATTEMPT(abstract_socket), ATTEMPT(path_socket), ATTEMPT(tmp_socket), ATTEMPT(run_socket),
    ATTEMPT(daemon_socket), ATTEMPT(any_socket_of_hosts), ATTEMPT(tcp_loopback), ATTEMPT(tcp_loopback_other),
    ATTEMPT(tcp_any), ATTEMPT(tcp_loopback_6), ATTEMPT(udp_loopback), ATTEMPT(dns_server), ATTEMPT(raw_socket),
    ATTEMPT(packet_socket), ATTEMPT(vsock), ATTEMPT(alg_socket), ATTEMPT(netlink_kernel_events),
    ATTEMPT(netlink_interfaces), ATTEMPT(unshare_user), ATTEMPT(unshare_mount), ATTEMPT(unshare_net),
    ATTEMPT(clone_user), ATTEMPT(clone3_user), ATTEMPT(setns_mount), ATTEMPT(setns_net), ATTEMPT(setns_init),
    ATTEMPT(mount_tmpfs), ATTEMPT(mount_proc), ATTEMPT(remount_writable), ATTEMPT(unmount_cover), ATTEMPT(pivot),
    ATTEMPT(chroot_out), ATTEMPT(new_mount_interface), ATTEMPT(open_tree_clone), ATTEMPT(open_tree_attr), ATTEMPT(handles),
    ATTEMPT(make_device), ATTEMPT(make_memory_device), ATTEMPT(open_disk), ATTEMPT(open_kernel_log),
    ATTEMPT(open_memory), ATTEMPT(open_fuse), ATTEMPT(open_tun), ATTEMPT(type_into_terminal),
    ATTEMPT(other_terminals), ATTEMPT(io_uring), ATTEMPT(bpf_map), ATTEMPT(perf_events), ATTEMPT(page_faults),
    ATTEMPT(load_kernel), ATTEMPT(load_module), ATTEMPT(unload_module), ATTEMPT(reboot_call), ATTEMPT(swap),
    ATTEMPT(accounting), ATTEMPT(host_name), ATTEMPT(kernel_log), ATTEMPT(file_events), ATTEMPT(core_pattern),
    ATTEMPT(binary_formats), ATTEMPT(sysctl_write), ATTEMPT(sysrq), ATTEMPT(uevent_helper), ATTEMPT(kernel_symbols),
    ATTEMPT(cgroup_files), ATTEMPT(cgroup_mount), ATTEMPT(memfd_program), ATTEMPT(setuid_program),
    ATTEMPT(become_root), ATTEMPT(become_other), ATTEMPT(gain_capabilities), ATTEMPT(new_privileges),
    ATTEMPT(looser_filter), ATTEMPT(personality_change), ATTEMPT(race_symlink), ATTEMPT(race_rename),
    ATTEMPT(race_workspace), ATTEMPT(tokens_in_environment),
    ATTEMPT(leave_setuid_chmod), ATTEMPT(leave_setuid_fchmod), ATTEMPT(leave_setgid_fchmodat),
    ATTEMPT(leave_setuid_fchmodat2), ATTEMPT(leave_setuid_open), ATTEMPT(leave_setuid_openat2),
    ATTEMPT(leave_setuid_mknod), ATTEMPT(leave_setuid_creat), ATTEMPT(leave_setuid_temporary),
};

// Outside: IPC objects, a key, a queue, and an open file, for as long as somebody listens.
static int prepare(void) {
    int fd;
    shmget(key_given(), 4096, IPC_CREAT | 0600);
    semget(key_given(), 1, IPC_CREAT | 0600);
    msgget(key_given(), IPC_CREAT | 0600);
    fd = open(in("/dev/shm", given("shm")), O_CREAT | O_RDWR, 0600);
    write(fd, SECRET, strlen(SECRET));
    close(fd);
    syscall(SYS_mq_open, given("mq"), O_RDONLY | O_CREAT, 0600, NULL);
    syscall(SYS_keyctl, 0, -4, 1);
    syscall(SYS_add_key, "user", given("keyname"), "x", 1, -4);
    open(out("secret"), O_RDONLY);
    puts("ready");
    fflush(stdout);
    char byte;
    while (read(0, &byte, 1) > 0) continue;
    shmctl(shmget(key_given(), 0, 0), IPC_RMID, NULL);
    semctl(semget(key_given(), 0, 0), 0, IPC_RMID);
    msgctl(msgget(key_given(), 0), IPC_RMID, NULL);
    unlink(in("/dev/shm", given("shm")));
    syscall(SYS_mq_unlink, given("mq"));
    syscall(SYS_keyctl, 9 /* unlink */, syscall(SYS_keyctl, 10, -4, "user", given("keyname"), 0), -4);
    return 0;
}

int main(int count, char **words) {
    size_t number = sizeof attempts / sizeof *attempts;
    if (count < 2) return 2;
    self = words[0];
    arguments = words + 2;
    if (!strcmp(words[1], "prepare")) return prepare();
    if (!strcmp(words[1], "is_root")) return is_root() ? 42 : 0;
    for (size_t i = 0; i < number; i++) {
        if (!strcmp(words[1], "list")) {
            puts(attempts[i].name);
            continue;
        }
        int all = !strcmp(words[1], "all");
        if (!all && strcmp(words[1], attempts[i].name)) continue;
        errno = 0;
        int escaped = attempts[i].attempt();
        if (all)
            printf("%s %s\n", attempts[i].name, escaped ? "escaped" : "held");
        else if (escaped)
            puts("escaped");
        else
            printf("held %s\n", strerror(errno));
        fflush(stdout);
        if (!all) return escaped ? 42 : 0;
    }
    if (!strcmp(words[1], "all")) leave_escapee();
    return 0;
}
