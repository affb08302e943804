/* Functions of the C library that use a descriptor within. The last line is "all". */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <execinfo.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(what)                                                                \
	do {                                                                       \
		if (!(what)) {                                                     \
			printf("line %d: %s, errno %d\n", __LINE__, #what, errno); \
			exit(1);                                                   \
		}                                                                  \
	} while (0)

static int listener, one, other;
static struct sockaddr_in address = {.sin_family = AF_INET};

static void mark(void)
{
	char bytes[8];
	CHECK(send(one, "abc", 3, 0) == 3 && send(one, "!", 1, MSG_OOB) == 1);
	CHECK(send(one, "de", 2, 0) == 2);
	CHECK(recv(other, bytes, 2, MSG_WAITALL) == 2 && sockatmark(other) == 0);
	CHECK(recv(other, bytes, 1, MSG_WAITALL) == 1);
	/* The byte beyond the mark may be on its way. */
	while (recv(other, bytes, 1, MSG_OOB) != 1)
		CHECK(errno == EINVAL || errno == EAGAIN);
	CHECK(sockatmark(other) == 1 && recv(other, bytes, 2, MSG_WAITALL) == 2);
	CHECK(!memcmp(bytes, "de", 2));
	int datagram = socket(AF_INET, SOCK_DGRAM, 0);
	CHECK(sockatmark(datagram) == -1 && errno == ENOTTY);
	close(datagram);
}

static void values(void)
{
	uint64_t value;
	void *places[2] = {mark, values};
	char text[4096];
	CHECK(!eventfd_write(one, 77) && !eventfd_read(other, &value) && value == 77);
	backtrace_symbols_fd(places, 2, one);
	ssize_t got = 0;
	for (int lines = 0; lines < 2; got++) {
		CHECK(recv(other, text + got, 1, 0) == 1);
		lines += text[got] == '\n';
	}
	CHECK(got > 4);
	CHECK(isfdtype(one, S_IFSOCK) == 1 && lseek(one, 0, SEEK_CUR) == -1 && errno == ESPIPE);
	CHECK(ftruncate(one, 0) == -1 && fsync(one) == -1 && errno == EINVAL);
	CHECK(pread(one, text, 1, 0) == -1 && errno == ESPIPE);
	CHECK(copy_file_range(one, 0, other, 0, 1, 0) == -1);
}

static void reserved(void)
{
	struct sockaddr_in any = {.sin_family = AF_INET};
	socklen_t len = sizeof any;
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	/* Only root has such ports. */
	if (!bindresvport(fd, &any)) {
		CHECK(!getsockname(fd, (void *)&any, &len));
		CHECK(ntohs(any.sin_port) >= 512 && ntohs(any.sin_port) < 1024);
	} else {
		CHECK(errno == EACCES);
	}
	any.sin_family = AF_UNIX;
	CHECK(bindresvport(fd, &any) == -1);
	close(fd);
}

static void background(void)
{
	char byte;
	pid_t child = fork();
	if (child == 0) {
		CHECK(dup2(other, 0) == 0 && dup2(other, 1) == 1 && dup2(other, 2) == 2);
		/* The standard descriptors are another file's from now on. */
		CHECK(!daemon(1, 0));
		if (write(1, "x", 1) == 1 && read(0, &byte, 1) == 0 && write(other, "y", 1) == 1)
			_exit(0);
		_exit(1);
	}
	int status;
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	CHECK(read(one, &byte, 1) == 1 && byte == 'y');
}

int main(void)
{
	socklen_t len = sizeof address;
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK((listener = socket(AF_INET, SOCK_STREAM, 0)) >= 0);
	CHECK(!bind(listener, (void *)&address, len) && !listen(listener, 1));
	CHECK(!getsockname(listener, (void *)&address, &len));
	CHECK((one = socket(AF_INET, SOCK_STREAM, 0)) >= 0);
	CHECK(!connect(one, (void *)&address, len) && (other = accept(listener, 0, 0)) >= 0);
	mark();
	values();
	reserved();
	background();
	printf("all\n");
	return 0;
}
