//! The options of `tasuki web`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::runtime_dir::InstanceName;

/// Show an instance in a browser, live
///
/// Prints the address of a page that shows processes, rings, connections, counters and packets of
/// an instance while it runs. The page can change nothing. It wants the token in the address; other
/// users of this machine do not know it. The command goes on when the instance ends, shows that,
/// and waits for one of the same name. While nobody looks at the page, the instance is not asked.
///
/// The same is there as JSON below /api/, and for Prometheus at /metrics, with the token as a
/// bearer token.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tasuki web                              then open the address that it prints
  tasuki web web --listen 127.0.0.1:0     any free port
  ssh -L 8642:127.0.0.1:8642 host tasuki web      from another machine
  curl -H \"Authorization: Bearer $(cat token)\" http://127.0.0.1:8642/metrics")]
pub(crate) struct WebArgs {
    /// Where the page is served
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8642")]
    pub(crate) listen: SocketAddr,
    /// Serve other machines too, if --listen names an address that they can reach: without
    /// encryption
    #[arg(long)]
    pub(crate) allow_remote: bool,
    /// Read the token from FILE, of mode 0600, instead of drawing one at each start
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Ask the instance so often while somebody looks
    #[arg(short, long, value_name = "SECONDS", value_parser = interval, default_value = "0.5")]
    pub(crate) interval: Duration,
    /// The instance [default: the one that runs]
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<InstanceName>,
}

fn interval(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.1..=60.0).contains(seconds));
    let wrong = || "it is a number of seconds from 0.1 to 60".to_owned();
    Ok(Duration::from_secs_f64(seconds.ok_or_else(wrong)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals() {
        assert_eq!(interval("0.5"), Ok(Duration::from_millis(500)));
        for wrong in ["0", "0.09", "61", "-1", "NaN", "inf", "", "1s"] {
            assert!(interval(wrong).is_err(), "{wrong}");
        }
    }
}
