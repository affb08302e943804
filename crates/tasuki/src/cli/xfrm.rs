//! The command line of `tasuki xfrm`.

use clap::{Args, Subcommand};

use crate::runtime_dir::InstanceName;

/// Protect packets of an instance by ESP, in the words of `ip xfrm`
///
/// A policy says which packets ESP protects; a state (a security association) has the key. Keys are
/// set by hand: there is no IKE.
#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  tasuki xfrm state add src 10.0.0.1 dst 10.0.0.2 proto esp spi 0x1000 reqid 1 \\
      mode transport replay-window 64 aead 'rfc4106(gcm(aes))' @/etc/tasuki/a.key 128
  tasuki xfrm policy add src 10.0.0.1 dst 10.0.0.2 dir out tmpl proto esp reqid 1 mode transport
  tasuki xfrm -s state list")]
pub(crate) struct XfrmArgs {
    #[command(flatten)]
    pub(crate) options: XfrmOptions,
    #[command(subcommand)]
    pub(crate) object: XfrmObject,
}

/// The options of all commands.
#[derive(Debug, Args)]
pub(crate) struct XfrmOptions {
    /// The instance [default: the one that runs]
    #[arg(long, value_name = "NAME", global = true)]
    pub(crate) net: Option<InstanceName>,
    /// Show what each state has done
    #[arg(short, long, global = true)]
    pub(crate) statistics: bool,
    /// Show keys
    #[arg(long, global = true)]
    pub(crate) show_keys: bool,
    /// Print JSON: an array with one object per state or policy
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Allow algorithms that protect too little today: triple DES, HMAC-SHA-1, no encryption
    #[arg(long, global = true)]
    pub(crate) insecure: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum XfrmObject {
    /// Security associations
    State {
        #[command(subcommand)]
        command: XfrmCommand,
    },
    /// Policies
    Policy {
        #[command(subcommand)]
        command: XfrmCommand,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum XfrmCommand {
    /// Add one
    ///
    /// A state: src ADDRESS dst ADDRESS [proto esp] spi NUMBER, then [mode transport|tunnel] [reqid
    /// NUMBER] [replay-window PACKETS] [flag esn] [limit KIND NUMBER] [sel SELECTOR] [tfcpad BYTES]
    /// and aead NAME KEY BITS, or enc NAME KEY and auth NAME KEY or auth-trunc NAME KEY BITS. KEY
    /// is hexadecimal after 0x, or a file of mode 0600 after @.
    ///
    /// A policy: SELECTOR dir in|out [priority NUMBER] [action allow|block] [tmpl [src ADDRESS dst
    /// ADDRESS] [spi NUMBER] [reqid NUMBER] [mode transport|tunnel] [level required|use]].
    ///
    /// SELECTOR: [src NETWORK] [dst NETWORK] [proto NAME] [sport PORT] [dport PORT] [type NUMBER]
    /// [code NUMBER].
    Add {
        /// Its words, as `ip xfrm` has them
        #[arg(value_name = "WORD", required = true, num_args = 1..)]
        words: Vec<String>,
    },
    /// Remove one
    ///
    /// A state is named by dst and spi, a policy by dir and its selector.
    Delete {
        /// Its name, as `ip xfrm` has it
        #[arg(value_name = "WORD", required = true, num_args = 1..)]
        words: Vec<String>,
    },
    /// Show all
    List,
    /// Remove all
    Flush,
}
