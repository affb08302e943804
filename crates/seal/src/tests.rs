//! Sessions between a client and a server, without and with an attacker between them.

mod credentials;
mod forger;
mod middle_man;
mod property;
mod records;
mod session;
mod threats;
mod vectors;
mod world;
