//! `tasuki-bench viewer`: what somebody who looks at `tasuki web` costs the data path.
//!
//! One page costs less than a machine's unrest. So snapshots come faster than a page asks for them:
//! with 0.1 s instead of 0.5 there are five times as many, and a fifth of the loss is that of one
//! page. That supposes that the loss grows with their number. The reader of the snapshots is a
//! thread of this program, which throws them away. What a browser needs to draw is not in it.
//!
//! A pair is two runs of a client, one with a reader and one without, which take turns in being
//! first. `tasuki web` runs beside both. After some pairs comes a new instance: two instances of
//! one build differ for as long as they live. Nothing is tied to a processor, unless requested.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Shutdown, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use clap::Args;
use lab::statistics::median_interval;
use serde::Serialize;

use crate::clients::run_client;
use crate::instruments::{Instance, Making};
use crate::processor_time;
use crate::protocol::Test;
use crate::row::Sample;
use crate::running_server::{RunningServer, first_line};
use crate::setup::{Build, Role};

/// The interval of a page, seconds: the default of `tasuki web`.
const PAGE_INTERVAL: f64 = 0.5;
/// Pairs on one instance.
const PAIRS_EACH: u32 = 4;
/// How long a snapshot may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes of a request (rtt), and of a write.
const REQUEST: &str = "64";
const WRITE: &str = "65536";

/// What `viewer` runs.
#[derive(Args)]
pub(crate) struct ViewerArgs {
    /// The `tasuki` command.
    #[arg(long, env = "TASUKI_BIN", default_value = "target/release/tasuki")]
    tasuki: PathBuf,
    /// How the instance is made: split, fused, library.
    #[arg(long, value_delimiter = ',', default_value = "split")]
    mode: Vec<String>,
    /// Whether Tasuki's end is the client or the server.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "client,server")]
    role: Vec<Role>,
    /// What the client does.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "receive,send")]
    test: Vec<Test>,
    /// Pairs of runs, with a reader and without, of each.
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u32).range(1..))]
    pairs: u32,
    /// Seconds between two snapshots, from 0.1 on.
    #[arg(long, value_name = "SECONDS", default_value_t = 0.1)]
    interval: f64,
    /// MiB of each run (send, receive).
    #[arg(long, value_name = "MIB", default_value_t = 4096)]
    mib: u64,
    /// Round trips of each run (rtt).
    #[arg(long, default_value_t = 50_000)]
    count: u32,
    /// Tie Tasuki's end to the first processor, and the other end to the second. Round trips differ
    /// less then.
    #[arg(long)]
    pinned: bool,
    /// Print all pairs as JSON instead of a table.
    #[arg(long)]
    json: bool,
}

/// Two runs of a client.
#[derive(Debug, Clone, Serialize)]
struct Pair {
    mode: String,
    role: Role,
    test: Test,
    /// The rates without a reader and with one: MiB or round trips a second.
    quiet: f64,
    viewed: f64,
    /// Snapshots that the reader got, in so many seconds.
    snapshots: u64,
    seconds: f64,
    /// Processor time of `tasuki web` meanwhile, seconds; the kernel counts hundredths.
    web_seconds: f64,
}

/// Measures.
pub(crate) fn run(args: &ViewerArgs) -> Result<()> {
    let mut pairs = Vec::new();
    let rounds = args.pairs.div_ceil(PAIRS_EACH);
    for round in 0..rounds {
        eprintln!("viewer: round {} of {rounds}", round + 1);
        let left = (args.pairs - round * PAIRS_EACH).min(PAIRS_EACH);
        for mode in &args.mode {
            for &role in &args.role {
                for &test in &args.test {
                    pairs.extend(Watched::new(args, mode, role)?.pairs(args, test, left)?);
                }
            }
        }
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&pairs)?);
    } else {
        print!("{}", table(&pairs));
    }
    Ok(())
}

/// An instance, its page, and the server of measurements on it or beside it.
struct Watched {
    mode: String,
    role: Role,
    /// The server on the instance. It ends before the instance does.
    _server: Option<RunningServer>,
    web: Web,
    instance: Instance,
}

impl Watched {
    fn new(args: &ViewerArgs, mode: &str, role: Role) -> Result<Self> {
        let (tasuki, build) = (&args.tasuki, Build::New);
        ensure!(tasuki.exists(), "{} is not there: `make build` makes it", tasuki.display());
        let making = Making { tasuki, mode, pinned: args.pinned, config: None, build };
        let instance = Instance::made(&making)?;
        let _server = match role {
            Role::Client => None,
            Role::Server => Some(RunningServer::start(instance.server()?, true)?),
        };
        let web = Web::start(instance.web(args.interval))?;
        Ok(Self { mode: mode.to_owned(), role, _server, web, instance })
    }

    fn pairs(&self, args: &ViewerArgs, test: Test, count: u32) -> Result<Vec<Pair>> {
        // The first client finds cold memory.
        self.rate(args, test)?;
        (0..count).map(|at| self.pair(args, test, at % 2 == 0)).collect()
    }

    fn pair(&self, args: &ViewerArgs, test: Test, quiet_first: bool) -> Result<Pair> {
        let before = quiet_first.then(|| self.rate(args, test)).transpose()?;
        let (began, used_before) = (Instant::now(), self.web.processor_seconds()?);
        let reader = self.web.read()?;
        let viewed = self.rate(args, test)?;
        let snapshots = reader.end()?;
        Ok(Pair {
            mode: self.mode.clone(),
            role: self.role,
            test,
            viewed,
            snapshots,
            seconds: began.elapsed().as_secs_f64(),
            web_seconds: self.web.processor_seconds()? - used_before,
            quiet: before.map_or_else(|| self.rate(args, test), Ok)?,
        })
    }

    /// The rate of one client.
    fn rate(&self, args: &ViewerArgs, test: Test) -> Result<f64> {
        let word = clap::ValueEnum::to_possible_value(&test).context("a test's name")?;
        let size = if test == Test::Rtt { REQUEST } else { WRITE };
        let (bytes, count) = ((args.mib << 20).to_string(), args.count.to_string());
        let words = ["client", "--test", word.get_name(), "--size", size, "--bytes", &bytes];
        let mut client = match self.role {
            Role::Client => self.instance.client(&words)?,
            Role::Server => self.instance.kernel_client(&words)?,
        };
        client.args(["--count", &count]);
        let said = run_client(client, None)?;
        Ok(serde_json::from_str::<Sample>(&said).context("the client's sample")?.rate)
    }
}

/// A running `tasuki web`. A drop ends it.
struct Web {
    program: Child,
    /// Address and port, and the token.
    address: String,
    token: String,
}

impl Web {
    fn start(mut command: Command) -> Result<Self> {
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let program = command.spawn().context("starting `setpriv`: is util-linux installed?")?;
        let mut web = Self { program, address: String::new(), token: String::new() };
        let line = first_line(&mut web.program)?;
        let url = line.trim().strip_prefix("http://").and_then(|url| url.split_once("/?token="));
        let (address, token) = url.with_context(|| format!("{command:?} printed `{line}`"))?;
        (web.address, web.token) = (address.to_owned(), token.to_owned());
        Ok(web)
    }

    /// Begins to read snapshots. The first one has come.
    fn read(&self) -> Result<Reader> {
        let mut stream = TcpStream::connect(&self.address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let (host, token) = (&self.address, &self.token);
        write!(
            stream,
            "GET /api/events HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\r\n"
        )?;
        let lines = BufReader::new(stream.try_clone()?).split(b'\n');
        let lines = lines.map_while(std::result::Result::ok);
        let mut snapshots = lines.filter(|line| line.starts_with(b"data: "));
        snapshots.next().context("`tasuki web` sends no snapshot")?;
        let count = || 1 + snapshots.count() as u64;
        Ok(Reader { stream, thread: thread::spawn(count) })
    }

    /// Its processor time so far.
    fn processor_seconds(&self) -> Result<f64> {
        let used = processor_time::of_process(self.program.id());
        used.map(|(user, system)| user + system).context("`tasuki web` has ended")
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

/// Somebody who reads snapshots.
struct Reader {
    stream: TcpStream,
    thread: JoinHandle<u64>,
}

impl Reader {
    /// Ends it. How many snapshots there were.
    fn end(self) -> Result<u64> {
        // An end that has come already is the goal.
        let _ = self.stream.shutdown(Shutdown::Both);
        self.thread.join().map_err(|_| anyhow!("the reader of snapshots panicked"))
    }
}

/// As Markdown: a row for each mode, role and test, in the order of their first pairs.
fn table(pairs: &[Pair]) -> String {
    let mut text =
        "| mode | Tasuki is | client | pairs | rate, viewed to quiet | snapshots a second \
                    | one page costs % | web uses % of a processor |\n\
                    |---|---|---|---:|---:|---:|---:|---:|\n"
            .to_owned();
    let mut kinds: Vec<(&str, Role, Test)> = Vec::new();
    for pair in pairs {
        let kind = (pair.mode.as_str(), pair.role, pair.test);
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    for kind in kinds {
        let own: Vec<&Pair> =
            pairs.iter().filter(|p| (p.mode.as_str(), p.role, p.test) == kind).collect();
        text += &row(kind, &own);
    }
    text
}

fn row((mode, role, test): (&str, Role, Test), own: &[&Pair]) -> String {
    let sum = |figure: fn(&Pair) -> f64| own.iter().copied().map(figure).sum::<f64>();
    let seconds = sum(|pair| pair.seconds);
    let a_second = sum(|pair| pair.snapshots as f64) / seconds;
    let ratios: Vec<f64> = own.iter().map(|pair| pair.viewed / pair.quiet).collect();
    let Some(ratio) = median_interval(&ratios) else { return String::new() };
    let cost = |ratio: f64| (1.0 - ratio) * 100.0 / (a_second * PAGE_INTERVAL);
    format!(
        "| {mode} | {role:?} | {test:?} | {} | {:.3} ({:.3} to {:.3}) | {a_second:.1} \
         | {:.1} ({:.1} to {:.1}) | {:.1} |\n",
        own.len(),
        ratio.middle,
        ratio.low,
        ratio.high,
        cost(ratio.middle),
        cost(ratio.high),
        cost(ratio.low),
        sum(|pair| pair.web_seconds) * 100.0 / seconds,
    )
    .to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loss_is_that_of_one_page() {
        let pair = |quiet, viewed| Pair {
            mode: "split".to_owned(),
            role: Role::Client,
            test: Test::Receive,
            quiet,
            viewed,
            snapshots: 10,
            seconds: 1.0,
            web_seconds: 0.01,
        };
        let fused = Pair { mode: "fused".to_owned(), ..pair(10.0, 11.0) };
        let text = table(&[pair(100.0, 90.0), pair(200.0, 180.0), fused]);
        let rows: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(
            rows,
            [
                "| split | client | receive | 2 | 0.900 (0.900 to 0.900) | 10.0 \
                 | 2.0 (2.0 to 2.0) | 1.0 |",
                "| fused | client | receive | 1 | 1.100 (1.100 to 1.100) | 10.0 \
                 | -2.0 (-2.0 to -2.0) | 1.0 |",
            ]
        );
    }
}
