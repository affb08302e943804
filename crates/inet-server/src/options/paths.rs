//! Options about paths: path MTU discovery (ip(7), ipv6(7)), and binding to an interface
//! (socket(7)).
//!
//! A socket has one rule of path MTU discovery. So the IPv4 and the IPv6 option of a dual-stack
//! socket are one option.

use abi::Errno;
use abi::option::OptionKey;
use inet::{InterfaceId, MtuDiscover, OptionName, SockOption};

use super::interfaces::{all, by_index};
use super::numbers::*;
use super::value::{OptionBytes, SetValue};
use crate::engine::Engine;
use crate::refusal::Refusal;
use crate::socket::Socket;

/// Longest name of an interface with the zero after it, bytes (IFNAMSIZ).
const NAME: usize = 16;

/// getsockopt; `None` if it is no such option.
pub(super) fn get(
    engine: &mut Engine,
    socket: &Socket,
    key: OptionKey,
) -> Result<Option<OptionBytes>, Refusal> {
    let handle = socket.handle;
    Ok(Some(match (key.level, key.name) {
        (IPPROTO_IP, IP_MTU) | (IPPROTO_IPV6, IPV6_MTU) => {
            OptionBytes::count(engine.stack.path_mtu(engine.now, handle)?.into())
        }
        (IPPROTO_IP, IP_MTU_DISCOVER) | (IPPROTO_IPV6, IPV6_MTU_DISCOVER) => {
            OptionBytes::int(match rule(engine, socket)? {
                MtuDiscover::Dont => 0,
                MtuDiscover::Want => 1,
                MtuDiscover::Do => 2,
                MtuDiscover::Probe => 3,
                MtuDiscover::Interface => 4,
                MtuDiscover::Omit => 5,
            })
        }
        (SOL_SOCKET, SO_BINDTODEVICE) => match device(engine, socket)? {
            Some(id) => OptionBytes::new(&name_of(id)),
            None => OptionBytes::new(&[]),
        },
        (SOL_SOCKET, SO_BINDTOIFINDEX) => {
            OptionBytes::count(device(engine, socket)?.map_or(0, |id| id.scope_id().into()))
        }
        _ => return Ok(None),
    }))
}

/// setsockopt; false if it is no such option.
pub(super) fn set(
    engine: &mut Engine,
    socket: &Socket,
    key: OptionKey,
    given: SetValue<'_>,
) -> Result<bool, Refusal> {
    let option = match (key.level, key.name) {
        (IPPROTO_IP, IP_MTU) => return Err(Errno::NOPROTOOPT.into()),
        (IPPROTO_IP, IP_MTU_DISCOVER) | (IPPROTO_IPV6, IPV6_MTU_DISCOVER) => {
            SockOption::MtuDiscover(match given.int(key.level)? {
                0 => MtuDiscover::Dont,
                1 => MtuDiscover::Want,
                2 => MtuDiscover::Do,
                3 => MtuDiscover::Probe,
                4 => MtuDiscover::Interface,
                5 => MtuDiscover::Omit,
                _ => return Err(Errno::INVAL.into()),
            })
        }
        (SOL_SOCKET, SO_BINDTODEVICE) => SockOption::BindToDevice(by_name(engine, given)?),
        (SOL_SOCKET, SO_BINDTOIFINDEX) => {
            let index = given.int(key.level)?;
            let index = u32::try_from(index).map_err(|_| Errno::INVAL)?;
            SockOption::BindToDevice(by_index(engine, index).ok_or(Errno::NODEV)?)
        }
        _ => return Ok(false),
    };
    engine.stack.set_option(engine.now, socket.handle, option)?;
    Ok(true)
}

fn rule(engine: &Engine, socket: &Socket) -> Result<MtuDiscover, Errno> {
    match engine.stack.option(socket.handle, OptionName::MtuDiscover) {
        Ok(SockOption::MtuDiscover(rule)) => Ok(rule),
        _ => Err(Errno::BADF),
    }
}

fn device(engine: &Engine, socket: &Socket) -> Result<Option<InterfaceId>, Errno> {
    match engine.stack.option(socket.handle, OptionName::BindToDevice) {
        Ok(SockOption::BindToDevice(device)) => Ok(device),
        _ => Err(Errno::BADF),
    }
}

/// The name of an interface as programs know it: `lo`, or `eth` and a number from 0.
fn name_of(id: InterfaceId) -> Vec<u8> {
    match id {
        InterfaceId::LOOPBACK => b"lo\0".to_vec(),
        InterfaceId(number) => format!("eth{number}\0").into_bytes(),
    }
}

/// The interface of a name, which ends at a zero byte or with the value. `None` for an empty name.
fn by_name(engine: &Engine, given: SetValue<'_>) -> Result<Option<InterfaceId>, Errno> {
    let name = given.bytes.iter().copied().take(NAME - 1).take_while(|byte| *byte != 0);
    let name: Vec<u8> = name.chain([0]).collect();
    if name.len() == 1 {
        return Ok(None);
    }
    let found = all(engine).find(|id| name_of(*id) == name);
    found.map(Some).ok_or(Errno::NODEV)
}
