//! From the descriptor of a frame to send to its bytes, which lie in the head's page and in the
//! regions of programs. Everything in a descriptor is an allegation of the inet server.

use std::collections::HashMap;
use std::sync::Arc;

use abi::frame::TxFrame;
use abi::offload::MAX_SUPER_FRAME;
use shm::{Area, Region};

use crate::device::{ETHERNET_HEADER, MAX_PARTS, Part};
use crate::error::BadFrame;

/// Finds the bytes of a frame, of which one that is no super-segment has at most `plain`.
#[inline]
pub(super) fn locate<'a, 'p>(
    clients: &'a HashMap<u16, Arc<Region>>,
    area: &'a Area,
    frame: &TxFrame,
    plain: usize,
    parts: &'p mut [Part<'a>; MAX_PARTS],
) -> Result<&'p [Part<'a>], BadFrame> {
    let start = usize::from(frame.offset);
    let head = area.bytes().get(start..start + usize::from(frame.len)).ok_or(BadFrame::Area)?;
    parts[0] = Part::local(head);
    let mut len = head.len();
    for (part, piece) in parts[1..].iter_mut().zip(frame.pieces()) {
        let region = clients.get(&piece.client).ok_or(BadFrame::Piece)?;
        *part = Part::shared(region, piece.offset as usize, piece.len.into())
            .map_err(|_| BadFrame::Piece)?;
        len += part.len();
    }
    // The Ethernet header is the stack's own: it must be in the head page.
    let most = if frame.offload.segments.is_some() { MAX_SUPER_FRAME } else { plain };
    let fits = head.len() >= ETHERNET_HEADER && len <= most;
    if fits { Ok(&parts[..=frame.pieces().len()]) } else { Err(BadFrame::Length) }
}
