/* A program without any library between it and the kernel: linked statically, it makes each socket
 * call by syscall(2). Usage:
 *
 *   raw fetch ADDRESS PORT BYTES    sends BYTES bytes, ends sending, prints how many came back
 *   raw nonblocking ADDRESS PORT    connects without waiting, prints what poll(2) and SO_ERROR say
 *   raw serve ADDRESS PORT          prints "ready"; returns to each of 2 peers what it sends, in a
 *                                   forked child; prints the peers' addresses
 *   raw ask ADDRESS PORT            sends a datagram, prints the answer and who sent it
 *   raw answer ADDRESS PORT         prints "ready", answers 1 datagram
 *   raw reset ADDRESS PORT          prints what recv(2) says after the peer's reset
 *   raw calls                       prints what refused calls say
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static char bytes[65536];

static void say(const char *what, long result) {
    if (result < 0)
        printf("%s: %s\n", what, strerrorname_np(errno));
    else
        printf("%s: %ld\n", what, result);
    fflush(stdout);
}

static long check(const char *what, long result) {
    if (result < 0) {
        say(what, result);
        exit(1);
    }
    return result;
}

static union {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
} peer;
static socklen_t length;

static int make(const char *address, const char *port, int type) {
    memset(&peer, 0, sizeof peer);
    if (inet_pton(AF_INET, address, &peer.v4.sin_addr) == 1) {
        peer.v4.sin_family = AF_INET;
        peer.v4.sin_port = htons(atoi(port));
        length = sizeof peer.v4;
    } else {
        inet_pton(AF_INET6, address, &peer.v6.sin6_addr);
        peer.v6.sin6_family = AF_INET6;
        peer.v6.sin6_port = htons(atoi(port));
        length = sizeof peer.v6;
    }
    return check("socket", syscall(SYS_socket, peer.any.sa_family, type, 0));
}

static void print_end(const char *what, long call, int fd) {
    char text[INET6_ADDRSTRLEN];
    length = sizeof peer;
    check(what, syscall(call, fd, &peer, &length));
    if (peer.any.sa_family == AF_INET)
        printf("%s %s\n", what, inet_ntop(AF_INET, &peer.v4.sin_addr, text, sizeof text));
    else
        printf("%s %s\n", what, inet_ntop(AF_INET6, &peer.v6.sin6_addr, text, sizeof text));
    fflush(stdout);
}

static void fetch(int fd, long left) {
    print_end("local", SYS_getsockname, fd);
    print_end("peer", SYS_getpeername, fd);
    if (fork() == 0) {
        while (left > 0) {
            long len = left < (long)sizeof bytes ? left : (long)sizeof bytes;
            left -= check("write", syscall(SYS_write, fd, bytes, len));
        }
        syscall(SYS_shutdown, fd, SHUT_WR);
        _exit(0);
    }
    long came = 0, len;
    while ((len = check("read", syscall(SYS_read, fd, bytes, sizeof bytes))) > 0)
        came += len;
    wait(NULL);
    printf("came %ld\n", came);
}

static void serve(int fd) {
    int on = 1;
    syscall(SYS_setsockopt, fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    check("bind", syscall(SYS_bind, fd, &peer, length));
    check("listen", syscall(SYS_listen, fd, 16));
    puts("ready");
    fflush(stdout);
    for (int i = 0; i < 2; i++) {
        int one = check("accept", syscall(SYS_accept4, fd, NULL, NULL, 0));
        print_end("peer", SYS_getpeername, one);
        if (fork() == 0) {
            long len;
            while ((len = check("read", syscall(SYS_read, one, bytes, sizeof bytes))) > 0)
                check("write", syscall(SYS_write, one, bytes, len));
            _exit(0);
        }
        close(one);
    }
    close(fd);
    while (wait(NULL) > 0)
        ;
}

int main(int count, char **words) {
    const char *what = count > 1 ? words[1] : "";
    if (!strcmp(what, "calls")) {
        say("packet", syscall(SYS_socket, AF_PACKET, SOCK_RAW, 0));
        say("raw", syscall(SYS_socket, AF_INET, SOCK_RAW, IPPROTO_ICMP));
        say("io_uring", syscall(SYS_io_uring_setup, 8, NULL));
        say("unknown", syscall(SYS_socket, AF_INET, SOCK_STREAM, 99));
        return 0;
    }
    int datagrams = !strcmp(what, "ask") || !strcmp(what, "answer");
    int type = datagrams ? SOCK_DGRAM : SOCK_STREAM;
    if (!strcmp(what, "nonblocking"))
        type |= SOCK_NONBLOCK;
    int fd = make(words[2], words[3], type);
    if (!strcmp(what, "serve")) {
        serve(fd);
        return 0;
    }
    if (!strcmp(what, "answer")) {
        check("bind", syscall(SYS_bind, fd, &peer, length));
        puts("ready");
        fflush(stdout);
        length = sizeof peer;
        long len = check("recv", syscall(SYS_recvfrom, fd, bytes, sizeof bytes, 0, &peer, &length));
        check("send", syscall(SYS_sendto, fd, bytes, len, 0, &peer, length));
        return 0;
    }
    if (!strcmp(what, "ask")) {
        check("send", syscall(SYS_sendto, fd, "question", 8, 0, &peer, length));
        length = sizeof peer;
        long len = check("recv", syscall(SYS_recvfrom, fd, bytes, sizeof bytes, 0, &peer, &length));
        printf("%.*s from port %d\n", (int)len, bytes, ntohs(peer.v4.sin_port));
        return 0;
    }
    long connected = syscall(SYS_connect, fd, &peer, length);
    if (!strcmp(what, "nonblocking")) {
        say("connect", connected);
        struct pollfd wait = {.fd = fd, .events = POLLOUT};
        check("poll", syscall(SYS_poll, &wait, 1, 20000));
        int error = 0;
        socklen_t size = sizeof error;
        syscall(SYS_getsockopt, fd, SOL_SOCKET, SO_ERROR, &error, &size);
        printf("error %s\n", error ? strerrorname_np(error) : "none");
        return 0;
    }
    check("connect", connected);
    if (!strcmp(what, "reset")) {
        syscall(SYS_write, fd, "x", 1);
        say("read", syscall(SYS_read, fd, bytes, sizeof bytes));
        return 0;
    }
    fetch(fd, atol(words[4]));
    return 0;
}
