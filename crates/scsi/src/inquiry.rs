//! INQUIRY: standard data and vital product data pages (SPC-4 6.6, 7.8; SBC-3 6.6).

use crate::call::{Call, Planned};
use crate::config::{LunConfig, Provisioning, TargetConfig};
use crate::id::{LunNumber, NexusId};
use crate::limits::{MOST_COMPARE_BLOCKS, MOST_SAME_BLOCKS, PREFERRED_TRANSFER_BYTES};
use crate::sense::Sense;
use crate::state::{LogicalUnit, State};
use crate::step::MOST_UNMAP_RANGES;
use crate::third_party;
use crate::wire::{clamp16, padded};

/// Pages of a unit, in ascending order.
const PAGES: [u8; 7] = [0x00, 0x80, 0x83, 0x8f, 0xb0, 0xb1, 0xb2];

/// Those that tell which unit it is.
const NAMES: [u8; 2] = [0x80, 0x83];

/// Peripheral device type of a block device, and of the REPORT LUNS well known unit.
const BLOCK_DEVICE: u8 = 0x00;
const WELL_KNOWN: u8 = 0x1e;

pub(crate) fn inquiry(call: &mut Call<'_>) -> Planned {
    let (evpd, page) = (call.bit(1, 0), call.byte(2));
    let allocation = u64::from(call.be16(3));
    let port = call.registrant()?.target_port;
    let unit = call.unit()?;
    let data = if evpd {
        vital(&call.state.config, unit, page, port).ok_or(Sense::cdb_field(2, None))?
    } else if page != 0 {
        // SPC-4 6.6.1: without EVPD there is no page.
        return Err(Sense::cdb_field(2, None).into());
    } else {
        standard(&call.state.config, Subject::Unit(&unit.config))
    };
    if evpd && NAMES.contains(&page) {
        let nexus = call.origin.nexus;
        call.unit_mut()?.introduce(nexus);
    }
    call.data(data, allocation)
}

/// What standard data describes.
#[derive(Clone, Copy)]
pub(crate) enum Subject<'a> {
    Unit(&'a LunConfig),
    /// The REPORT LUNS well known unit.
    ReportLuns,
    /// A number without unit.
    Nothing,
}

/// Standard data (SPC-4 6.6.2).
pub(crate) fn standard(target: &TargetConfig, subject: Subject<'_>) -> Vec<u8> {
    let (kind, removable, product) = match subject {
        Subject::Unit(unit) => (BLOCK_DEVICE, unit.removable, &unit.product[..]),
        Subject::ReportLuns => (WELL_KNOWN, false, "luns"),
        // Qualifier 3: the target can have no unit here.
        Subject::Nothing => (0x7f, false, "none"),
    };
    let mut data = vec![0; 96];
    data[0] = kind;
    data[1] = if removable { 0x80 } else { 0 };
    // SPC-4; HISUP, for numbers above 255; response data format 2.
    data[2] = 0x06;
    data[3] = 0x12;
    data[4] = 91;
    // TPGS: implicit asymmetric access. 3PC: EXTENDED COPY.
    data[5] = 0x18;
    data[6] = if target.ports.len() > 1 { 0x10 } else { 0 };
    // CMDQUE.
    data[7] = 0x02;
    data[8..16].copy_from_slice(&padded::<8>(&target.vendor));
    data[16..32].copy_from_slice(&padded::<16>(product));
    data[32..36].copy_from_slice(&padded::<4>(&target.revision));
    // SAM-5, iSCSI, SPC-4, SBC-3.
    for (place, version) in [0x00a0_u16, 0x0960, 0x0460, 0x04c0].into_iter().enumerate() {
        data[58 + 2 * place..60 + 2 * place].copy_from_slice(&version.to_be_bytes());
    }
    data
}

/// Vital product data of the REPORT LUNS well known unit, and of a number without unit: which pages
/// there are, and the target's name.
pub(crate) fn vital_without_unit(
    target: &TargetConfig,
    well_known: bool,
    page: u8,
    port: u16,
) -> Option<Vec<u8>> {
    let kind = if well_known { WELL_KNOWN } else { 0x7f };
    let body = match page {
        0x00 => vec![0x00, 0x83],
        0x83 => target_designators(target, port),
        _ => return None,
    };
    Some(with_head(kind, page, &body))
}

fn vital(target: &TargetConfig, unit: &LogicalUnit, page: u8, port: u16) -> Option<Vec<u8>> {
    let body = match page {
        0x00 => PAGES.to_vec(),
        // SPC-4 7.8.14.
        0x80 => unit.config.serial.clone().into_bytes(),
        0x83 => designators(target, unit, port),
        0x8f => third_party::page(),
        0xb0 => block_limits(unit),
        0xb1 => characteristics(unit),
        0xb2 => provisioning(unit),
        _ => return None,
    };
    Some(with_head(BLOCK_DEVICE, page, &body))
}

fn with_head(kind: u8, page: u8, body: &[u8]) -> Vec<u8> {
    let [high, low] = clamp16(body.len()).to_be_bytes();
    [&[kind, page, high, low], body].concat()
}

/// What a designator names (SPC-4 table 589).
#[derive(Clone, Copy)]
enum Association {
    Unit,
    Port,
    Target,
}

/// One designation descriptor (SPC-4 7.8.6.1).
fn designator(association: Association, code_set: u8, kind: u8, value: &[u8]) -> Vec<u8> {
    // Protocol identifier 5 is iSCSI. It is valid (PIV) for ports and targets.
    let (protocol, place) = match association {
        Association::Unit => (0x00, 0x00),
        Association::Port => (0x50, 0x90),
        Association::Target => (0x50, 0xa0),
    };
    let length = u8::try_from(value.len()).unwrap_or(0);
    [&[protocol | code_set, place | kind, 0, length], value].concat()
}

/// The identifier by which EXTENDED COPY names a unit: NAA 3, locally assigned (SPC-4 7.8.6.6.4).
pub(crate) fn naa(unit: &LunConfig) -> [u8; 8] {
    (3 << 60 | unit.identifier & !(0xf << 60)).to_be_bytes()
}

/// The T10 vendor identification designator's value (SPC-4 7.8.6.4).
pub(crate) fn vendor_identifier(target: &TargetConfig, unit: &LunConfig) -> Vec<u8> {
    [&padded::<8>(&target.vendor), unit.serial.as_bytes()].concat()
}

/// Text that ends with NUL and fills whole words (SPC-4 7.8.6.11).
fn name_string(text: &str) -> Vec<u8> {
    let mut value = text.as_bytes().to_vec();
    value.push(0);
    value.resize(value.len().next_multiple_of(4), 0);
    value
}

fn designators(target: &TargetConfig, unit: &LogicalUnit, port: u16) -> Vec<u8> {
    let [high, low] = port.to_be_bytes();
    let [group_high, group_low] = target.port_group.to_be_bytes();
    [
        designator(Association::Unit, 2, 1, &vendor_identifier(target, &unit.config)),
        designator(Association::Unit, 1, 3, &naa(&unit.config)),
        designator(Association::Port, 1, 4, &[0, 0, high, low]),
        designator(Association::Port, 1, 5, &[0, 0, group_high, group_low]),
        target_designators(target, port),
    ]
    .concat()
}

fn target_designators(target: &TargetConfig, port: u16) -> Vec<u8> {
    let port = name_string(&format!("{},t,0x{port:04x}", target.name));
    [
        designator(Association::Port, 3, 8, &port),
        designator(Association::Target, 3, 8, &name_string(&target.name)),
    ]
    .concat()
}

/// Block Limits (SBC-3 6.6.3).
fn block_limits(unit: &LogicalUnit) -> Vec<u8> {
    let mut page = vec![0; 0x3c];
    // WSNZ.
    page[0] = 1;
    page[32..40].copy_from_slice(&u64::from(MOST_SAME_BLOCKS).to_be_bytes());
    let compare = unit.config.most_transfer.min(u32::from(MOST_COMPARE_BLOCKS));
    page[1] = u8::try_from(compare).unwrap_or(MOST_COMPARE_BLOCKS);
    page[2..4].copy_from_slice(&(1_u16 << unit.config.physical_exponent).to_be_bytes());
    page[4..8].copy_from_slice(&unit.config.most_transfer.to_be_bytes());
    let preferred = (PREFERRED_TRANSFER_BYTES >> unit.shift()).min(unit.config.most_transfer);
    page[8..12].copy_from_slice(&preferred.to_be_bytes());
    if let Provisioning::Thin { granularity, .. } = unit.config.provisioning {
        page[16..20].copy_from_slice(&u32::MAX.to_be_bytes());
        page[20..24].copy_from_slice(&u32::from(MOST_UNMAP_RANGES).to_be_bytes());
        page[24..28].copy_from_slice(&granularity.to_be_bytes());
        // UGAVALID: the alignment is 0.
        page[28] = 0x80;
    }
    page
}

/// Block Device Characteristics (SBC-3 6.6.2).
fn characteristics(unit: &LogicalUnit) -> Vec<u8> {
    let mut page = vec![0; 0x3c];
    page[1] = u8::from(unit.config.solid_state);
    page
}

/// Logical Block Provisioning (SBC-3 6.6.4).
fn provisioning(unit: &LogicalUnit) -> Vec<u8> {
    match unit.config.provisioning {
        Provisioning::Full => vec![0; 4],
        // LBPU, LBPWS, LBPWS10, LBPRZ; thin.
        Provisioning::Thin { anchor, .. } => vec![0, 0xe4 | u8::from(anchor) << 1, 2, 0],
    }
}

/// REPORT LUNS (SPC-4 6.33): the parameter data.
pub(crate) fn luns(state: &State, nexus: NexusId, select: u8) -> Option<Vec<u8>> {
    const WELL_KNOWN_LUN: [u8; 8] = [0xc1, 1, 0, 0, 0, 0, 0, 0];
    let sees = |lun: &&LunNumber| state.right(nexus, **lun).is_some();
    let units = state.units.keys().filter(sees).map(|lun| lun.to_wire());
    let list: Vec<[u8; 8]> = match select {
        0x00 => units.collect(),
        0x01 => vec![WELL_KNOWN_LUN],
        0x02 => std::iter::once(WELL_KNOWN_LUN).chain(units).collect(),
        // SPC-4 6.33: administrative units and what is behind them; there are none.
        0x10..=0x12 => Vec::new(),
        _ => return None,
    };
    let length = u32::try_from(8 * list.len()).unwrap_or(u32::MAX);
    Some([&length.to_be_bytes()[..], &[0; 4], list.as_flattened()].concat())
}

#[cfg(test)]
mod tests;
