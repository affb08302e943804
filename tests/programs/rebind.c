/* Binds, listens and closes at a few ports again and again, while a child connects to them. Prints
 * how many of its calls failed, by call and error. Usage: rebind ADDRESS PORT ROUNDS */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PORTS = 4 };

static struct sockaddr_in at;

static void connect_again_and_again(int first) {
    for (int i = 0;; i++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        at.sin_port = htons(first + i % PORTS);
        /* Refused, reset and accepted are all right. */
        connect(fd, (struct sockaddr *)&at, sizeof at);
        close(fd);
    }
}

int main(int count, char **words) {
    if (count != 4)
        return 2;
    at.sin_family = AF_INET;
    inet_pton(AF_INET, words[1], &at.sin_addr);
    int first = atoi(words[2]), rounds = atoi(words[3]), done = 0;
    pid_t child = fork();
    if (child == 0)
        connect_again_and_again(first);
    for (int i = 0; i < rounds; i++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        at.sin_port = htons(first + i % PORTS);
        const char *call = "bind";
        int result = bind(fd, (struct sockaddr *)&at, sizeof at);
        if (result == 0) {
            call = "listen";
            result = listen(fd, 16);
        }
        if (result < 0)
            printf("%d: %s: %s\n", i, call, strerrorname_np(errno));
        else
            done++;
        close(fd);
    }
    printf("%d of %d\n", done, rounds);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    return 0;
}
