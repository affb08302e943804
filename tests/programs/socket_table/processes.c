/* Sockets in other processes: after fork, exec and posix_spawn, and passed by SCM_RIGHTS. */
#include "table.h"
#include <spawn.h>
#include <sys/wait.h>

extern char **environ;

/* Ways to another process, or back to this one. */
enum { FORK, EXEC, SPAWN, VFORK, PASS_TO_SELF, PASS_TO_CHILD, PASS_MANY };

/* What the other process does with the socket. */
enum { RECEIVE, SEND, NAMES_AND_EVENTS, ACCEPT, CLOSE };

static void use(struct scene *scene, int fd, long what)
{
	char bytes[8] = "";
	struct sockaddr_storage name = { 0 };
	socklen_t len = sizeof name;
	switch (what) {
	case RECEIVE: {
		long got = result(recv(fd, bytes, 4, MSG_DONTWAIT));
		say_bytes("bytes", bytes, got);
		break;
	}
	case SEND:
		result(send(fd, "kid", 3, MSG_DONTWAIT | MSG_NOSIGNAL));
		break;
	case NAMES_AND_EVENTS:
		result(getsockname(fd, (void *)&name, &len));
		say(" %u", len);
		say_events("poll", events_of(fd));
		say(" flags=%x", fcntl(fd, F_GETFL));
		break;
	case ACCEPT: {
		int made = accept(fd, NULL, NULL);
		result(made < 0 ? made : 0);
		if (made >= 0)
			result(send(made, "new", 3, MSG_NOSIGNAL));
		break;
	}
	case CLOSE:
		result(close(fd));
		break;
	}
	(void)scene;
}

/* The program again, as the child of EXEC, SPAWN and VFORK: `--child FD WHAT`. */
void child(char **words)
{
	struct scene scene = { .socket = atoi(words[0]) };
	use(&scene, scene.socket, atoi(words[1]));
	say_out(STDOUT_FILENO);
	_exit(0);
}

static void pass(int by, int fd, int many)
{
	char place[CMSG_SPACE(sizeof fd)] = { 0 }, byte = 'p';
	struct iovec vector = { &byte, 1 };
	struct mmsghdr message = { .msg_hdr = { NULL, 0, &vector, 1, place, sizeof place, 0 } };
	struct cmsghdr *head = CMSG_FIRSTHDR(&message.msg_hdr);
	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(sizeof fd);
	memcpy(CMSG_DATA(head), &fd, sizeof fd);
	CHECK((many ? sendmmsg(by, &message, 1, 0) : sendmsg(by, &message.msg_hdr, 0)) == 1);
}

static int passed(int by, int many)
{
	int fd = -1;
	char place[CMSG_SPACE(sizeof fd)], byte;
	struct iovec vector = { &byte, 1 };
	struct mmsghdr message = { .msg_hdr = { NULL, 0, &vector, 1, place, sizeof place, 0 } };
	CHECK((many ? recvmmsg(by, &message, 1, 0, NULL) : recvmsg(by, &message.msg_hdr, 0)) == 1);
	struct cmsghdr *head = CMSG_FIRSTHDR(&message.msg_hdr);
	CHECK(head && head->cmsg_type == SCM_RIGHTS);
	memcpy(&fd, CMSG_DATA(head), sizeof fd);
	return fd;
}

static void start(struct scene *scene, long way, long what, int report)
{
	char number[12], kind[12];
	char *words[] = { "/proc/self/exe", "--child", number, kind, NULL };
	snprintf(number, sizeof number, "%d", way == VFORK ? 9 : scene->socket);
	snprintf(kind, sizeof kind, "%ld", what);
	posix_spawn_file_actions_t actions;
	int status;
	pid_t pid;
	switch (way) {
	case SPAWN:
		CHECK(posix_spawn_file_actions_init(&actions) == 0);
		CHECK(posix_spawn_file_actions_adddup2(&actions, report, STDOUT_FILENO) == 0);
		CHECK(posix_spawn(&pid, words[0], &actions, NULL, words, environ) == 0);
		break;
	case VFORK:
		pid = vfork();
		if (pid == 0) {
			dup2(report, STDOUT_FILENO);
			dup2(scene->socket, 9);
			execve(words[0], words, environ);
			_exit(1);
		}
		break;
	default:
		pid = fork();
		if (pid == 0) {
			say_anew();
			if (way == EXEC) {
				dup2(report, STDOUT_FILENO);
				execv(words[0], words);
			} else {
				use(scene, scene->socket, what);
				say_out(report);
			}
			_exit(0);
		}
	}
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
	if (status)
		say(" status=%x", status);
}

static void run_in_child(struct scene *scene, long way, long what)
{
	int report[2];
	char text[512];
	CHECK(pipe(report) == 0);
	start(scene, way, what, report[1]);
	close(report[1]);
	long got = read(report[0], text, sizeof text - 1);
	close(report[0]);
	say(" child:%.*s here:", (int)(got > 0 ? got : 0), text);
	/* Then this process again. */
	if (what == SEND)
		say_received(scene, 3);
	use(scene, scene->socket, what == CLOSE ? NAMES_AND_EVENTS : what);
	if (what == SEND || what == CLOSE) {
		long sent = result(send(scene->socket, "own", 3, MSG_NOSIGNAL));
		/* A stream has both of this process. */
		say_received(scene, sent < 0 ? sent : what == SEND && scene->type == SOCK_STREAM ? 6 : 3);
	}
}

static void run_passed(struct scene *scene, long way, long what)
{
	int pair[2], report[2], status;
	char text[512];
	if (fcntl(scene->socket, F_GETFD) < 0)
		return;
	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 && pipe(report) == 0);
	if (way == PASS_TO_CHILD) {
		pid_t pid = fork();
		if (pid == 0) {
			say_anew();
			/* Nothing of the parent's but what is passed. */
			close(scene->socket);
			use(scene, passed(pair[1], 0), what);
			say_out(report[1]);
			_exit(0);
		}
		pass(pair[0], scene->socket, 0);
		CHECK(waitpid(pid, &status, 0) == pid);
		close(report[1]);
		long got = read(report[0], text, sizeof text - 1);
		say(" child:%.*s", (int)(got > 0 ? got : 0), text);
	} else {
		pass(pair[0], scene->socket, way == PASS_MANY);
		int fd = passed(pair[1], way == PASS_MANY);
		use(scene, fd, what);
		close(fd);
		close(report[1]);
	}
	close(report[0]), close(pair[0]), close(pair[1]);
	say(" here:");
	use(scene, scene->socket, what == CLOSE ? NAMES_AND_EVENTS : what);
}

#define WAYS(what, name, kinds)                                                \
	{ "fork, " name, kinds, run_in_child, FORK, what },                    \
	{ "exec, " name, kinds, run_in_child, EXEC, what },                    \
	{ "posix_spawn, " name, kinds | BASIC, run_in_child, SPAWN, what },    \
	{ "vfork + exec, " name, kinds | BASIC, run_in_child, VFORK, what },   \
	{ "passed to itself, " name, kinds, run_passed, PASS_TO_SELF, what },  \
	{ "passed to a child, " name, kinds, run_passed, PASS_TO_CHILD, what }, \
	{ "sendmmsg, " name, kinds | BASIC, run_passed, PASS_MANY, what }

static const struct call CALLS[] = {
	WAYS(RECEIVE, "recv", ANY),
	WAYS(SEND, "send", ANY | BASIC),
	WAYS(NAMES_AND_EVENTS, "getsockname", ANY | BASIC),
	WAYS(ACCEPT, "accept", TCP),
	WAYS(CLOSE, "close", ANY | BASIC),
};
const struct group PROCESSES = { CALLS, COUNT(CALLS) };
