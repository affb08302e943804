//! What `tasuki lab` can measure: its experiments, the options of each, and the time that each has.
//!
//! The command and the measuring program (`tasuki-bench`) both read the command line by this one
//! definition. So help, manual and completion name what there is, and a wrong word is refused
//! before anything is measured.
//!
//! An option that is an axis takes several values: a list such as `0,1,2`, or a range such as
//! `0..8`. How a range goes on belongs to the option ([`Places`]).

mod experiment;
mod options;
mod percents;
mod places;
mod setups;
#[cfg(test)]
mod tests;

pub use experiment::ExperimentName;
pub use options::{LabOptions, StorageCipher};
pub use percents::{Percents, percent};
pub use places::{HostEnd, HostPlaces, Places, chosen_places, listed};
pub use setups::LabSetup;
