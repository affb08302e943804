/* A program that does its worst with socket calls, by the relay. Usage:
 *
 *   abuse ask ADDRESS PORT        exchanges bytes with an echo server once
 *   abuse descriptors             takes all descriptors, prints what stops it; then has one again
 *   abuse processes COUNT         so many children at once, with sockets each
 *   abuse killed ADDRESS PORT COUNT
 *                                 so many children that are killed amid their calls, while another
 *                                 one exchanges bytes with an echo server
 *   abuse changing ADDRESS PORT   a second thread changes the address during the calls
 *   abuse pointers                passes addresses that cannot be read
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static struct sockaddr_in peer;

static long check(const char *what, long result) {
    if (result < 0) {
        printf("%s: %s\n", what, strerrorname_np(errno));
        exit(1);
    }
    return result;
}

static int stream(void) {
    return check("socket", socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
}

/* Exchanges bytes until `stop` ends; at least once. */
static long exchange(int stop) {
    static char out[4096], in[4096];
    int fd = stream();
    check("connect", connect(fd, (struct sockaddr *)&peer, sizeof peer));
    struct pollfd end = {.fd = stop, .events = POLLIN};
    long rounds = 0;
    do {
        memset(out, rounds, sizeof out);
        check("write", write(fd, out, sizeof out));
        for (size_t have = 0; have < sizeof in;) {
            long len = check("read", read(fd, in + have, sizeof in - have));
            if (len == 0) {
                puts("the connection ended");
                exit(1);
            }
            have += len;
        }
        if (memcmp(in, out, sizeof in)) {
            puts("other bytes came");
            exit(1);
        }
        rounds++;
    } while (stop >= 0 && poll(&end, 1, 0) == 0);
    close(fd);
    return rounds;
}

static void descriptors(void) {
    struct rlimit limit = {64, 64};
    setrlimit(RLIMIT_NOFILE, &limit);
    for (int round = 0; round < 3; round++) {
        int last = -1, one;
        while ((one = socket(AF_INET, round % 2 ? SOCK_DGRAM : SOCK_STREAM, 0)) >= 0)
            last = one;
        printf("%s after %d\n", strerrorname_np(errno), last);
        for (; last > 2; last--)
            close(last);
    }
    close(stream());
}

/* Sockets of all kinds, for good. */
static void make_calls(void) {
    struct sockaddr_in any = {.sin_family = AF_INET};
    for (;;) {
        int one = socket(AF_INET, SOCK_STREAM, 0), two = socket(AF_INET, SOCK_DGRAM, 0);
        bind(one, (struct sockaddr *)&any, sizeof any);
        listen(one, 4);
        bind(two, (struct sockaddr *)&any, sizeof any);
        close(one);
        close(two);
    }
}

static void processes(int count) {
    int start[2], made = 0, good = 0, status;
    check("pipe", pipe(start));
    for (; made < count; made++) {
        pid_t child = fork();
        if (child < 0)
            break;
        if (child > 0)
            continue;
        char byte;
        close(start[1]);
        /* All at once. */
        if (read(start[0], &byte, 1) < 0)
            _exit(1);
        struct sockaddr_in any = {.sin_family = AF_INET};
        for (int i = 0; i < 2; i++) {
            int fd = stream();
            /* Ports that the system would choose may be those of other programs' connections. */
            any.sin_port = htons(20000 + 2 * made + i);
            check("bind", bind(fd, (struct sockaddr *)&any, sizeof any));
            check("listen", listen(fd, 4));
            check("socket", socket(AF_INET, SOCK_DGRAM, 0));
        }
        _exit(0);
    }
    close(start[0]);
    close(start[1]);
    while (wait(&status) > 0)
        good += status == 0;
    printf("%d of %d\n", good, made);
}

static void killed(int count) {
    int stop[2], status;
    check("pipe", pipe(stop));
    pid_t other = fork();
    if (other == 0) {
        close(stop[1]);
        printf("exchanged: %d\n", exchange(stop[0]) > 0);
        exit(0);
    }
    srand(14);
    for (int i = 0; i < count; i++) {
        pid_t child = check("fork", fork());
        if (child == 0)
            make_calls();
        usleep(rand() % 4000);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
    close(stop[1]);
    waitpid(other, &status, 0);
    printf("killed %d, the other one: %d\n", count, status);
}

static volatile int done;
static struct sockaddr_in *changed;

static void *change(void *unused) {
    (void)unused;
    for (unsigned i = 0; !done; i++) {
        changed->sin_family = i % 3 ? AF_INET : AF_INET6;
        changed->sin_port = i % 2 ? peer.sin_port : htons(9);
        changed->sin_addr.s_addr = i % 5 ? peer.sin_addr.s_addr : htonl(INADDR_LOOPBACK);
    }
    return NULL;
}

static void changing(void) {
    struct sockaddr_in name = peer;
    changed = &name;
    pthread_t thread;
    pthread_create(&thread, NULL, change, NULL);
    int connected = 0;
    for (int i = 0; i < 300; i++) {
        int fd = stream(), two = stream(), three = socket(AF_INET, SOCK_DGRAM, 0);
        connected += connect(fd, (struct sockaddr *)&name, sizeof name) == 0;
        bind(two, (struct sockaddr *)&name, sizeof name);
        listen(two, 4);
        bind(three, (struct sockaddr *)&name, sizeof name);
        sendto(three, "x", 1, 0, (struct sockaddr *)&name, sizeof name);
        close(fd);
        close(two);
        close(three);
    }
    done = 1;
    pthread_join(thread, NULL);
    printf("connected: %d\n", connected > 0);
}

static void *unmap(void *page) {
    while (!done) {
        munmap(page, 4096);
        mmap(page, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    }
    return NULL;
}

static void try_page(const char *what, void *page) {
    int fd = stream(), two = socket(AF_INET, SOCK_DGRAM, 0);
    int all = bind(fd, page, sizeof peer) < 0 && errno == EFAULT;
    all += connect(fd, page, sizeof peer) < 0 && errno == EFAULT;
    all += sendto(two, "x", 1, 0, page, sizeof peer) < 0 && errno == EFAULT;
    close(fd);
    close(two);
    printf("%s: %d of 3\n", what, all);
}

static void pointers(void) {
    int how = MAP_PRIVATE | MAP_ANONYMOUS;
    void *gone = mmap(NULL, 4096, PROT_READ | PROT_WRITE, how, -1, 0);
    void *none = mmap(NULL, 4096, PROT_NONE, how, -1, 0);
    void *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, how, -1, 0);
    munmap(gone, 4096);
    try_page("unmapped", gone);
    try_page("none", none);
    pthread_t thread;
    pthread_create(&thread, NULL, unmap, shared);
    for (int i = 0; i < 300; i++) {
        int fd = stream(), two = socket(AF_INET, SOCK_DGRAM, 0);
        bind(fd, shared, sizeof peer);
        listen(fd, 4);
        connect(two, shared, sizeof peer);
        close(fd);
        close(two);
    }
    done = 1;
    pthread_join(thread, NULL);
    puts("shared: done");
}

int main(int count, char **words) {
    const char *what = count > 1 ? words[1] : "";
    if (count > 3) {
        peer.sin_family = AF_INET;
        inet_pton(AF_INET, words[2], &peer.sin_addr);
        peer.sin_port = htons(atoi(words[3]));
    }
    if (!strcmp(what, "ask"))
        printf("exchanged: %d\n", exchange(-1) > 0);
    else if (!strcmp(what, "descriptors"))
        descriptors();
    else if (!strcmp(what, "processes"))
        processes(atoi(words[2]));
    else if (!strcmp(what, "killed"))
        killed(atoi(words[4]));
    else if (!strcmp(what, "changing"))
        changing();
    else if (!strcmp(what, "pointers"))
        pointers();
    return 0;
}
