//! The life of a client as the supervisor sees it: a table, without I/O.
//!
//! ```text
//!           mapped            added            lost, faulted            released
//!  Mapping ─────────▶ Adding ────────▶ Live ──────────────▶ Removing ─────────▶ Unmapping ─▶ gone
//!     │                  │                                      ▲                     ▲
//!     │                  └── lost meanwhile ────────────────────┘                     │
//!     └── lost meanwhile ─────────────────────────────────────────────────────────────┘
//! ```
//!
//! The driver maps the region before the inet server can name it in a frame, and unmaps it after
//! the inet server has let go of it: so a frame never names a region that the driver does not know.

/// Where a client is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClientStage {
    /// The driver is mapping the region.
    Mapping,
    /// The inet server is asked to add the client.
    Adding,
    /// It uses the stack.
    Live,
    /// The inet server is closing or resetting its sockets.
    Removing,
    /// The driver is unmapping the region.
    Unmapping,
}

/// An event of a client. `Ok` and `Err` are a server's answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClientEvent {
    /// The driver's answer to `AddClient`.
    Mapped(Result<(), ()>),
    /// The inet server's answer to `AddClient`.
    Added(Result<(), ()>),
    /// The inet server's answer to `RemoveClient`.
    Removed(Result<(), ()>),
    /// The driver's answer to `UnmapClient`; whatever it says, there is no more to do.
    Unmapped,
    /// Its process or its connection ended, or it said goodbye.
    Lost,
    /// The inet server dropped it.
    Faulted,
    /// The inet server needs its region no more.
    Released,
}

/// The supervisor's next action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClientAction {
    /// Nothing: something else is awaited.
    Wait,
    /// Tell the inet server of it.
    AddToInet,
    /// Tell the client that it is in.
    Welcome,
    /// Tell the inet server that it is gone.
    Remove,
    /// Tell the driver to unmap its region.
    Unmap,
    /// Forget it; its number is free.
    Forget,
}

/// The table. `connected`: the client is still on its line.
pub(super) fn next(
    stage: ClientStage,
    happening: ClientEvent,
    connected: bool,
) -> (ClientStage, ClientAction) {
    use ClientEvent::{Added, Faulted, Lost, Mapped, Released, Removed, Unmapped};
    use ClientStage::{Adding, Live, Mapping, Removing, Unmapping};
    match (stage, happening) {
        (Mapping, Mapped(Ok(()))) if connected => (Adding, ClientAction::AddToInet),
        (Mapping, Mapped(Ok(()))) => (Unmapping, ClientAction::Unmap),
        // Of several drivers, some may have mapped it.
        (Mapping, Mapped(Err(()))) => (Unmapping, ClientAction::Unmap),
        (Adding, Added(Ok(()))) if connected => (Live, ClientAction::Welcome),
        (Adding, Added(Ok(()))) => (Removing, ClientAction::Remove),
        (Adding, Added(Err(()))) => (Unmapping, ClientAction::Unmap),
        (Live, Lost | Faulted) => (Removing, ClientAction::Remove),
        // An inet server that does not know it any more has nothing of it.
        (Removing, Removed(Err(()))) | (Live | Removing, Released) => {
            (Unmapping, ClientAction::Unmap)
        }
        (Unmapping, Unmapped) => (Unmapping, ClientAction::Forget),
        _ => (stage, ClientAction::Wait),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ClientEvent::*;

    /// Lets things happen in turn to a client that is connected until it is lost.
    fn live(happenings: &[ClientEvent]) -> Vec<ClientAction> {
        let mut stage = ClientStage::Mapping;
        let mut connected = true;
        happenings
            .iter()
            .map(|happening| {
                connected &= !matches!(happening, Lost | Faulted);
                let step;
                (stage, step) = next(stage, *happening, connected);
                step
            })
            .collect()
    }

    #[test]
    fn an_ordinary_life() {
        let steps =
            live(&[Mapped(Ok(())), Added(Ok(())), Lost, Removed(Ok(())), Released, Unmapped]);
        use ClientAction::*;
        assert_eq!(steps, [AddToInet, Welcome, Remove, Wait, Unmap, Forget]);
    }

    #[test]
    fn released_before_the_answer_to_its_removal() {
        let steps =
            live(&[Mapped(Ok(())), Added(Ok(())), Lost, Released, Removed(Ok(())), Unmapped]);
        assert_eq!(steps[3..], [ClientAction::Unmap, ClientAction::Wait, ClientAction::Forget]);
    }

    #[test]
    fn lost_while_it_is_admitted() {
        let steps = live(&[Lost, Mapped(Ok(())), Unmapped]);
        assert_eq!(steps, [ClientAction::Wait, ClientAction::Unmap, ClientAction::Forget]);
        let steps = live(&[Mapped(Ok(())), Lost, Added(Ok(())), Released, Unmapped]);
        assert_eq!(
            steps[1..],
            [ClientAction::Wait, ClientAction::Remove, ClientAction::Unmap, ClientAction::Forget]
        );
    }

    #[test]
    fn refused_by_a_server() {
        assert_eq!(live(&[Mapped(Err(())), Unmapped]), [ClientAction::Unmap, ClientAction::Forget]);
        let steps = live(&[Mapped(Ok(())), Added(Err(())), Unmapped]);
        assert_eq!(steps, [ClientAction::AddToInet, ClientAction::Unmap, ClientAction::Forget]);
    }

    #[test]
    fn faults() {
        let begin = [Mapped(Ok(())), Added(Ok(()))];
        let faulted = |rest: &[ClientEvent]| live(&[&begin, rest].concat())[2..].to_vec();
        let ends =
            [ClientAction::Remove, ClientAction::Unmap, ClientAction::Wait, ClientAction::Forget];
        // The inet server may or may not remember the client when it is asked to remove it.
        assert_eq!(faulted(&[Faulted, Removed(Err(())), Released, Unmapped]), ends);
        assert_eq!(faulted(&[Faulted, Released, Removed(Err(())), Unmapped]), ends);
        assert_eq!(faulted(&[Released, Lost, Unmapped])[0], ClientAction::Unmap);
    }

    /// All events in any order, each once: a client whose connection is gone and whose requests the
    /// servers have answered is never left in a state where nothing is awaited any more.
    #[test]
    fn every_order_of_loss_ends() {
        let all = [Mapped(Ok(())), Added(Ok(())), Removed(Ok(())), Unmapped];
        for lost_at in 0..=3 {
            for fault in [Lost, Faulted] {
                let (mut stage, mut connected) = (ClientStage::Mapping, true);
                let mut forgotten = false;
                let mut step = ClientAction::Wait;
                for round in 0..20 {
                    if round == lost_at {
                        connected = false;
                        let (to, does) = next(stage, fault, connected);
                        stage = to;
                        if does != ClientAction::Wait {
                            step = does;
                        }
                        continue;
                    }
                    // The server answers the last request.
                    let answer = match (stage, step) {
                        (ClientStage::Mapping, _) => all[0],
                        (ClientStage::Adding, _) => all[1],
                        (ClientStage::Live, _) => continue,
                        (ClientStage::Removing, _) => Released,
                        (ClientStage::Unmapping, _) => all[3],
                    };
                    (stage, step) = next(stage, answer, connected);
                    if step == ClientAction::Forget {
                        forgotten = true;
                        break;
                    }
                }
                assert!(forgotten, "lost in round {lost_at} by {fault:?}");
            }
        }
    }
}
