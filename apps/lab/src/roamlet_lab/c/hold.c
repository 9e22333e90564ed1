/* Holds namespaces open, and goes into them. Three commands; roamlet_lab/spaces.py is the only caller:
     hold lab DIR [CGROUP...]          a lab: its process 1, and outside of it a janitor that clears away when it has gone
     hold node                         a machine in the lab: process 1 of namespaces of its own; prints its pid and returns
     hold enter KEEPER PID COMMAND...  runs COMMAND in the machine that is process PID of the lab whose process 1 is KEEPER here
   The first two read a shell script from their standard input, which they run in the new namespaces.

   All processes of a lab are in the PID namespace of its process 1, and all its devices and mounts in namespaces that only these
   processes have. So the kernel itself clears away when process 1 ends, whatever ended it. Process 1 is killed when the
   janitor ends. What is left to the janitor is DIR and the empty cgroups.

   `hold lab` gets three descriptors: 3, where the outcome is written ("ok JANITOR KEEPER", or whatever the script said); 4, whose
   end of file ends the lab unless a byte came before; 5, with a lock on DIR, which is held until DIR has gone. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { REPORT = 3, OWNER = 4, LOCK = 5 };

#define SPACES (CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWIPC)

static void
die(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(1);
}

/* The signals that were blocked when we began: what runs in a lab has that mask again. */
static sigset_t original;

/* fork(), the child in namespaces of its own. */
static pid_t
fork_into(unsigned long spaces)
{
    pid_t pid = (pid_t)syscall(SYS_clone, spaces | SIGCHLD, 0, 0, 0, 0);
    if (pid < 0) {
        die("no namespaces can be made here (clone)");
    }
    return pid;
}

static void
to_null(int descriptor, int flags)
{
    int null = open("/dev/null", flags | O_CLOEXEC);
    if (null >= 0) {
        dup2(null, descriptor);
        close(null);
    }
}

/* Runs the shell script at the standard input and waits for it; its output goes where its errors go. Returns its wait status. */
static int
run_script(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        dup2(2, 1);
        execl("/bin/sh", "sh", "-eu", (char *)NULL);
        _exit(127);
    }
    int status = -1;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return status;
}

/* What process 1 does for the rest of its life: waits for the processes that it inherits. */
static void
reap_for_ever(void)
{
    sigset_t children;
    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    sigprocmask(SIG_SETMASK, &children, NULL);
    for (;;) {
        int signal_number;
        while (waitpid(-1, NULL, WNOHANG) > 0) {
        }
        sigwait(&children, &signal_number);
    }
}

/* Process 1 of a lab or of a machine. `line` leads to whoever made it: a byte comes by it when all may begin, one goes
   back when the script has been run. Never returns. */
static void
be_first(int line)
{
    char byte;
    if (read(line, &byte, 1) != 1 || run_script() != 0) {
        _exit(1);
    }
    to_null(0, O_RDONLY);
    to_null(1, O_WRONLY);
    to_null(2, O_WRONLY);
    if (write(line, "r", 1) != 1) {
        _exit(1);
    }
    close(line);
    reap_for_ever();
}

/* Makes process 1 in new namespaces and waits until its script has been run. Returns its pid, or 0 when that failed. */
static pid_t
make_first(int dies_with_parent, const int *closed, int how_many)
{
    int line[2];
    char byte;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, line) != 0) {
        die("socketpair");
    }
    pid_t pid = fork_into(SPACES);
    if (pid == 0) {
        close(line[0]);
        setsid();
        sigprocmask(SIG_SETMASK, &original, NULL);
        for (int i = 0; i < how_many; i++) {
            close(closed[i]);
        }
        if (dies_with_parent) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
        }
        be_first(line[1]);
    }
    close(line[1]);
    int well = write(line[0], "g", 1) == 1 && read(line[0], &byte, 1) == 1;
    close(line[0]);
    if (!well) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        return 0;
    }
    return pid;
}

static int
remove_entry(const char *path, const struct stat *status, int kind, struct FTW *where)
{
    (void)status, (void)where;
    if (kind == FTW_DP) {
        rmdir(path);
    } else {
        unlink(path);
    }
    return 0;
}

static int
remove_folder(const char *path, const struct stat *status, int kind, struct FTW *where)
{
    (void)status, (void)where;
    if (kind == FTW_DP) {
        rmdir(path); /* the files in a cgroup go with it */
    }
    return 0;
}

static void
clear_away(const char *folder, char **cgroups)
{
    for (char **cgroup = cgroups; *cgroup; cgroup++) {
        /* The kernel may still be at work on those that have just been killed. */
        for (int tries = 0; tries < 200 && access(*cgroup, F_OK) == 0; tries++) {
            nftw(*cgroup, remove_folder, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
            if (access(*cgroup, F_OK) == 0) {
                usleep(10000);
            }
        }
    }
    nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

/* Waits until process 1 has ended by itself, or ends it: on a signal, or when the owner has gone. */
static void
watch(pid_t first, int signals)
{
    struct pollfd what[3] = {{.fd = signals, .events = POLLIN}, {.fd = OWNER, .events = POLLIN}, {.events = POLLIN}};
    what[2].fd = (int)syscall(SYS_pidfd_open, first, 0);
    if (what[2].fd < 0) {
        kill(first, SIGKILL);
    }
    while (what[2].fd >= 0) {
        char byte;
        if (poll(what, 3, -1) < 0) {
            continue;
        }
        if (what[2].revents) {
            break;
        }
        if (what[0].revents) {
            struct signalfd_siginfo taken;
            if (read(signals, &taken, sizeof taken) > 0) {
                kill(first, SIGKILL);
            }
        }
        if (what[1].revents) {
            if (read(OWNER, &byte, 1) != 1) {
                kill(first, SIGKILL);
            }
            what[1].fd = -1; /* a byte: the lab outlives its owner from now on */
        }
    }
    while (waitpid(first, NULL, 0) < 0 && errno == EINTR) {
    }
}

static int
lab(char **argv)
{
    const char *folder = argv[0];
    static const int closed[] = {REPORT, OWNER, LOCK};
    fcntl(OWNER, F_SETFD, FD_CLOEXEC);
    fcntl(LOCK, F_SETFD, FD_CLOEXEC);
    if (fork() != 0) {
        return 0; /* the janitor has no parent that waits for it: the process that made the lab may end, or go on */
    }
    setsid();
    if (chdir("/") != 0) {
        die("/");
    }
    to_null(1, O_WRONLY);
    sigset_t ending;
    sigemptyset(&ending);
    sigaddset(&ending, SIGTERM);
    sigaddset(&ending, SIGINT);
    sigaddset(&ending, SIGHUP);
    dup2(REPORT, 2);
    fcntl(REPORT, F_SETFD, FD_CLOEXEC);
    sigprocmask(SIG_BLOCK, &ending, NULL);
    pid_t first = make_first(1, closed, 3);
    int signals = signalfd(-1, &ending, SFD_CLOEXEC);
    if (first) {
        dprintf(REPORT, "ok %d %d\n", (int)getpid(), (int)first);
    }
    close(REPORT);
    to_null(0, O_RDONLY);
    to_null(2, O_WRONLY);
    if (first) {
        watch(first, signals);
    }
    clear_away(folder, argv + 1);
    /* The folder above goes with the last lab in it. */
    char *above = strdup(folder), *slash = above ? strrchr(above, '/') : NULL;
    if (slash) {
        *slash = '\0';
        rmdir(above);
    }
    return 0;
}

static int
node(void)
{
    pid_t first = make_first(0, NULL, 0);
    if (!first) {
        return 1;
    }
    printf("%d\n", (int)first);
    return 0;
}

static pid_t entered;

static void
hand_on(int signal_number)
{
    kill(entered, signal_number);
}

static void
go_into(const char *keeper, const char *pid)
{
    /* Mounts last: the others are found through a path of ours. */
    static const struct { const char *name; int kind; } spaces[] = {
        {"ipc", CLONE_NEWIPC}, {"uts", CLONE_NEWUTS}, {"net", CLONE_NEWNET}, {"pid", CLONE_NEWPID}, {"mnt", CLONE_NEWNS},
    };
    enum { COUNT = sizeof spaces / sizeof *spaces };
    int descriptors[COUNT];
    for (int i = 0; i < COUNT; i++) {
        char path[128];
        if (strcmp(pid, "1") == 0) {
            snprintf(path, sizeof path, "/proc/%s/ns/%s", keeper, spaces[i].name);
        } else {
            snprintf(path, sizeof path, "/proc/%s/root/proc/%s/ns/%s", keeper, pid, spaces[i].name);
        }
        descriptors[i] = open(path, O_RDONLY | O_CLOEXEC);
        if (descriptors[i] < 0) {
            fprintf(stderr, "the machine is not there any more: %s: %s\n", path, strerror(errno));
            exit(125);
        }
    }
    for (int i = 0; i < COUNT; i++) {
        if (setns(descriptors[i], spaces[i].kind) != 0) {
            fprintf(stderr, "cannot go into the machine's %s namespace: %s\n", spaces[i].name, strerror(errno));
            exit(125);
        }
        close(descriptors[i]);
    }
}

static void
pass_on_signals(void)
{
    static const int passed[] = {SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGINT, SIGQUIT};
    for (size_t i = 0; i < sizeof passed / sizeof *passed; i++) {
        /* A terminal tells the command itself when Ctrl-C is pressed. */
        int by_terminal = isatty(0) && (passed[i] == SIGINT || passed[i] == SIGQUIT);
        signal(passed[i], by_terminal ? SIG_IGN : hand_on);
    }
}

/* Runs the command as a child, because a process does not change its own PID namespace; ends as it ends. */
static int
enter(char **argv)
{
    sigset_t all;
    const char *terminal = getenv("TERM");
    char kind[64] = "TERM=";
    if (terminal) {
        strncat(kind, terminal, sizeof kind - 6);
    }
    char *environment[] = {
        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C.UTF-8",
        terminal ? kind : NULL, NULL,
    };
    go_into(argv[0], argv[1]);
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    entered = fork();
    if (entered < 0) {
        die("the machine takes no further process");
    }
    if (entered == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        sigprocmask(SIG_SETMASK, &original, NULL);
        if (chdir("/root") != 0 && chdir("/") != 0) {
            _exit(125);
        }
        environ = environment;
        execvp(argv[2], argv + 2);
        fprintf(stderr, "%s: %s\n", argv[2], strerror(errno));
        _exit(errno == ENOENT ? 127 : 126);
    }
    pass_on_signals();
    sigprocmask(SIG_SETMASK, &original, NULL);
    int status;
    while (waitpid(entered, &status, 0) < 0 && errno == EINTR) {
    }
    if (isatty(0)) {
        signal(SIGTTOU, SIG_IGN); /* a shell in there may have kept the terminal for itself */
        tcsetpgrp(0, getpgrp());
    }
    if (WIFSIGNALED(status)) {
        signal(WTERMSIG(status), SIG_DFL);
        kill(getpid(), WTERMSIG(status));
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int
main(int argc, char **argv)
{
    sigprocmask(SIG_SETMASK, NULL, &original);
    if (argc >= 3 && strcmp(argv[1], "lab") == 0) {
        return lab(argv + 2);
    }
    if (argc == 2 && strcmp(argv[1], "node") == 0) {
        return node();
    }
    if (argc >= 5 && strcmp(argv[1], "enter") == 0) {
        return enter(argv + 2);
    }
    fprintf(stderr, "usage: hold lab DIR [CGROUP...] | hold node | hold enter KEEPER PID COMMAND...\n");
    return 2;
}
