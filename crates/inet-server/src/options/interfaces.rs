//! Interfaces as programs name them: by index, by an address, or by name.

use std::net::{IpAddr, Ipv4Addr};

use inet::InterfaceId;

use crate::engine::Engine;

/// All interfaces, and the loopback interface.
pub(super) fn all(engine: &Engine) -> impl Iterator<Item = InterfaceId> {
    engine.stack.interfaces().chain([InterfaceId::LOOPBACK])
}

/// The interface with an index; `Some(None)` for 0, `None` if there is no such interface.
pub(super) fn by_index(engine: &Engine, index: u32) -> Option<Option<InterfaceId>> {
    if index == 0 {
        return Some(None);
    }
    all(engine).find(|id| id.scope_id() == index).map(Some)
}

/// The interface with an index, or if that is 0 the interface with an address. `Some(None)` if both
/// are left out, `None` if there is no such interface.
pub(super) fn named_v4(
    engine: &Engine,
    address: Ipv4Addr,
    index: u32,
) -> Option<Option<InterfaceId>> {
    if index != 0 || address.is_unspecified() {
        return by_index(engine, index);
    }
    if address.is_loopback() {
        return Some(Some(InterfaceId::LOOPBACK));
    }
    let has = |id: &InterfaceId| {
        engine.stack.addresses(*id).any(|one| one.cidr.address == IpAddr::V4(address))
    };
    engine.stack.interfaces().find(has).map(Some)
}
