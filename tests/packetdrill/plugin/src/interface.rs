//! The C interface of packetdrill: the table of functions.
//!
//! The table's order is packetdrill's (`packetdrill.h`). The first argument of every function is
//! this plug-in's: the [`Instance`]. `fcntl` and `ioctl` have a variable argument in C. On the
//! platforms of Linux such an integer or pointer arrives where a fixed argument does.

#![allow(unsafe_code)]

use core::ffi::{CStr, c_char, c_int, c_long, c_longlong, c_uint, c_ulong, c_void};
use core::{ptr, slice};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use libc::{epoll_event, iovec, loff_t, msghdr, nfds_t, pollfd, size_t, sockaddr, socklen_t};
use libc::{ssize_t, timeval, timezone};
use packetdrill::Host;
use packetdrill::host::{EpollEvent, Link, PollFd, Progress};

use crate::instance::{self, FIRST_FD, Instance};
use crate::memory::{self, int, nothing};
use crate::userdata::{get_option, of_userdata};
use crate::{addresses, data, preload};

/// packetdrill's table of functions.
#[repr(C)]
struct Interface {
    userdata: *mut c_void,
    free: unsafe extern "C" fn(*mut c_void),
    socket: unsafe extern "C" fn(*mut c_void, c_int, c_int, c_int) -> c_int,
    bind: unsafe extern "C" fn(*mut c_void, c_int, *const sockaddr, socklen_t) -> c_int,
    listen: unsafe extern "C" fn(*mut c_void, c_int, c_int) -> c_int,
    accept: unsafe extern "C" fn(*mut c_void, c_int, *mut sockaddr, *mut socklen_t) -> c_int,
    connect: unsafe extern "C" fn(*mut c_void, c_int, *const sockaddr, socklen_t) -> c_int,
    read: unsafe extern "C" fn(*mut c_void, c_int, *mut c_void, size_t) -> ssize_t,
    readv: unsafe extern "C" fn(*mut c_void, c_int, *const iovec, c_int) -> ssize_t,
    recv: unsafe extern "C" fn(*mut c_void, c_int, *mut c_void, size_t, c_int) -> ssize_t,
    recvfrom: unsafe extern "C" fn(
        *mut c_void,
        c_int,
        *mut c_void,
        size_t,
        c_int,
        *mut sockaddr,
        *mut socklen_t,
    ) -> ssize_t,
    recvmsg: unsafe extern "C" fn(*mut c_void, c_int, *mut msghdr, c_int) -> ssize_t,
    write: unsafe extern "C" fn(*mut c_void, c_int, *const c_void, size_t) -> ssize_t,
    writev: unsafe extern "C" fn(*mut c_void, c_int, *const iovec, c_int) -> ssize_t,
    send: unsafe extern "C" fn(*mut c_void, c_int, *const c_void, size_t, c_int) -> ssize_t,
    sendto: unsafe extern "C" fn(
        *mut c_void,
        c_int,
        *const c_void,
        size_t,
        c_int,
        *const sockaddr,
        socklen_t,
    ) -> ssize_t,
    sendmsg: unsafe extern "C" fn(*mut c_void, c_int, *const msghdr, c_int) -> ssize_t,
    fcntl: unsafe extern "C" fn(*mut c_void, c_int, c_int, c_long) -> c_int,
    ioctl: unsafe extern "C" fn(*mut c_void, c_int, c_ulong, *mut c_int) -> c_int,
    close: unsafe extern "C" fn(*mut c_void, c_int) -> c_int,
    shutdown: unsafe extern "C" fn(*mut c_void, c_int, c_int) -> c_int,
    getsockopt: unsafe extern "C" fn(
        *mut c_void,
        c_int,
        c_int,
        c_int,
        *mut c_void,
        *mut socklen_t,
    ) -> c_int,
    setsockopt:
        unsafe extern "C" fn(*mut c_void, c_int, c_int, c_int, *const c_void, socklen_t) -> c_int,
    poll: unsafe extern "C" fn(*mut c_void, *mut pollfd, nfds_t, c_int) -> c_int,
    netdev_send: unsafe extern "C" fn(*mut c_void, *const c_void, size_t) -> c_int,
    netdev_receive:
        unsafe extern "C" fn(*mut c_void, *mut c_void, *mut size_t, *mut c_longlong) -> c_int,
    usleep: unsafe extern "C" fn(*mut c_void, c_uint) -> c_int,
    gettimeofday: unsafe extern "C" fn(*mut c_void, *mut timeval, *mut timezone) -> c_int,
    epoll_create: unsafe extern "C" fn(*mut c_void, c_int) -> c_int,
    epoll_ctl: unsafe extern "C" fn(*mut c_void, c_int, c_int, c_int, *mut epoll_event) -> c_int,
    epoll_wait: unsafe extern "C" fn(*mut c_void, c_int, *mut epoll_event, c_int, c_int) -> c_int,
    pipe: unsafe extern "C" fn(*mut c_void, *mut c_int) -> c_int,
    splice: unsafe extern "C" fn(
        *mut c_void,
        c_int,
        *mut loff_t,
        c_int,
        *mut loff_t,
        size_t,
        c_uint,
    ) -> c_int,
}

/// Fills the table with a new host. `flags` is `name=value` words between commas: `mtu`, `local`
/// and `mss`. `mss` is the size of the segments that longer ones were joined of before they
/// arrived.
///
/// # Safety
/// `flags` is null or a C string, `interface` can be written.
#[unsafe(no_mangle)]
unsafe extern "C" fn packetdrill_interface_init(flags: *const c_char, interface: *mut Interface) {
    let flags = match flags.is_null() {
        true => "",
        // SAFETY: the caller's promise.
        false => unsafe { CStr::from_ptr(flags) }.to_str().unwrap_or_default(),
    };
    preload::warn_if_absent();
    let instance = Arc::new(Instance::new(Host::new(link(flags), FIRST_FD)));
    instance::replace(Some(Arc::clone(&instance)));
    let table = Interface {
        userdata: Arc::into_raw(instance).cast_mut().cast(),
        free,
        socket,
        bind,
        listen,
        accept,
        connect,
        read: data::read,
        readv: data::readv,
        recv: data::recv,
        recvfrom: data::recvfrom,
        recvmsg: data::recvmsg,
        write: data::write,
        writev: data::writev,
        send: data::send,
        sendto: data::sendto,
        sendmsg: data::sendmsg,
        fcntl,
        ioctl,
        close,
        shutdown,
        getsockopt,
        setsockopt,
        poll,
        netdev_send,
        netdev_receive,
        usleep,
        gettimeofday,
        epoll_create,
        epoll_ctl,
        epoll_wait,
        pipe,
        splice,
    };
    // SAFETY: the caller's promise.
    unsafe { ptr::write(interface, table) };
}

/// The link that `flags` describe.
fn link(flags: &str) -> Link {
    let local = Ipv4Addr::new(192, 168, 0, 1).into();
    let mut link = Link { local, prefix: 16, mtu: 1500, joined: 0 };
    for (name, value) in flags.split(',').filter_map(|flag| flag.split_once('=')) {
        match (name, value.parse()) {
            ("mtu", Ok(mtu)) => link.mtu = mtu,
            ("mss", Ok(mss)) => link.joined = mss,
            ("local", _) => link.local = value.parse().unwrap_or(link.local),
            _ => eprintln!("tasuki: --so_flags: cannot use `{name}={value}`"),
        }
    }
    link
}

unsafe extern "C" fn free(userdata: *mut c_void) {
    preload::end();
    instance::replace(None);
    // SAFETY: packetdrill calls this once, at last.
    drop(unsafe { Arc::from_raw(userdata.cast::<Instance>()) });
}

unsafe extern "C" fn socket(
    userdata: *mut c_void,
    domain: c_int,
    kind: c_int,
    protocol: c_int,
) -> c_int {
    // SAFETY: packetdrill passes the pointer that it got.
    let instance = unsafe { of_userdata(userdata) };
    int(instance.call(|host| host.socket(domain, kind, protocol)).map(to_isize))
}

fn to_isize(value: i32) -> isize {
    value.try_into().unwrap_or(isize::MAX)
}

unsafe extern "C" fn bind(
    userdata: *mut c_void,
    fd: c_int,
    address: *const sockaddr,
    len: socklen_t,
) -> c_int {
    // SAFETY: packetdrill passes the pointer that it got.
    let instance = unsafe { of_userdata(userdata) };
    // SAFETY: bind(2)'s contract.
    let address = unsafe { addresses::read(address, len) };
    nothing(address.and_then(|address| instance.call(|host| host.bind(fd, address))))
}

unsafe extern "C" fn listen(userdata: *mut c_void, fd: c_int, backlog: c_int) -> c_int {
    // SAFETY: packetdrill passes the pointer that it got.
    let instance = unsafe { of_userdata(userdata) };
    nothing(instance.call(|host| host.listen(fd, backlog)))
}

unsafe extern "C" fn accept(
    userdata: *mut c_void,
    fd: c_int,
    address: *mut sockaddr,
    len: *mut socklen_t,
) -> c_int {
    // SAFETY: packetdrill passes the pointer that it got.
    let instance = unsafe { of_userdata(userdata) };
    let accepted = instance.call(|host| host.accept(fd));
    if let Ok((_, peer)) = accepted {
        // SAFETY: accept(2)'s contract.
        unsafe { addresses::write(peer, address, len) };
    }
    int(accepted.map(|(fd, _)| to_isize(fd)))
}

unsafe extern "C" fn connect(
    userdata: *mut c_void,
    fd: c_int,
    address: *const sockaddr,
    len: socklen_t,
) -> c_int {
    // SAFETY: packetdrill passes the pointer that it got.
    let instance = unsafe { of_userdata(userdata) };
    // SAFETY: connect(2)'s contract.
    let outcome = match unsafe { addresses::read(address, len) } {
        // AF_UNSPEC: the association is dissolved.
        Err(libc::EAFNOSUPPORT) => instance.call(|host| host.disconnect(fd)),
        Err(errno) => Err(errno),
        Ok(address) => {
            let mut progress = Progress::default();
            instance.call(|host| host.connect(fd, address, &mut progress))
        }
    };
    nothing(outcome)
}

unsafe extern "C" fn fcntl(
    userdata: *mut c_void,
    fd: c_int,
    command: c_int,
    argument: c_long,
) -> c_int {
    // SAFETY: packetdrill passes the pointer that it got.
    let instance = unsafe { of_userdata(userdata) };
    int(instance.call(|host| host.fcntl(fd, command, argument)).map(to_isize))
}

unsafe extern "C" fn ioctl(
    userdata: *mut c_void,
    fd: c_int,
    request: c_ulong,
    value: *mut c_int,
) -> c_int {
    // SAFETY: packetdrill passes the pointer that it got.
    let instance = unsafe { of_userdata(userdata) };
    let outcome = instance.call(|host| host.ioctl(fd, request));
    if let Ok(count) = outcome {
        // SAFETY: the requests that succeed give an int.
        unsafe { memory::copy_out(&count.to_ne_bytes(), value.cast(), size_of::<c_int>()) };
    }
    nothing(outcome.map(|_| ()))
}

unsafe extern "C" fn close(userdata: *mut c_void, fd: c_int) -> c_int {
    // SAFETY: packetdrill passes the pointer that it got.
    let instance = unsafe { of_userdata(userdata) };
    if !instance.look(|host| host.has(fd)) {
        // SAFETY: a file that packetdrill has opened itself, or none.
        return c_int::try_from(unsafe { libc::syscall(libc::SYS_close, fd) }).unwrap_or(-1);
    }
    nothing(instance.call(|host| host.close(fd)))
}

unsafe extern "C" fn shutdown(userdata: *mut c_void, fd: c_int, how: c_int) -> c_int {
    // SAFETY: packetdrill passes the pointer that it got.
    let instance = unsafe { of_userdata(userdata) };
    nothing(instance.call(|host| host.shutdown(fd, how)))
}

unsafe extern "C" fn getsockopt(
    userdata: *mut c_void,
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    // SAFETY: packetdrill passes the pointer that it got.
    let instance = unsafe { of_userdata(userdata) };
    // SAFETY: getsockopt(2)'s contract.
    unsafe { get_option(instance, (fd, level, name), value, len) }
}

unsafe extern "C" fn setsockopt(
    userdata: *mut c_void,
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: socklen_t,
) -> c_int {
    // SAFETY: packetdrill passes the pointer that it got.
    let instance = unsafe { of_userdata(userdata) };
    // SAFETY: setsockopt(2)'s contract.
    let bytes = unsafe { memory::bytes(value, len as usize) };
    nothing(instance.call(|host| host.setsockopt(fd, level, name, bytes)))
}

unsafe extern "C" fn poll(
    userdata: *mut c_void,
    fds: *mut pollfd,
    count: nfds_t,
    timeout: c_int,
) -> c_int {
    // SAFETY: packetdrill passes the pointer that it got.
    let instance = unsafe { of_userdata(userdata) };
    if fds.is_null() || count == 0 {
        return 0;
    }
    // SAFETY: poll(2)'s contract.
    let fds = unsafe { slice::from_raw_parts_mut(fds, count as usize) };
    let mut asked: Vec<PollFd> =
        fds.iter().map(|fd| PollFd { fd: fd.fd, events: fd.events, revents: 0 }).collect();
    let mut progress = Progress::default();
    let outcome = instance.call(|host| host.poll(&mut asked, timeout, &mut progress));
    for (fd, asked) in fds.iter_mut().zip(&asked) {
        fd.revents = asked.revents;
    }
    int(outcome)
}

unsafe extern "C" fn netdev_send(
    userdata: *mut c_void,
    buffer: *const c_void,
    count: size_t,
) -> c_int {
    // SAFETY: packetdrill passes the pointer that it got.
    let instance = unsafe { of_userdata(userdata) };
    // SAFETY: packetdrill's contract.
    instance.deliver(unsafe { memory::bytes(buffer, count) });
    0
}

/// Where no packet will ever leave, packetdrill gets an empty one, which it complains about.
unsafe extern "C" fn netdev_receive(
    userdata: *mut c_void,
    buffer: *mut c_void,
    count: *mut size_t,
    time: *mut c_longlong,
) -> c_int {
    // SAFETY: packetdrill passes the pointer that it got.
    let instance = unsafe { of_userdata(userdata) };
    // SAFETY: packetdrill's contract.
    let room = unsafe { ptr::read(count) };
    let packet = instance.next_packet();
    let (bytes, at) = packet
        .map(|packet| (packet.bytes, instance::micros(packet.time)))
        .unwrap_or_else(|| (Vec::new(), instance.look(|host| instance::micros(host.now()))));
    if bytes.is_empty() {
        eprintln!("tasuki: a packet is expected, and none will ever leave");
    }
    // SAFETY: packetdrill's contract.
    unsafe { memory::copy_out(&bytes, buffer, room) };
    // SAFETY: packetdrill's contract.
    unsafe { ptr::write(count, bytes.len().min(room)) };
    // SAFETY: packetdrill's contract.
    unsafe { ptr::write(time, c_longlong::try_from(at).unwrap_or(c_longlong::MAX)) };
    0
}

unsafe extern "C" fn usleep(userdata: *mut c_void, micros: c_uint) -> c_int {
    // SAFETY: packetdrill passes the pointer that it got.
    let instance = unsafe { of_userdata(userdata) };
    instance.sleep(Duration::from_micros(micros.into()));
    0
}

unsafe extern "C" fn gettimeofday(
    userdata: *mut c_void,
    time: *mut timeval,
    _zone: *mut timezone,
) -> c_int {
    // SAFETY: packetdrill passes the pointer that it got.
    let instance = unsafe { of_userdata(userdata) };
    let micros = i64::try_from(instance.clock()).unwrap_or(i64::MAX);
    let now = timeval { tv_sec: micros / 1_000_000, tv_usec: micros % 1_000_000 };
    // SAFETY: gettimeofday(2)'s contract.
    unsafe { ptr::write(time, now) };
    0
}

unsafe extern "C" fn epoll_create(userdata: *mut c_void, size: c_int) -> c_int {
    // SAFETY: packetdrill passes the pointer that it got.
    let instance = unsafe { of_userdata(userdata) };
    int(instance.call(|host| host.epoll_create(size)).map(to_isize))
}

unsafe extern "C" fn epoll_ctl(
    userdata: *mut c_void,
    epfd: c_int,
    op: c_int,
    fd: c_int,
    event: *mut epoll_event,
) -> c_int {
    // SAFETY: packetdrill passes the pointer that it got.
    let instance = unsafe { of_userdata(userdata) };
    let event = match event.is_null() {
        true => EpollEvent { events: 0, data: 0 },
        false => {
            // SAFETY: epoll_ctl(2)'s contract.
            let event = unsafe { ptr::read_unaligned(event) };
            EpollEvent { events: event.events, data: event.u64 }
        }
    };
    nothing(instance.call(|host| host.epoll_ctl(epfd, op, fd, event)))
}

unsafe extern "C" fn epoll_wait(
    userdata: *mut c_void,
    epfd: c_int,
    events: *mut epoll_event,
    most: c_int,
    timeout: c_int,
) -> c_int {
    // SAFETY: packetdrill passes the pointer that it got.
    let instance = unsafe { of_userdata(userdata) };
    let mut progress = Progress::default();
    let outcome = instance.call(|host| host.epoll_wait(epfd, most, timeout, &mut progress));
    if let Ok(found) = &outcome {
        for (place, event) in found.iter().enumerate() {
            let event = epoll_event { events: event.events, u64: event.data };
            // SAFETY: there are at most `most`.
            let slot = unsafe { events.add(place) };
            // SAFETY: epoll_wait(2)'s contract.
            unsafe { ptr::write_unaligned(slot, event) };
        }
    }
    int(outcome.map(|found| found.len()))
}

unsafe extern "C" fn pipe(userdata: *mut c_void, fds: *mut c_int) -> c_int {
    // SAFETY: packetdrill passes the pointer that it got.
    let instance = unsafe { of_userdata(userdata) };
    let ends = instance.look(Host::pipe);
    let bytes = ends.map(c_int::to_ne_bytes).concat();
    // SAFETY: pipe(2)'s contract.
    unsafe { memory::copy_out(&bytes, fds.cast(), bytes.len()) };
    0
}

unsafe extern "C" fn splice(
    userdata: *mut c_void,
    from: c_int,
    _from_offset: *mut loff_t,
    to: c_int,
    _to_offset: *mut loff_t,
    most: size_t,
    flags: c_uint,
) -> c_int {
    // SAFETY: packetdrill passes the pointer that it got.
    let instance = unsafe { of_userdata(userdata) };
    let mut progress = Progress::default();
    int(instance.call(|host| host.splice(from, to, most, flags, &mut progress)))
}
