/* A program that tries to reach Tasuki's processes of its own user. Usage:
 *
 *   reach processes     tries each process of Tasuki that /proc lists, and one of its own: prints
 *                       what it could do, and the names of those that it tried
 *   reach socket        makes a socket of IPv4 and a Unix socket: prints what happens
 *   reach listener      kills its relay, then tries to answer its own calls: prints what happens
 *
 * It begins at once, and again and again: so it would win a race with the start of a process. All
 * calls that the library has as well are made directly.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

/* How often it looks for processes, and how many descriptors of each it tries. */
enum { ROUNDS = 20, DESCRIPTORS = 32 };

#if defined __x86_64__
static long direct(long number, long a, long b, long c) {
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c)
                     : "rcx", "r11", "memory");
    return result;
}
#elif defined __aarch64__
static long direct(long number, long a, long b, long c) {
    register long x8 __asm__("x8") = number, x0 __asm__("x0") = a, x1 __asm__("x1") = b,
                  x2 __asm__("x2") = c;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
    return x0;
}
#endif

static int quiet, reached;

static void say(pid_t pid, const char *name, const char *what) {
    reached++;
    if (!quiet)
        printf("reached %s (%d) by %s\n", name, pid, what);
}

static void try_files(pid_t pid, const char *name) {
    static const char *const readable[] = {"environ", "maps", "auxv", "io", "stack"};
    static const char *const links[] = {"cwd", "root", "exe", "ns/net", "ns/user", "ns/mnt"};
    static const char *const folders[] = {"fd", "fdinfo", "map_files"};
    char path[64], byte;
    for (unsigned i = 0; i < sizeof readable / sizeof *readable; i++) {
        snprintf(path, sizeof path, "/proc/%d/%s", pid, readable[i]);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0 && read(fd, &byte, 1) > 0)
            say(pid, name, readable[i]);
        if (fd >= 0)
            close(fd);
    }
    snprintf(path, sizeof path, "/proc/%d/mem", pid);
    int memory = open(path, O_RDWR | O_CLOEXEC);
    if (memory >= 0) {
        say(pid, name, "mem");
        close(memory);
    }
    for (unsigned i = 0; i < sizeof links / sizeof *links; i++) {
        snprintf(path, sizeof path, "/proc/%d/%s", pid, links[i]);
        if (readlink(path, &byte, 1) >= 0)
            say(pid, name, links[i]);
    }
    for (unsigned i = 0; i < sizeof folders / sizeof *folders; i++) {
        snprintf(path, sizeof path, "/proc/%d/%s", pid, folders[i]);
        DIR *folder = opendir(path);
        if (folder && readdir(folder))
            say(pid, name, folders[i]);
        if (folder)
            closedir(folder);
    }
}

static void try_calls(pid_t pid, const char *name) {
    int handle = syscall(SYS_pidfd_open, pid, 0);
    for (int fd = 0; handle >= 0 && fd < DESCRIPTORS; fd++) {
        int copy = syscall(SYS_pidfd_getfd, handle, fd, 0);
        if (copy >= 0) {
            say(pid, name, "pidfd_getfd");
            close(copy);
        }
    }
    if (handle >= 0)
        close(handle);
    static const int requests[] = {PTRACE_SEIZE, PTRACE_ATTACH};
    for (unsigned i = 0; i < sizeof requests / sizeof *requests; i++) {
        if (ptrace(requests[i], pid, 0, 0))
            continue;
        say(pid, name, "ptrace");
        if (requests[i] == PTRACE_SEIZE)
            ptrace(PTRACE_INTERRUPT, pid, 0, 0);
        waitpid(pid, 0, __WALL);
        ptrace(PTRACE_DETACH, pid, 0, 0);
    }
    char byte;
    /* Nothing is there: a process that may read at all gets EFAULT. */
    struct iovec own = {&byte, 1}, other = {(void *)16, 1};
    if (process_vm_readv(pid, &own, 1, &other, 1, 0) >= 0 || errno == EFAULT)
        say(pid, name, "process_vm_readv");
    if (process_vm_writev(pid, &own, 1, &other, 1, 0) >= 0 || errno == EFAULT)
        say(pid, name, "process_vm_writev");
    if (syscall(SYS_kcmp, getpid(), pid, 0, 0, 0) >= 0)
        say(pid, name, "kcmp");
}

static int name_of(pid_t pid, char *name, int length) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/comm", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    int count = fd < 0 ? -1 : read(fd, name, length - 1);
    if (fd >= 0)
        close(fd);
    if (count <= 0)
        return 0;
    name[count - 1] = 0; /* in place of the line's end */
    return 1;
}

static int is_own(pid_t pid) {
    char path[64], line[256];
    unsigned user = -1;
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "Uid: %u", &user) == 1)
            break;
    if (file)
        fclose(file);
    return user == getuid();
}

/* Calls `visit` for each process of Tasuki that has this program's user. */
static void each(void (*visit)(pid_t, const char *)) {
    DIR *all = opendir("/proc");
    for (struct dirent *one; all && (one = readdir(all));) {
        pid_t pid = atoi(one->d_name);
        char name[32];
        if (!pid || pid == getpid() || !name_of(pid, name, sizeof name))
            continue;
        /* The last one has executed /proc/self/exe, and is a supervisor. */
        int ours = !strncmp(name, "tasuki", 6) || !strncmp(name, "passt", 5) || !strcmp(name, "exe");
        if (ours && is_own(pid))
            visit(pid, name);
    }
    if (all)
        closedir(all);
}

static char tried[16][32];

static void visit(pid_t pid, const char *name) {
    try_calls(pid, name);
    try_files(pid, name);
    for (int i = 0; i < 16 && strcmp(tried[i], name); i++)
        if (!*tried[i]) {
            strcpy(tried[i], name);
            break;
        }
}

static void look_at_descriptors(void) {
    for (int fd = 3; fd < 1024; fd++) {
        char path[64], link[64];
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        int length = readlink(path, link, sizeof link - 1);
        link[length < 0 ? 0 : length] = 0;
        if (!strncmp(link, "socket:", 7) || !strncmp(link, "anon_inode:", 11))
            printf("inherited %s\n", link);
    }
}

static void processes(void) {
    look_at_descriptors();
    for (int round = 0; round < ROUNDS; round++) {
        each(visit);
        /* Whatever begins with the first socket. */
        if (round == ROUNDS / 2)
            close(direct(SYS_socket, AF_INET, SOCK_STREAM, 0));
    }
    /* The same tries, on a process that permits them: a copy of this one. */
    int ends[2];
    char byte;
    if (pipe(ends))
        exit(2);
    pid_t child = fork();
    if (!child) {
        close(ends[1]);
        _exit(read(ends[0], &byte, 1));
    }
    quiet = 1, reached = 0;
    try_calls(child, "child");
    try_files(child, "child");
    kill(child, SIGKILL);
    waitpid(child, 0, 0);
    printf("ways to a process that permits it: %s\n", reached > 10 ? "many" : "few");
    for (int i = 0; i < 16 && *tried[i]; i++)
        printf("tried %s\n", tried[i]);
}

static void kill_relay(pid_t pid, const char *name) {
    if (!strcmp(name, "tasuki-relay") && kill(pid, SIGKILL) == 0)
        printf("killed %s\n", name);
}

static void result(const char *what, long done) {
    if (done < 0)
        printf("%s: %s\n", what, strerrorname_np(-done));
    else
        printf("%s: made\n", what);
}

/* A filter that has this program asked about socket(2). */
static long take_listener(void) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    return direct(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
                  (long)&program);
}

static void listener(void) {
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    result("listener", take_listener());
    each(kill_relay);
    /* The kernel notices its end when it has closed the descriptor. */
    long done;
    while ((done = direct(SYS_socket, AF_INET, SOCK_STREAM, 0)) != -ENOSYS && done < 0)
        usleep(10000);
    result("socket", done);
    result("listener", take_listener());
    result("Unix socket", direct(SYS_socket, AF_UNIX, SOCK_STREAM, 0));
}

static void sockets(void) {
    result("socket", direct(SYS_socket, AF_INET, SOCK_STREAM, 0));
    result("Unix socket", direct(SYS_socket, AF_UNIX, SOCK_STREAM, 0));
}

int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "processes"))
        processes();
    else if (argc > 1 && !strcmp(argv[1], "socket"))
        sockets();
    else if (argc > 1 && !strcmp(argv[1], "listener"))
        listener();
    else
        return 2;
    return 0;
}
