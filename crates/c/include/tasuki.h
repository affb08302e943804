/*
 * tasuki.h: packaged calls to a Tasuki instance.
 *
 * Calls are written into submission entries, travel together, and end as completion entries in any
 * order, each with the caller's own user_data: the manner of io_uring. Results are 0 or more, or a
 * negative error number. See docs/guide/calls.md.
 *
 * A struct tsk belongs to the thread that opened it; threads open one each. What a submission entry
 * points to must stay until its completion has been taken by tsk_wait(), but for what is sent
 * (TSK_OP_SEND, TSK_OP_SETSOCKOPT) and addresses that are given: they are copied by tsk_submit().
 *
 * Link with -ltasuki. The instance is the one that `tasuki run` starts the program on, or any whose
 * control socket is known.
 */
#ifndef TASUKI_H
#define TASUKI_H

#include <stdint.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A thread's way to an instance, with its sockets. */
struct tsk;

enum tsk_op {
	TSK_OP_NOP = 0,		/* nothing; 0 */
	TSK_OP_SOCKET,		/* sock: AF_INET or AF_INET6; len: SOCK_STREAM or SOCK_DGRAM -> socket */
	TSK_OP_BIND,		/* sock; addr, len: struct sockaddr */
	TSK_OP_LISTEN,		/* sock; len: backlog */
	TSK_OP_CONNECT,		/* sock; addr, len: struct sockaddr; ends when connected, or not */
	TSK_OP_ACCEPT,		/* sock; addr, addr2: struct sockaddr and its socklen_t, or 0 -> socket,
				   once there is a connection */
	TSK_OP_SEND,		/* sock; addr, len: bytes -> how many were queued; -EAGAIN: no room */
	TSK_OP_RECV,		/* sock; addr, len: room -> how many came, once there are some; 0: end */
	TSK_OP_SHUTDOWN,	/* sock; len: SHUT_RD, SHUT_WR or SHUT_RDWR */
	TSK_OP_CLOSE,		/* sock */
	TSK_OP_GETSOCKOPT,	/* sock; level, optname; addr, len: room, at most 40 bytes -> length */
	TSK_OP_SETSOCKOPT,	/* sock; level, optname; addr, len: value */
	TSK_OP_GETSOCKNAME,	/* sock; addr, addr2: struct sockaddr and its socklen_t */
	TSK_OP_GETPEERNAME	/* the same */
};

/* Flag: end at once, with -EAGAIN (connect: -EINPROGRESS) instead of waiting. */
#define TSK_SQE_NONBLOCK 1

/* A call. Zero what is not used. */
struct tsk_sqe {
	uint8_t opcode;		/* enum tsk_op */
	uint8_t flags;		/* TSK_SQE_NONBLOCK or 0 */
	uint8_t prio;		/* higher goes first among the calls that the server finds together */
	uint8_t pad;		/* 0 */
	int32_t sock;		/* as TSK_OP_SOCKET or TSK_OP_ACCEPT gave it */
	uint64_t addr;		/* a pointer */
	uint64_t addr2;		/* another */
	uint32_t len;
	int32_t level;
	int32_t optname;
	uint32_t pad2;		/* 0 */
	uint64_t user_data;	/* comes back in the completion */
};

/* A call that is over. */
struct tsk_cqe {
	uint64_t user_data;
	int32_t res;		/* 0 or more, or a negative error number */
	uint32_t flags;		/* 0 */
};

/*
 * Become a client of the instance whose control socket is `path`, NULL: the one that the environment
 * variable TASUKI_SOCKET names. 0, or -ENOENT without such an instance, -EACCES when it refuses,
 * -EPROTO when it is another version, -ENOBUFS when it has no room for one more thread.
 */
int tsk_open(struct tsk **tsk, const char *path);

/* Close all sockets and cancel what is outstanding; what is queued is still sent. */
int tsk_close(struct tsk *tsk);

/*
 * Register `count` calls and send them on their way together. Returns how many were taken, which is
 * less than `count` only if that many results wait to be taken (-EBUSY if none could be); -EINVAL
 * for an entry that is not one, -EFAULT without entries. What is wrong with a call itself, such as a
 * socket that is not there, is told by its completion.
 */
int tsk_submit(struct tsk *tsk, const struct tsk_sqe *sqes, unsigned count);

/*
 * Take at least `min` completions (fewer if fewer calls are outstanding) and at most `max`, waiting
 * no longer than `timeout`, NULL: for ever. Returns how many; -ETIME when the time was over before
 * there was any of those waited for, -EINTR for a signal, -ENETDOWN when the instance is gone.
 */
int tsk_wait(struct tsk *tsk, struct tsk_cqe *cqes, unsigned min, unsigned max,
	     const struct timespec *timeout);

/*
 * Cancel the oldest outstanding call with this user_data: 0, and it completes with -ECANCELED, or as
 * it would have if that comes too late; -ENOENT when there is none.
 */
int tsk_cancel(struct tsk *tsk, uint64_t user_data);

/* The number of this process in the instance, as `tasuki ps` shows it. */
int tsk_client(const struct tsk *tsk);

#ifdef __cplusplus
}
#endif

#endif
