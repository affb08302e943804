//! getsockopt and setsockopt, and the error queue, which is read as an option.

use abi::Errno;
use abi::call::Reply;
use abi::client::QUEUE;
use abi::option::{LONG_VALUE, OptionKey, OptionPart, OptionValue, SET_MOST};
use abi::queued_error::{QUEUED_ERROR, QueuedErrorEntry, QueuedErrorOrigin};
use inet::{DatagramInfo, ErrorOrigin, OptionName, PendingErrorChange, SockOption};

use super::outcome::{CallAnswer, DONE, gives};
use crate::client::Client;
use crate::engine::Engine;
use crate::options::{self, SetValue};
use crate::refusal::errno;
use crate::socket::Socket;
use crate::transfer::ancillary;

/// A part of an option's value, from byte `from` on. `given` is what the program passed in, of
/// those options that look at it.
pub(super) fn get(
    engine: &mut Engine,
    socket: &mut Socket,
    (key, given): (OptionKey, &[u8]),
    from: u32,
) -> CallAnswer {
    if key == QUEUED_ERROR {
        return queued_error(engine, socket, from);
    }
    let value = options::get(engine, socket, key, given)?;
    gives(Reply::Option(OptionPart::new(value.bytes(), from)))
}

impl Client {
    pub(super) fn setsockopt(
        &mut self,
        engine: &mut Engine,
        socket: &mut Socket,
        key: OptionKey,
        given: &OptionValue,
    ) -> CallAnswer {
        let bytes = given.bytes();
        if key.level == LONG_VALUE {
            let at = usize::try_from(key.name).map_err(|_| Errno::INVAL)?;
            self.long_values.add(socket.id, at, SetValue::new(given, &bytes).shown())?;
            return DONE;
        }
        let mut value = SetValue::new(given, &bytes);
        let long = match key.is_long() && given.len() as usize > SET_MOST {
            true => self.long_values.of(socket.id).to_vec(),
            false => Vec::new(),
        };
        if long.len() == given.len() as usize {
            value = SetValue::whole(&long);
        }
        // An option applies to data sent from now on.
        self.take_sends(engine, socket, Some(QUEUE))?;
        if key == QUEUED_ERROR {
            remove_queued_error(engine, socket, given)?;
        } else if let Some(bytes) = options::recv_buffer(key, value)? {
            socket.asked_recv = Some(bytes);
            self.size_recv_buffer(engine, socket);
        } else {
            options::set(engine, socket, key, value)?;
            note_lowat(engine, socket);
        }
        if socket.errors_queued {
            socket.errors_queued = engine.stack.queued_error(socket.handle).is_some();
        }
        self.sockets.touch(socket);
        self.mark_dirty(socket.id.index);
        DONE
    }
}

/// Takes over what the core has for TCP_NOTSENT_LOWAT.
fn note_lowat(engine: &Engine, socket: &mut Socket) {
    let set = engine.stack.option(socket.handle, OptionName::NotSentLowat);
    let Ok(SockOption::NotSentLowat(bytes)) = set else { return };
    if socket.tx.lowat != bytes {
        socket.set_lowat(bytes);
    }
}

/// A part of the oldest entry of a socket's error queue.
#[cold]
#[inline(never)]
fn queued_error(engine: &Engine, socket: &Socket, from: u32) -> CallAnswer {
    let entry = engine.stack.queued_error(socket.handle).ok_or(Errno::AGAIN)?;
    let (origin, kind, code, message) = match entry.origin {
        ErrorOrigin::Local => (QueuedErrorOrigin::Local, 0, 0, None),
        ErrorOrigin::Icmp(icmp) => {
            let origin = match icmp.from.is_ipv4() {
                true => QueuedErrorOrigin::Icmp4,
                false => QueuedErrorOrigin::Icmp6,
            };
            let info = DatagramInfo {
                from: icmp.from,
                to: icmp.to,
                interface: icmp.interface,
                ttl: icmp.ttl,
                tos: icmp.tos,
            };
            let how = ancillary(engine, socket, &info, 0);
            (origin, icmp.kind, icmp.code, Some((icmp.from, how)))
        }
    };
    let value = QueuedErrorEntry {
        serial: entry.serial,
        errno: errno(entry.error).raw_os_error(),
        origin,
        kind,
        code,
        info: entry.info,
        destination: entry.destination,
        message,
        payload: entry.payload.to_vec(),
    };
    gives(Reply::Option(OptionPart::new(&value.encode(), from)))
}

/// Removes the oldest entry of a socket's error queue. The next one's error becomes the pending
/// one.
#[cold]
#[inline(never)]
fn remove_queued_error(
    engine: &mut Engine,
    socket: &mut Socket,
    value: &OptionValue,
) -> Result<(), Errno> {
    let [a, b, c, d, ..] = value.bytes();
    let serial = u32::from_ne_bytes([a, b, c, d]);
    let change = engine.stack.take_queued_error(socket.handle, serial).ok_or(Errno::NOENT)?;
    if change != PendingErrorChange::Keep {
        socket.take_error();
        socket.refusal = None;
    }
    if let PendingErrorChange::Set(error) = change {
        socket.error = Some(errno(error));
    }
    Ok(())
}
