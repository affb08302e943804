// A program that gets its sockets from the C library, and waits, sends and receives by system calls of its own.
// Prints a line for each call. It is also built as a library, for a program that calls `all`.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifdef CONSTANT
__attribute__((always_inline))
#endif
static inline long call(long number, long a, long b, long c, long d, long e, long f)
{
#if defined(__x86_64__)
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
#else
    register long x8 __asm__("x8") = number, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d, x4 __asm__("x4") = e, x5 __asm__("x5") = f;
    __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
    return x0;
#endif
}

static int listener, client;
static struct timespec limit = {600, 0};

static int by_epoll(int fd, int second)
{
    int set = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    epoll_ctl(set, EPOLL_CTL_ADD, fd, &event);
    event.data.fd = -1;
    long found = second ? call(SYS_epoll_pwait2, set, (long)&event, 1, (long)&limit, 0, 8)
                        : call(SYS_epoll_pwait, set, (long)&event, 1, 600000, 0, 8);
    close(set);
    return found == 1 && event.data.fd == fd && event.events == EPOLLIN;
}

static int by_poll(int fd)
{
    struct pollfd one = {.fd = fd, .events = POLLIN};
    struct timespec left = limit;
    return call(SYS_ppoll, (long)&one, 1, (long)&left, 0, 8, 0) == 1 && one.revents == POLLIN;
}

static int by_select(int fd)
{
    fd_set set;
    FD_ZERO(&set);
    FD_SET(fd, &set);
    struct timespec left = limit;
    return call(SYS_pselect6, fd + 1, (long)&set, 0, 0, (long)&left, 0) == 1 && FD_ISSET(fd, &set);
}

static void say(const char *what, int right)
{
    printf("%s: %s\n", what, right ? "right" : "WRONG");
    fflush(stdout);
}

int all(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    char byte = 'x', got = 0;
    listener = socket(AF_INET, SOCK_STREAM, 0);
    client = socket(AF_INET, SOCK_STREAM, 0);
    int datagrams = socket(AF_INET, SOCK_DGRAM, 0);
    if (bind(listener, (void *)&at, len) || listen(listener, 5) || getsockname(listener, (void *)&at, &len)) {
        perror("listen");
        return 1;
    }
    connect(client, (void *)&at, len);
    say("epoll_pwait", by_epoll(listener, 0));
    int server = accept(listener, 0, 0);
    say("write", call(SYS_write, client, (long)&byte, 1, 0, 0, 0) == 1);
    say("epoll_pwait2", by_epoll(server, 1));
    say("ppoll", by_poll(server));
    say("pselect6", by_select(server));
    say("read", call(SYS_read, server, (long)&got, 1, 0, 0, 0) == 1 && got == byte);
    at.sin_port = 0;
    bind(datagrams, (void *)&at, len);
    getsockname(datagrams, (void *)&at, &len);
    say("sendto", call(SYS_sendto, datagrams, (long)&byte, 1, 0, (long)&at, len) == 1);
    say("datagram", by_poll(datagrams));
    say("recvfrom", call(SYS_recvfrom, datagrams, (long)&got, 1, 0, 0, 0) == 1);
    close(server);
    close(client);
    close(listener);
    close(datagrams);
    return 0;
}

int main(void)
{
    return all();
}
