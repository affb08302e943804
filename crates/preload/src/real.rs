//! The C library's own functions, found behind this library with `dlsym(RTLD_NEXT)`.
//!
//! Every name that the shim exports has its real counterpart here. The addresses lie in one static
//! table of atomics, which the constructor fills. An earlier call (from another library's
//! constructor) looks its own entry up, without allocating. A function that this C library does not
//! have (`epoll_pwait2` before glibc 2.35) answers ENOSYS.
//!
//! The functions are `C-unwind` because they are cancellation points: `pthread_cancel` unwinds
//! through the shim's frames, which hold nothing to drop on the way to the kernel.

#![allow(unsafe_code)]

use core::ffi::{CStr, c_char, c_int, c_long, c_uint, c_ulong, c_void};
use core::mem::transmute;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use libc::{
    FILE, addrinfo, epoll_event, fd_set, gid_t, ifaddrs, iovec, mmsghdr, msghdr, nfds_t, off_t,
    pid_t, pollfd, posix_spawn_file_actions_t, posix_spawnattr_t, pthread_t, sighandler_t,
    sigset_t, size_t, sockaddr, socklen_t, ssize_t, timespec, timeval, uid_t,
};

/// One function of the C library: its name, and its address once known.
struct Symbol {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

impl Symbol {
    const fn new(name: &'static str) -> Self {
        match CStr::from_bytes_with_nul(name.as_bytes()) {
            Ok(name) => Self { name, address: AtomicPtr::new(null_mut()) },
            Err(_) => panic!("the table's names end in NUL"),
        }
    }

    #[inline]
    fn get(&self) -> *mut c_void {
        let address = self.address.load(Ordering::Relaxed);
        if address.is_null() { self.resolve() } else { address }
    }

    #[cold]
    fn resolve(&self) -> *mut c_void {
        // SAFETY: the name is a C string; dlsym has no other precondition.
        let mut address = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        if address.is_null() {
            address = missing as *mut c_void;
        }
        self.address.store(address, Ordering::Relaxed);
        address
    }
}

/// Stands for a function that this C library does not have. The result is -1, as an `int` and as a
/// `ssize_t`. Arguments are ignored, which the C calling conventions of Linux allow.
extern "C" fn missing() -> isize {
    crate::errno::set(rustix::io::Errno::NOSYS);
    -1
}

static RESOLVED: AtomicBool = AtomicBool::new(false);

macro_rules! real_calls {
    ($(fn $name:ident($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty;)*) => {
        struct LibcCalls {
            $($name: Symbol,)*
            fcntl: Symbol,
            fcntl64: Symbol,
            ioctl: Symbol,
            dlopen: Symbol,
        }

        static CALLS: LibcCalls = LibcCalls {
            $($name: Symbol::new(concat!(stringify!($name), "\0")),)*
            fcntl: Symbol::new("fcntl\0"),
            fcntl64: Symbol::new("fcntl64\0"),
            ioctl: Symbol::new("ioctl\0"),
            dlopen: Symbol::new("dlopen\0"),
        };

        /// Is every function looked up?
        pub(crate) fn is_resolved() -> bool {
            RESOLVED.load(Ordering::Relaxed)
        }

        /// Looks up every function, so that no later call has to (a vfork child must not).
        pub(crate) fn resolve_all() {
            $(CALLS.$name.get();)*
            CALLS.fcntl.get();
            CALLS.fcntl64.get();
            CALLS.ioctl.get();
            CALLS.dlopen.get();
            RESOLVED.store(true, Ordering::Relaxed);
        }

        $(
            #[doc = concat!("The C library's `", stringify!($name), "`.")]
            ///
            /// # Safety
            /// As the manual page requires: pointers are valid for the call's accesses.
            #[inline]
            pub(crate) unsafe fn $name($($arg: $ty),*) -> $ret {
                type Function = unsafe extern "C-unwind" fn($($ty),*) -> $ret;
                // SAFETY: the table holds the address of the function of this name, whose C
                // prototype is `Function`, or of `missing`, which takes any arguments.
                let function = unsafe { transmute::<*mut c_void, Function>(CALLS.$name.get()) };
                // SAFETY: passed on from the caller.
                unsafe { function($($arg),*) }
            }
        )*
    };
}

real_calls! {
    fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    fn bind(fd: c_int, addr: *const sockaddr, len: socklen_t) -> c_int;
    fn listen(fd: c_int, backlog: c_int) -> c_int;
    fn connect(fd: c_int, addr: *const sockaddr, len: socklen_t) -> c_int;
    fn accept(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> c_int;
    fn accept4(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int;
    fn shutdown(fd: c_int, how: c_int) -> c_int;
    fn close(fd: c_int) -> c_int;
    fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int;
    fn fclose(file: *mut FILE) -> c_int;
    fn fopen(path: *const c_char, mode: *const c_char) -> *mut FILE;
    fn fopen64(path: *const c_char, mode: *const c_char) -> *mut FILE;
    fn fdopen(fd: c_int, mode: *const c_char) -> *mut FILE;
    fn freopen(path: *const c_char, mode: *const c_char, file: *mut FILE) -> *mut FILE;
    fn freopen64(path: *const c_char, mode: *const c_char, file: *mut FILE) -> *mut FILE;
    fn vdprintf(fd: c_int, format: *const c_char, list: *mut c_void) -> c_int;
    fn __vdprintf_chk(
        fd: c_int, flag: c_int, format: *const c_char, list: *mut c_void,
    ) -> c_int;
    fn closefrom(first: c_int) -> ();
    fn dup(fd: c_int) -> c_int;
    fn dup2(old: c_int, new: c_int) -> c_int;
    fn dup3(old: c_int, new: c_int, flags: c_int) -> c_int;
    fn _exit(status: c_int) -> ();
    fn setuid(user: uid_t) -> c_int;
    fn setgid(group: gid_t) -> c_int;
    fn seteuid(user: uid_t) -> c_int;
    fn setegid(group: gid_t) -> c_int;
    fn setreuid(user: uid_t, effective: uid_t) -> c_int;
    fn setregid(group: gid_t, effective: gid_t) -> c_int;
    fn setresuid(user: uid_t, effective: uid_t, saved: uid_t) -> c_int;
    fn setresgid(group: gid_t, effective: gid_t, saved: gid_t) -> c_int;
    fn setgroups(count: size_t, groups: *const gid_t) -> c_int;
    fn initgroups(user: *const c_char, group: gid_t) -> c_int;
    fn chroot(path: *const c_char) -> c_int;
    fn unshare(flags: c_int) -> c_int;
    fn setns(fd: c_int, kind: c_int) -> c_int;
    fn clone(
        run: *mut c_void, stack: *mut c_void, flags: c_int, argument: *mut c_void,
        parent_tid: *mut c_void, tls: *mut c_void, child_tid: *mut c_void,
    ) -> c_int;
    fn mount(
        source: *const c_char, target: *const c_char, kind: *const c_char, flags: c_ulong,
        data: *const c_void,
    ) -> c_int;
    fn fsopen(kind: *const c_char, flags: c_uint) -> c_int;
    fn execve(
        path: *const c_char, argv: *const *const c_char, envp: *const *const c_char,
    ) -> c_int;
    fn execv(path: *const c_char, argv: *const *const c_char) -> c_int;
    fn execvp(file: *const c_char, argv: *const *const c_char) -> c_int;
    fn execvpe(
        file: *const c_char, argv: *const *const c_char, envp: *const *const c_char,
    ) -> c_int;
    fn fexecve(fd: c_int, argv: *const *const c_char, envp: *const *const c_char) -> c_int;
    fn execveat(
        folder: c_int, path: *const c_char, argv: *const *const c_char,
        envp: *const *const c_char, flags: c_int,
    ) -> c_int;
    fn system(command: *const c_char) -> c_int;
    fn popen(command: *const c_char, kind: *const c_char) -> *mut FILE;
    fn wordexp(words: *const c_char, place: *mut c_void, flags: c_int) -> c_int;
    fn posix_spawn(
        pid: *mut pid_t, path: *const c_char, actions: *const posix_spawn_file_actions_t,
        attributes: *const posix_spawnattr_t, argv: *const *mut c_char, envp: *const *mut c_char,
    ) -> c_int;
    fn posix_spawnp(
        pid: *mut pid_t, file: *const c_char, actions: *const posix_spawn_file_actions_t,
        attributes: *const posix_spawnattr_t, argv: *const *mut c_char, envp: *const *mut c_char,
    ) -> c_int;
    fn posix_spawn_file_actions_adddup2(
        actions: *mut posix_spawn_file_actions_t, fd: c_int, new: c_int,
    ) -> c_int;

    fn read(fd: c_int, buf: *mut c_void, len: size_t) -> ssize_t;
    fn readv(fd: c_int, iov: *const iovec, count: c_int) -> ssize_t;
    fn write(fd: c_int, buf: *const c_void, len: size_t) -> ssize_t;
    fn writev(fd: c_int, iov: *const iovec, count: c_int) -> ssize_t;
    fn syscall(
        number: c_long, a: c_long, b: c_long, c: c_long, d: c_long, e: c_long, f: c_long,
    ) -> c_long;
    fn preadv2(
        fd: c_int, iov: *const iovec, count: c_int, offset: off_t, flags: c_int,
    ) -> ssize_t;
    fn pwritev2(
        fd: c_int, iov: *const iovec, count: c_int, offset: off_t, flags: c_int,
    ) -> ssize_t;
    fn __read_chk(fd: c_int, buf: *mut c_void, len: size_t, size: size_t) -> ssize_t;
    fn send(fd: c_int, buf: *const c_void, len: size_t, flags: c_int) -> ssize_t;
    fn sendto(
        fd: c_int, buf: *const c_void, len: size_t, flags: c_int,
        addr: *const sockaddr, addr_len: socklen_t,
    ) -> ssize_t;
    fn recv(fd: c_int, buf: *mut c_void, len: size_t, flags: c_int) -> ssize_t;
    fn recvfrom(
        fd: c_int, buf: *mut c_void, len: size_t, flags: c_int,
        addr: *mut sockaddr, addr_len: *mut socklen_t,
    ) -> ssize_t;
    fn __recv_chk(fd: c_int, buf: *mut c_void, len: size_t, size: size_t, flags: c_int) -> ssize_t;
    fn __recvfrom_chk(
        fd: c_int, buf: *mut c_void, len: size_t, size: size_t, flags: c_int,
        addr: *mut sockaddr, addr_len: *mut socklen_t,
    ) -> ssize_t;
    fn sendmsg(fd: c_int, msg: *const msghdr, flags: c_int) -> ssize_t;
    fn recvmsg(fd: c_int, msg: *mut msghdr, flags: c_int) -> ssize_t;
    fn sendmmsg(fd: c_int, vec: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int;
    fn recvmmsg(
        fd: c_int, vec: *mut mmsghdr, count: c_uint, flags: c_int, timeout: *mut timespec,
    ) -> c_int;
    fn sendfile(out: c_int, input: c_int, offset: *mut off_t, count: size_t) -> ssize_t;
    fn splice(
        input: c_int, in_offset: *mut i64, out: c_int, out_offset: *mut i64,
        len: size_t, flags: c_uint,
    ) -> ssize_t;

    fn aio_read(block: *mut c_void) -> c_int;
    fn aio_write(block: *mut c_void) -> c_int;
    fn aio_fsync(operation: c_int, block: *mut c_void) -> c_int;
    fn aio_cancel(fd: c_int, block: *mut c_void) -> c_int;
    fn aio_suspend(list: *const *mut c_void, count: c_int, timeout: *const timespec) -> c_int;
    fn lio_listio(
        mode: c_int, list: *const *mut c_void, count: c_int, event: *mut c_void,
    ) -> c_int;

    fn munmap(place: *mut c_void, len: size_t) -> c_int;
    fn mprotect(place: *mut c_void, len: size_t, access: c_int) -> c_int;

    fn sockatmark(fd: c_int) -> c_int;
    fn bindresvport(fd: c_int, addr: *mut libc::sockaddr_in) -> c_int;
    fn backtrace_symbols_fd(places: *const *mut c_void, count: c_int, fd: c_int) -> ();
    fn eventfd_read(fd: c_int, value: *mut u64) -> c_int;
    fn eventfd_write(fd: c_int, value: u64) -> c_int;
    fn daemon(stay: c_int, keep_open: c_int) -> c_int;
    fn login_tty(fd: c_int) -> c_int;
    fn forkpty(
        fd: *mut c_int, name: *mut c_char, terminal: *const libc::termios,
        size: *const libc::winsize,
    ) -> pid_t;
    fn pidfd_getfd(process: c_int, fd: c_int, flags: c_uint) -> c_int;
    fn getipv4sourcefilter(
        fd: c_int, interface: u32, group: u32, mode: *mut u32,
        count: *mut u32, sources: *mut libc::in_addr,
    ) -> c_int;
    fn setipv4sourcefilter(
        fd: c_int, interface: u32, group: u32, mode: u32, count: u32,
        sources: *const libc::in_addr,
    ) -> c_int;
    fn getsourcefilter(
        fd: c_int, interface: u32, group: *const sockaddr, len: socklen_t, mode: *mut u32,
        count: *mut u32, sources: *mut libc::sockaddr_storage,
    ) -> c_int;
    fn setsourcefilter(
        fd: c_int, interface: u32, group: *const sockaddr, len: socklen_t, mode: u32, count: u32,
        sources: *const libc::sockaddr_storage,
    ) -> c_int;

    fn getifaddrs(place: *mut *mut ifaddrs) -> c_int;
    fn if_nametoindex(name: *const c_char) -> c_uint;
    fn getaddrinfo(
        node: *const c_char, service: *const c_char, hints: *const addrinfo,
        found: *mut *mut addrinfo,
    ) -> c_int;
    fn getnameinfo(
        address: *const sockaddr, len: socklen_t, host: *mut c_char, room: socklen_t,
        service: *mut c_char, service_room: socklen_t, flags: c_int,
    ) -> c_int;
    fn if_nameindex() -> *mut libc::if_nameindex;
    fn if_indextoname(index: c_uint, place: *mut c_char) -> *mut c_char;

    fn getsockopt(
        fd: c_int, level: c_int, name: c_int, value: *mut c_void, len: *mut socklen_t,
    ) -> c_int;
    fn setsockopt(
        fd: c_int, level: c_int, name: c_int, value: *const c_void, len: socklen_t,
    ) -> c_int;
    fn getsockname(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> c_int;
    fn getpeername(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> c_int;

    fn poll(fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int;
    fn ppoll(
        fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t,
    ) -> c_int;
    fn __poll_chk(fds: *mut pollfd, count: nfds_t, timeout: c_int, size: size_t) -> c_int;
    fn __ppoll_chk(
        fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t,
        size: size_t,
    ) -> c_int;
    fn select(
        count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set,
        timeout: *mut timeval,
    ) -> c_int;
    fn pselect(
        count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set,
        timeout: *const timespec, mask: *const sigset_t,
    ) -> c_int;
    fn sigaction(signal: c_int, action: *const libc::sigaction, old: *mut libc::sigaction) -> c_int;
    fn __sigaction(
        signal: c_int, action: *const libc::sigaction, old: *mut libc::sigaction,
    ) -> c_int;
    fn signal(signal: c_int, handler: sighandler_t) -> sighandler_t;
    fn bsd_signal(signal: c_int, handler: sighandler_t) -> sighandler_t;
    fn ssignal(signal: c_int, handler: sighandler_t) -> sighandler_t;
    fn sysv_signal(signal: c_int, handler: sighandler_t) -> sighandler_t;
    fn __sysv_signal(signal: c_int, handler: sighandler_t) -> sighandler_t;
    fn sigset(signal: c_int, handler: sighandler_t) -> sighandler_t;
    fn pthread_cancel(thread: pthread_t) -> c_int;
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
    fn pthread_testcancel() -> ();
    fn epoll_create(size: c_int) -> c_int;
    fn epoll_create1(flags: c_int) -> c_int;
    fn epoll_ctl(epfd: c_int, op: c_int, fd: c_int, event: *mut epoll_event) -> c_int;
    fn epoll_wait(epfd: c_int, events: *mut epoll_event, max: c_int, timeout: c_int) -> c_int;
    fn epoll_pwait(
        epfd: c_int, events: *mut epoll_event, max: c_int, timeout: c_int, mask: *const sigset_t,
    ) -> c_int;
    fn epoll_pwait2(
        epfd: c_int, events: *mut epoll_event, max: c_int, timeout: *const timespec,
        mask: *const sigset_t,
    ) -> c_int;
}

/// The C library's `fcntl`. `arg` is the command's argument, an `int` or a pointer.
///
/// # Safety
/// As the manual page requires for the command.
#[inline]
pub(crate) unsafe fn fcntl(fd: c_int, command: c_int, arg: c_ulong) -> c_int {
    // SAFETY: passed on from the caller.
    unsafe { variadic(&CALLS.fcntl, fd, command, arg) }
}

/// The C library's `fcntl64`.
///
/// # Safety
/// As [`fcntl`].
#[inline]
pub(crate) unsafe fn fcntl64(fd: c_int, command: c_int, arg: c_ulong) -> c_int {
    // SAFETY: passed on from the caller.
    unsafe { variadic(&CALLS.fcntl64, fd, command, arg) }
}

unsafe fn variadic(symbol: &Symbol, fd: c_int, command: c_int, arg: c_ulong) -> c_int {
    type Function = unsafe extern "C-unwind" fn(c_int, c_int, ...) -> c_int;
    // SAFETY: both users of this function have this prototype.
    let function = unsafe { transmute::<*mut c_void, Function>(symbol.get()) };
    // SAFETY: passed on from the caller.
    unsafe { function(fd, command, arg) }
}

/// The C library's `ioctl`.
///
/// # Safety
/// As the request's manual page asks.
#[inline]
pub(crate) unsafe fn ioctl(fd: c_int, request: c_ulong, arg: *mut c_char) -> c_int {
    type Function = unsafe extern "C-unwind" fn(c_int, c_ulong, ...) -> c_int;
    // SAFETY: the table holds the address of `ioctl`, whose prototype this is.
    let function = unsafe { transmute::<*mut c_void, Function>(CALLS.ioctl.get()) };
    // SAFETY: passed on from the caller.
    unsafe { function(fd, request, arg) }
}

/// The address of the C library's `dlopen`, which looks at the code that it returns to.
pub(crate) fn dlopen() -> *mut c_void {
    CALLS.dlopen.get()
}
