/* A library for LD_PRELOAD: it counts the calls of connect(2) and says so at the end. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <sys/socket.h>

static int calls;

int connect(int fd, const struct sockaddr *to, socklen_t len) {
    int (*next)(int, const struct sockaddr *, socklen_t) = dlsym(RTLD_NEXT, "connect");
    calls++;
    return next(fd, to, len);
}

__attribute__((destructor)) static void end(void) {
    fprintf(stderr, "other library: %d connects\n", calls);
}
