//! Sessions between a client and a server, without and with an attacker between them.

mod credentials;
mod forger;
mod middle_man;
mod records;
mod session;
mod world;
