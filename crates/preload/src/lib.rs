//! `libtasuki_preload.so`: the socket calls of unmodified programs, on Tasuki.
//!
//! Loaded with LD_PRELOAD, this library stands before the C library and exports its socket calls.
//! A call on an AF_INET stream or datagram socket goes to the runtime (crate `sockets`); every
//! other call, and every call when `TASUKI_SOCKET` is not set, goes on to the C library (`real`)
//! after one look into a lock-free table (`table`).
//!
//! * Each Tasuki socket owns a kernel descriptor, the *placeholder*. So numbers, limits, `dup`,
//!   CLOEXEC and `fstat` stay the kernel's business. An open socket (`open_socket`) is to
//!   descriptors what the kernel's open file description is.
//! * The rules of POSIX without C's pointers are in `transfer`, `registrations`, `sockaddr`, `cmsg`
//!   and `time`, and are tested there.
//!
//! No panic crosses into the program (`edge::Return`). The calls that the runtime makes itself
//! pass through here too, but none of them is about AF_INET. docs/reference/limits.md lists what is
//! not covered.
//!
//! # The layers
//!
//! ```text layers
//! calls: exported calls on one descriptor, by theme
//! select: select, as a poll
//! poll: poll over Tasuki and kernel descriptors
//! epoll: epoll over both
//! fork: what a forked child starts with
//! epoll_fork: epoll sets that a forked child inherits
//! host: the stack in this process (mode `library`)
//! placeholder sharing: kernel descriptors that stand for sockets; sockets that become shared
//! readiness_signals: SIGIO and SIGURG
//! retaking: operations on sockets that other processes may take
//! descriptors: what each descriptor of this process stands for
//! epoll_set: the Tasuki members of an epoll file
//! shared_end: the end of a shared socket's pair in place of a placeholder
//! adopted: shared sockets that this process has taken up
//! open_socket: an open Tasuki socket, shared by its descriptors
//! own_calls: programs that make system calls of their own
//! instance: this process's membership in an instance
//! self_filtering: programs that are left to the relay
//! departure: processes that have left for a network of their own
//! cached_placeholder always_ready process: two descriptors of this library; vfork children
//! registrations transfer cmsg: rules of epoll, of sending and receiving, of control messages
//! signals table time: signal masks, descriptor numbers, time limits
//! interpose: the macros that export calls
//! trace edge: a line for each call; results on their way to C
//! sockaddr cancellation: addresses; threads that are to end
//! handlers: signal handlers of the program
//! signal_owner: the process that gets a placeholder's signals
//! sanitizers pointers: ThreadSanitizer in the program; pointers of the program
//! real: the C library's own functions
//! process_state: state that a forked child makes anew
//! errno: error numbers
//! duties variadic: what calls do beside their work; variadic functions
//! ```

#![cfg_attr(test, allow(dead_code, reason = "the exported calls are not exported from tests"))]

mod adopted;
mod always_ready;
mod cached_placeholder;
mod calls;
mod cancellation;
mod cmsg;
mod departure;
mod descriptors;
mod duties;
mod edge;
mod epoll;
mod epoll_fork;
mod epoll_set;
mod errno;
mod fork;
mod handlers;
mod host;
mod instance;
mod interpose;
mod open_socket;
mod own_calls;
mod placeholder;
mod pointers;
mod poll;
mod process;
mod process_state;
mod readiness_signals;
mod real;
mod registrations;
mod retaking;
mod sanitizers;
mod select;
mod self_filtering;
mod shared_end;
mod sharing;
mod signal_owner;
mod signals;
mod sockaddr;
mod table;
mod time;
mod trace;
mod transfer;
mod variadic;
