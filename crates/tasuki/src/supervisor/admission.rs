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
pub(super) enum Stage {
    /// The driver is mapping the region.
    Mapping,
    /// The inet server is being told.
    Adding,
    /// It uses the stack.
    Live,
    /// The inet server is closing or resetting its sockets.
    Removing,
    /// The driver is unmapping the region.
    Unmapping,
}

/// What happens to a client. `Ok` and `Err` are a server's answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Happening {
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

/// What the supervisor does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
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
pub(super) fn next(stage: Stage, happening: Happening, connected: bool) -> (Stage, Step) {
    use Happening::{Added, Faulted, Lost, Mapped, Released, Removed, Unmapped};
    use Stage::{Adding, Live, Mapping, Removing, Unmapping};
    match (stage, happening) {
        (Mapping, Mapped(Ok(()))) if connected => (Adding, Step::AddToInet),
        (Mapping, Mapped(Ok(()))) => (Unmapping, Step::Unmap),
        // Of several drivers, some may have mapped it.
        (Mapping, Mapped(Err(()))) => (Unmapping, Step::Unmap),
        (Adding, Added(Ok(()))) if connected => (Live, Step::Welcome),
        (Adding, Added(Ok(()))) => (Removing, Step::Remove),
        (Adding, Added(Err(()))) => (Unmapping, Step::Unmap),
        (Live, Lost | Faulted) => (Removing, Step::Remove),
        // An inet server that does not know it any more has nothing of it.
        (Removing, Removed(Err(()))) | (Live | Removing, Released) => (Unmapping, Step::Unmap),
        (Unmapping, Unmapped) => (Unmapping, Step::Forget),
        _ => (stage, Step::Wait),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Happening::*;

    /// Lets things happen in turn to a client that is connected until it is lost.
    fn live(happenings: &[Happening]) -> Vec<Step> {
        let mut stage = Stage::Mapping;
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
        use Step::*;
        assert_eq!(steps, [AddToInet, Welcome, Remove, Wait, Unmap, Forget]);
    }

    #[test]
    fn released_before_the_answer_to_its_removal() {
        let steps =
            live(&[Mapped(Ok(())), Added(Ok(())), Lost, Released, Removed(Ok(())), Unmapped]);
        assert_eq!(steps[3..], [Step::Unmap, Step::Wait, Step::Forget]);
    }

    #[test]
    fn lost_while_it_is_admitted() {
        let steps = live(&[Lost, Mapped(Ok(())), Unmapped]);
        assert_eq!(steps, [Step::Wait, Step::Unmap, Step::Forget]);
        let steps = live(&[Mapped(Ok(())), Lost, Added(Ok(())), Released, Unmapped]);
        assert_eq!(steps[1..], [Step::Wait, Step::Remove, Step::Unmap, Step::Forget]);
    }

    #[test]
    fn refused_by_a_server() {
        assert_eq!(live(&[Mapped(Err(())), Unmapped]), [Step::Unmap, Step::Forget]);
        let steps = live(&[Mapped(Ok(())), Added(Err(())), Unmapped]);
        assert_eq!(steps, [Step::AddToInet, Step::Unmap, Step::Forget]);
    }

    #[test]
    fn faults() {
        let begin = [Mapped(Ok(())), Added(Ok(()))];
        let faulted = |rest: &[Happening]| live(&[&begin, rest].concat())[2..].to_vec();
        let ends = [Step::Remove, Step::Unmap, Step::Wait, Step::Forget];
        // The inet server may or may not remember it when it is told to remove it.
        assert_eq!(faulted(&[Faulted, Removed(Err(())), Released, Unmapped]), ends);
        assert_eq!(faulted(&[Faulted, Released, Removed(Err(())), Unmapped]), ends);
        assert_eq!(faulted(&[Released, Lost, Unmapped])[0], Step::Unmap);
    }

    /// Whatever happens in whatever order, once: a client that is gone from its line and answered
    /// by the servers is never left in a state where nothing is awaited any more.
    #[test]
    fn every_order_of_loss_ends() {
        let all = [Mapped(Ok(())), Added(Ok(())), Removed(Ok(())), Unmapped];
        for lost_at in 0..=3 {
            for fault in [Lost, Faulted] {
                let (mut stage, mut connected) = (Stage::Mapping, true);
                let mut forgotten = false;
                let mut step = Step::Wait;
                for round in 0..20 {
                    if round == lost_at {
                        connected = false;
                        let (to, does) = next(stage, fault, connected);
                        stage = to;
                        if does != Step::Wait {
                            step = does;
                        }
                        continue;
                    }
                    // The server answers what was asked last.
                    let answer = match (stage, step) {
                        (Stage::Mapping, _) => all[0],
                        (Stage::Adding, _) => all[1],
                        (Stage::Live, _) => continue,
                        (Stage::Removing, _) => Released,
                        (Stage::Unmapping, _) => all[3],
                    };
                    (stage, step) = next(stage, answer, connected);
                    if step == Step::Forget {
                        forgotten = true;
                        break;
                    }
                }
                assert!(forgotten, "lost in round {lost_at} by {fault:?}");
            }
        }
    }
}
