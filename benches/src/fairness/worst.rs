//! `worst KIND`: the programs that do it.

use anyhow::Result;

use super::kind::{Kind, Side};
use super::program::{WorstArgs, begun};
use super::{client_kinds, control_kinds, host_kinds, user_kinds, wire_kinds};

/// Does it until it is killed.
pub(crate) fn run(args: &WorstArgs) -> Result<()> {
    match args.kind.side() {
        Side::Nowhere => compute(args.kind.threads()),
        Side::Host => host_kinds::run(args),
        Side::User => user_kinds::run(args),
        Side::Wire => wire_kinds::run(args),
        Side::Client => match args.kind {
            Kind::BellFlood
            | Kind::DirtyFlood
            | Kind::ClientBomb
            | Kind::FaultLoop
            | Kind::LingeringBell
            | Kind::LingeringControl
            | Kind::SsFlood
            | Kind::CaptureReaders
            | Kind::DescriptorFlood
            | Kind::ControlGarbage
            | Kind::QuestionFlood => control_kinds::run(args),
            _ => client_kinds::run(args),
        },
    }
}

/// `while :; do :; done` in so many threads.
fn compute(threads: usize) -> Result<()> {
    begun();
    for _ in 1..threads {
        std::thread::spawn(|| {
            loop {
                std::hint::spin_loop();
            }
        });
    }
    loop {
        std::hint::spin_loop();
    }
}
