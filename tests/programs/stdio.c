/* A server as inetd starts it: it answers each line on standard input, which is the connection,
 * with stdio. `child` is that server; otherwise this is its parent, and a client of it. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(what)                                    \
	do {                                           \
		if (!(what)) {                         \
			perror(#what);                 \
			_exit(1);                      \
		}                                      \
	} while (0)

static int serve(void)
{
	char line[64];
	printf("%d ready\n", (int)getpid() > 0);
	fflush(stdout);
	while (fgets(line, sizeof line, stdin))
		/* Without fflush: it leaves when the buffer is full, and at exit. */
		printf("you said %s", line);
	fprintf(stderr, "end %d %d\n", !!feof(stdin), fileno(stdin));
	return 0;
}

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "child") == 0)
		return serve();
	struct sockaddr_in to = { AF_INET, 0, { htonl(INADDR_LOOPBACK) }, { 0 } };
	socklen_t len = sizeof to;
	int listener = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(bind(listener, (void *)&to, len) == 0 && listen(listener, 1) == 0);
	CHECK(getsockname(listener, (void *)&to, &len) == 0);
	CHECK(connect(client, (void *)&to, len) == 0);
	int served = accept(listener, NULL, NULL);
	CHECK(served >= 0);
	pid_t pid = fork();
	if (pid == 0) {
		close(client), close(listener);
		CHECK(dup2(served, 0) == 0 && dup2(served, 1) == 1);
		close(served);
		execl("/proc/self/exe", argv[0], "child", NULL);
		_exit(1);
	}
	close(served);
	FILE *in = fdopen(dup(client), "r"), *out = fdopen(client, "w");
	CHECK(in && out);
	setvbuf(out, NULL, _IOLBF, 0);
	char *line = NULL;
	size_t room = 0;
	CHECK(getline(&line, &room, in) > 0);
	printf("%s", line);
	for (int i = 0; i < 1000; i++)
		CHECK(fprintf(out, "number %d\n", i) > 0);
	CHECK(fflush(out) == 0 && shutdown(fileno(out), SHUT_WR) == 0);
	int lines = 0;
	while (getline(&line, &room, in) > 0) {
		char expected[64];
		snprintf(expected, sizeof expected, "you said number %d\n", lines);
		if (strcmp(line, expected) != 0)
			printf("%s", line);
		lines++;
	}
	int status;
	CHECK(feof(in) && !ferror(in) && fclose(in) == 0 && fclose(out) == 0);
	CHECK(waitpid(pid, &status, 0) == pid);
	printf("lines %d status %d\n", lines, status);
	return 0;
}
