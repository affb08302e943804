//! Other stacks that stand beside Linux and Tasuki: those whose programs are there.

use std::path::Path;

use user::exit::say;

use crate::hosts::peer_program;
use crate::setup::Setup;

/// The peers that can be measured: smoltcp is a part of this program, the others are programs of
/// that folder. Those that are not there are told.
pub(super) fn peers_in(folder: &Path, experiment: &str) -> Vec<Setup> {
    let is_there = |setup: &Setup| {
        let Some(path) = peer_program(*setup).map(|program| folder.join(program)) else {
            return true;
        };
        if !path.is_file() {
            let path = path.display();
            say(format_args!("{experiment}: no {path}: `make bench-peers` builds it"));
        }
        path.is_file()
    };
    [Setup::Smoltcp, Setup::Lwip, Setup::Gvisor].into_iter().filter(is_there).collect()
}

/// The option that measures peers, behind other words.
pub(super) fn peer_words(folder: Option<&Path>) -> String {
    folder.map_or(String::new(), |it| format!(" --peers {}", it.display()))
}
