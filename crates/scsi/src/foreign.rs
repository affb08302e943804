//! Commands to a LUN without unit, and to the REPORT LUNS well known unit (SAM-5 5.11, SPC-4 8).
//!
//! They touch no medium and have no state, so each ends at once. A well known unit of this crate
//! has no unit attentions.

use crate::call::{Failure, Reply};
use crate::dispatch::fields;
use crate::id::LunAddress;
use crate::inquiry::{Subject, luns, standard, vital_without_unit};
use crate::sense::{Sense, SenseCode, SenseKey};
use crate::state::State;
use crate::status::Status;
use crate::step::{DataIn, Response};
use crate::table::{Lookup, Operation, find};
use crate::task::{Command, respond};
use crate::wire;

/// The response.
pub(crate) fn answer(state: &State, command: &Command<'_>) -> Response {
    let mut cdb = [0; 16];
    for (place, byte) in cdb.iter_mut().zip(command.cdb) {
        *place = *byte;
    }
    match data(state, command, &cdb) {
        Ok((mut data, allocation)) => {
            data.truncate(usize::try_from(allocation).unwrap_or(usize::MAX));
            let length = data.len() as u64;
            data.truncate(usize::try_from(command.expected_in).unwrap_or(usize::MAX));
            let reply = Reply { status: Status::Good, data: DataIn::Bytes(data.into()) };
            respond(Ok(reply), length, command.expected_in, false)
        }
        Err(failure) => {
            let expected = command.expected_in.max(command.expected_out);
            respond(Err(failure), 0, expected, false)
        }
    }
}

/// Data-in and the allocation length.
fn data(state: &State, command: &Command<'_>, cdb: &[u8; 16]) -> Result<(Vec<u8>, u64), Failure> {
    let well_known = command.lun == LunAddress::ReportLuns;
    let missing = Sense::illegal(SenseCode::NO_SUCH_LUN);
    let Lookup::Found(row) = find(cdb[0], cdb[1] & 0x1f) else {
        let unknown = Sense::illegal(SenseCode::INVALID_OPCODE);
        return Err(if well_known { unknown.into() } else { missing.into() });
    };
    let short = u64::from(wire::be16(cdb, 3).unwrap_or(0));
    match row.operation {
        Operation::Inquiry => {
            fields(row, cdb)?;
            let port = state.nexuses.get(&command.nexus).map_or(0, |who| who.target_port);
            let data = match (cdb[1] & 1, cdb[2]) {
                (0, 0) if well_known => Some(standard(&state.config, Subject::ReportLuns)),
                (0, 0) => Some(standard(&state.config, Subject::Nothing)),
                (0, _) => None,
                (_, page) => vital_without_unit(&state.config, well_known, page, port),
            };
            Ok((data.ok_or(Sense::cdb_field(2, None))?, short))
        }
        Operation::ReportLuns => {
            fields(row, cdb)?;
            let allocation = wire::be32(cdb, 6).unwrap_or(0);
            if allocation < 16 {
                return Err(Sense::cdb_field(6, None).into());
            }
            let list = luns(state, command.nexus, cdb[2]).ok_or(Sense::cdb_field(2, None))?;
            Ok((list, u64::from(allocation)))
        }
        // SPC-4 6.39: the sense data itself says that there is no unit.
        Operation::RequestSense => {
            fields(row, cdb)?;
            let nothing = Sense::new(SenseKey::NoSense, SenseCode::NONE);
            let sense = if well_known { nothing } else { missing };
            Ok((sense.to_bytes(cdb[1] & 1 != 0).to_vec(), u64::from(cdb[4])))
        }
        Operation::TestUnitReady if well_known => {
            fields(row, cdb)?;
            Ok((Vec::new(), 0))
        }
        _ if well_known => Err(Sense::illegal(SenseCode::INVALID_OPCODE).into()),
        _ => Err(missing.into()),
    }
}
