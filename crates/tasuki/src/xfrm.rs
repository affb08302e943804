//! Security associations and policies in the words of `ip xfrm`.
//!
//! ```text
//!   words     the words of a command line, one after the other
//!   state     associations out of words
//!   policy    policies and selectors out of words
//!   key       keys, by themselves or in files
//!   show      both as text
//! ```

mod key;
mod policy;
mod show;
mod state;
#[cfg(test)]
mod tests;
mod words;

pub(crate) use key::key_in_file;
pub(crate) use policy::{
    Address, Network, Protocol, new_selector, parse_policy, parse_policy_name,
};
pub(crate) use show::{policy_text, state_text};
pub(crate) use state::{parse_state, parse_state_name};
