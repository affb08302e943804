// Socket calls through syscall(2), by their numbers. The output is the same on the kernel's stack and on Tasuki.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static int a, b;
static volatile sig_atomic_t signals;

static void count(int signal)
{
    (void)signal;
    signals++;
}

static void say(const char *what, long result)
{
    printf("%s: %ld %s\n", what, result, result < 0 ? strerrorname_np(errno) : "");
    fflush(stdout);
}

static void pair(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    bind(listener, (void *)&at, len);
    listen(listener, 5);
    getsockname(listener, (void *)&at, &len);
    a = socket(AF_INET, SOCK_STREAM, 0);
    connect(a, (void *)&at, len);
    b = accept(listener, 0, 0);
    close(listener);
}

// What a wait of each kind says of `b`, which has input or has none.
static void waits(const char *when, struct timespec limit)
{
    printf("-- %s\n", when);
    int set = syscall(SYS_epoll_create1, EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 7}, got[2];
    say("epoll_ctl", syscall(SYS_epoll_ctl, set, EPOLL_CTL_ADD, b, &event));
    int ms = limit.tv_sec * 1000 + limit.tv_nsec / 1000000;
    say("epoll_pwait", syscall(SYS_epoll_pwait, set, got, 2, ms, NULL, 8));
    say("epoll_pwait2", syscall(SYS_epoll_pwait2, set, got, 2, &limit, NULL, 8));
    say("mask of another size", syscall(SYS_epoll_pwait, set, got, 2, ms, &(sigset_t){0}, 16));
    struct pollfd one[2] = {{.fd = b, .events = POLLIN}, {.fd = set, .events = POLLIN}};
    struct timespec left = limit;
    say("ppoll", syscall(SYS_ppoll, one, 2, &left, NULL, 8));
    printf("events %d %d, whole time left %d\n", one[0].revents, one[1].revents, left.tv_sec == limit.tv_sec && left.tv_nsec == limit.tv_nsec);
    for (int fd = 0; fd < 2; fd++) {
        int number = fd ? set : b;
        fd_set read;
        FD_ZERO(&read);
        FD_SET(number, &read);
        left = limit;
        long none[2] = {0, 8};
        say("pselect6", syscall(SYS_pselect6, number + 1, &read, NULL, NULL, &left, none));
        printf("member %d\n", FD_ISSET(number, &read) != 0);
#ifdef SYS_select
        struct timeval time = {limit.tv_sec, limit.tv_nsec / 1000};
        FD_SET(number, &read);
        say("select", syscall(SYS_select, number + 1, &read, NULL, NULL, &time));
#endif
    }
    close(set);
}

// A signal that the mask lets in ends each wait.
static void masks(void)
{
    printf("-- masks\n");
    sigset_t blocked, empty;
    sigemptyset(&empty);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    signal(SIGUSR1, count);
    int set = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN}, got;
    epoll_ctl(set, EPOLL_CTL_ADD, b, &event);
    struct timespec limit = {600, 0};
    struct pollfd one = {.fd = b, .events = POLLIN};
    fd_set read;
    FD_ZERO(&read);
    FD_SET(b, &read);
    long mask[2] = {(long)&empty, 8};
    kill(getpid(), SIGUSR1);
    say("epoll_pwait", syscall(SYS_epoll_pwait, set, &got, 1, -1, &empty, 8));
    kill(getpid(), SIGUSR1);
    say("epoll_pwait2", syscall(SYS_epoll_pwait2, set, &got, 1, NULL, &empty, 8));
    kill(getpid(), SIGUSR1);
    say("ppoll", syscall(SYS_ppoll, &one, 1, &limit, &empty, 8));
    kill(getpid(), SIGUSR1);
    say("pselect6", syscall(SYS_pselect6, b + 1, &read, NULL, NULL, &limit, mask));
    printf("signals %d\n", (int)signals);
    close(set);
}

static void positions(void)
{
    printf("-- positions\n");
    char text[8] = "abcdefg", got[8] = "";
    struct iovec from = {text, 7}, to = {got, 7};
    say("pwritev2", syscall(SYS_pwritev2, a, &from, 1, -1L, -1L, 0));
    struct pollfd one = {.fd = b, .events = POLLIN};
    poll(&one, 1, -1);
    say("preadv2", syscall(SYS_preadv2, b, &to, 1, -1L, -1L, RWF_NOWAIT));
    say("preadv2 of nothing", syscall(SYS_preadv2, b, &to, 1, -1L, -1L, RWF_NOWAIT));
    say("preadv2 at a position", syscall(SYS_preadv2, b, &to, 1, 0L, 0L, 0));
    say("pread64", syscall(SYS_pread64, b, got, 7, 0L));
    say("lseek", syscall(SYS_lseek, b, 0L, SEEK_SET));
    printf("%s\n", got);
}

static void ranges(void)
{
    printf("-- ranges\n");
    int copy = syscall(SYS_dup, b), other = socket(AF_INET, SOCK_DGRAM, 0);
    say("close_range, close on exec", syscall(SYS_close_range, copy, copy, CLOSE_RANGE_CLOEXEC));
    say("flags", fcntl(copy, F_GETFD));
    say("close_range of none", syscall(SYS_close_range, 9, 8, 0));
    say("close_range, unknown flag", syscall(SYS_close_range, copy, copy, 64));
    say("close_range, unshare", syscall(SYS_close_range, other, other, CLOSE_RANGE_UNSHARE));
    say("close", close(other));
    say("close_range of all", syscall(SYS_close_range, (a > b ? a : b) + 1, ~0U, 0));
    say("close", close(copy));
    say("write", write(a, "x", 1));
    char got = 0;
    say("read", read(b, &got, 1));
    a = b = -1;
    pair();
    say("write", write(a, "x", 1));
    say("read", read(b, &got, 1));
}

int main(void)
{
    pair();
    waits("no input", (struct timespec){0, 1000000});
    say("write", syscall(SYS_write, a, "x", 1));
    struct pollfd one = {.fd = b, .events = POLLIN};
    poll(&one, 1, -1);
    char got;
    waits("input", (struct timespec){600, 0});
    say("read", syscall(SYS_read, b, &got, 1));
    masks();
    positions();
    ranges();
    return 0;
}
