//! The plug-in that packetdrill loads (`--so_filename`) to test the protocol core.
//!
//! packetdrill calls [`packetdrill_interface_init`] once per script and gets a table of functions
//! ([`interface`]): the socket calls, packets in and out, and the clock. Nothing here touches the
//! kernel's network.
//!
//! For any stack, packetdrill asks the kernel itself for TCP_INFO, sends files with sendfile(2) and
//! runs commands with system(3). So the library must be loaded before everything else too
//! (`LD_PRELOAD`). [`preload`] answers these calls when they are about this plug-in's sockets and
//! settings, and passes on all others.
//!
//! ```text
//!   LD_PRELOAD=libtasuki_packetdrill.so packetdrill \
//!       --so_filename=libtasuki_packetdrill.so script.pkt
//! ```
//!
//! [`instance`] is the host behind both, with the clock and the one thread that may wait.
//!
//! ```text layers
//! interface: the functions that packetdrill calls
//! data preload: reading and writing; calls to the C library
//! userdata addresses: the instance behind a pointer; socket addresses
//! memory settings: what calls copy and return; sysctls of scripts
//! instance: the host, with the clock and the one thread that may wait
//! ```

mod addresses;
mod data;
mod instance;
mod interface;
mod memory;
mod preload;
mod settings;
mod userdata;
