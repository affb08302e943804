//! Whose fault an error was.

/// The party at fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The peer broke a rule of the protocol, or refused us. Only this peer's session ends.
    Peer,
    /// The bytes were changed, cut or repeated. The peer or anything on the path did that.
    PeerOrPath,
    /// The configuration: keys, certificates, names.
    Configuration,
    /// The caller of this crate used it against its rules.
    Caller,
    /// A library failed for a reason that no argument explains, such as missing memory.
    Library,
}
