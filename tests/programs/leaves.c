/* Leaves for a network namespace of its own in the way that is named, and looks what it can reach
 * there: leaves (unshare | syscall | clone | __clone | set FILE) ADDRESS PORT */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* The C library's other name for it, which no header has. */
int __clone(int (*)(void *), void *, int, void *, ...);

static struct sockaddr_in to;

static int try_connect(struct sockaddr_in address) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int done = connect(fd, (void *)&address, sizeof address);
    int error = errno;
    close(fd);
    return done ? error : 0;
}

static int look(void *unused) {
    (void)unused;
    printf("away: %s\n", strerror(try_connect(to)));
    int datagrams = socket(AF_INET, SOCK_DGRAM, 0);
    int sent = sendto(datagrams, "x", 1, 0, (void *)&to, sizeof to);
    printf("datagram: %s\n", sent < 0 ? strerror(errno) : "sent");
    /* Its own loopback, which it sets up by itself. */
    struct ifreq up = {.ifr_flags = IFF_UP};
    strcpy(up.ifr_name, "lo");
    printf("loopback: %s\n", ioctl(datagrams, SIOCSIFFLAGS, &up) ? strerror(errno) : "up");
    int server = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof own;
    if (bind(server, (void *)&own, length) || listen(server, 1)) perror("listen");
    getsockname(server, (void *)&own, &length);
    printf("itself: %s\n", strerror(try_connect(own)));
    fflush(stdout);
    return 0;
}

int main(int count, char **words) {
    if (count < 4) return 2;
    const char *how = words[1];
    to = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(atoi(words[count - 1]))};
    inet_pton(AF_INET, words[count - 2], &to.sin_addr);
    printf("before: %s\n", strerror(try_connect(to)));
    fflush(stdout);
    if (strstr(how, "clone")) {
        static char stack[256 << 10] __attribute__((aligned(16)));
        int (*call)(int (*)(void *), void *, int, void *, ...) = *how == '_' ? __clone : clone;
        int child = call(look, stack + sizeof stack, CLONE_NEWNET | SIGCHLD, 0), status;
        if (child < 0 || waitpid(child, &status, 0) < 0) return 3;
        printf("afterwards: %s\n", strerror(try_connect(to)));
        return status;
    }
    int here = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC), done = -1;
    if (!strcmp(how, "unshare")) done = unshare(CLONE_NEWNET);
    if (!strcmp(how, "syscall")) done = syscall(SYS_unshare, CLONE_NEWNET);
    if (!strcmp(how, "set")) done = setns(open(words[2], O_RDONLY | O_CLOEXEC), CLONE_NEWNET);
    if (done) return 3;
    look(0);
    if (setns(here, CLONE_NEWNET)) return 3;
    printf("afterwards: %s\n", strerror(try_connect(to)));
    return 0;
}
