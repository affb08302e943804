//! The measurements of each program: titles, the client's words, and what reads its output.

use std::fs;

use super::row::{Application, Reading};
use super::{outputs, ports};

/// What a client is told.
pub(crate) struct ClientWords<'a> {
    /// The server's address.
    pub(crate) server: &'a str,
    /// How long to measure.
    pub(crate) seconds: u32,
    /// The beginning of the names of files that it may write.
    pub(crate) file: &'a str,
}

/// Makes the client's words.
type WordsOf = Box<dyn Fn(&ClientWords<'_>) -> Vec<String>>;

/// One measurement: a run of the client.
pub(crate) struct Measurement {
    /// The program.
    pub(crate) application: Application,
    /// Names it within its program.
    pub(crate) title: String,
    /// The client's words.
    pub(crate) words: WordsOf,
    /// Reads the output.
    pub(crate) parse: fn(&str) -> Result<Vec<Reading>, anyhow::Error>,
    /// The default congestion control of the kernel's ends from this measurement on.
    pub(crate) congestion: Option<&'static str>,
}

/// Congestion control that any namespace may have as its default.
const FREE: &str = "bbr";

/// Those of iperf3 that this kernel has.
pub(crate) fn congestions() -> Vec<String> {
    let known = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    let known = known.unwrap_or_default();
    let known: Vec<&str> = known.split_whitespace().collect();
    ["cubic", "bbr"].into_iter().filter(|it| known.contains(it)).map(str::to_owned).collect()
}

/// All measurements. Those of iperf3 are repeated with each congestion control.
pub(crate) fn all(congestions: &[String]) -> Vec<Measurement> {
    let mut all = redis();
    all.extend(nginx());
    all.extend(congestions.iter().flat_map(|congestion| iperf3(congestion)));
    all.extend(sockperf());
    all.extend([1, 10].map(pgbench));
    all.push(memaslap());
    all
}

fn owned<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).to_vec()
}

/// redis-benchmark has a number of requests and no time. The numbers a second are about those of
/// the kernel on two slow processors.
fn redis() -> Vec<Measurement> {
    let runs = [
        ("1 client", 1, 1, 12_000),
        ("50 clients", 50, 1, 50_000),
        ("50 clients, pipeline 16", 50, 16, 250_000),
    ];
    let one = |(title, clients, pipeline, rate): (&str, u32, u32, u32)| Measurement {
        application: Application::Redis,
        title: title.to_owned(),
        words: Box::new(move |words| {
            let mut all = owned(["redis-benchmark", "-h", words.server, "-t", "set,get", "--csv"]);
            let numbers = [("-c", clients), ("-P", pipeline), ("-n", rate * words.seconds)];
            all.extend(
                numbers.into_iter().flat_map(|(word, value)| [word.into(), value.to_string()]),
            );
            all
        }),
        parse: outputs::redis,
        congestion: None,
    };
    runs.into_iter().map(one).collect()
}

/// wrk. Very many connections take longer to make, and a thousand answers of 1 MiB to arrive.
fn nginx() -> Vec<Measurement> {
    let one = |file: &'static str, size: &str, close: bool, connections: u32| {
        let kept = if close { "Connection: close" } else { "keep-alive" };
        Measurement {
            application: Application::Nginx,
            title: format!("{size}, {kept}, {connections} connections"),
            words: Box::new(move |words| {
                let more =
                    if connections * if file == "1m" { 10 } else { 1 } >= 10_000 { 4 } else { 0 };
                let seconds = words.seconds + more;
                let mut all = owned(["wrk", "--latency", "--timeout", "10s", "-t", "2"]);
                all.extend([format!("-c{connections}"), format!("-d{seconds}s")]);
                all.extend(if close { owned(["-H", "Connection: close"]) } else { Vec::new() });
                all.push(format!("http://{}:{}/{file}", words.server, ports::NGINX_PORT));
                all
            }),
            parse: outputs::wrk,
            congestion: None,
        }
    };
    let small = [50, 100, 1000, 10_000];
    let mut all: Vec<Measurement> = small.map(|count| one("1k", "1 KiB", false, count)).into();
    all.extend(small.map(|count| one("1k", "1 KiB", true, count)));
    all.extend([50, 1000].map(|count| one("1m", "1 MiB", false, count)));
    all.push(one("1m", "1 MiB", true, 50));
    all
}

/// iperf3, where the kernel's sender has this congestion control. `-C` sets that of both ends, and
/// Tasuki has no BBR. So BBR is the default of the kernel's namespace instead. CUBIC is not allowed
/// as the default of a namespace wherever it is not that of the machine.
fn iperf3(congestion: &str) -> Vec<Measurement> {
    let by_default = (congestion == FREE).then_some(FREE);
    let one = |streams: u32, reverse: bool| {
        let named = by_default.is_none().then(|| congestion.to_owned());
        let plural = if streams == 1 { "" } else { "s" };
        let direction = if reverse { ", -R" } else { "" };
        Measurement {
            application: Application::Iperf3,
            title: format!("{streams} stream{plural}{direction}, kernel's sender {congestion}"),
            words: Box::new(move |words| {
                let mut all = owned(["iperf3", "-J", "-c", words.server]);
                all.extend(["-t".into(), words.seconds.to_string()]);
                all.extend(["-P".into(), streams.to_string()]);
                all.extend(reverse.then(|| "-R".to_owned()));
                all.extend(named.iter().flat_map(|name| ["-C".to_owned(), name.clone()]));
                all
            }),
            parse: outputs::iperf3,
            congestion: by_default,
        }
    };
    [(1, false), (1, true), (8, false), (8, true)].map(|(n, reverse)| one(n, reverse)).into()
}

fn sockperf() -> Vec<Measurement> {
    let one = |kind: &'static str, title: &str, tcp: bool, rest: &'static [&'static str]| {
        let protocol = if tcp { "TCP" } else { "UDP" };
        Measurement {
            application: Application::Sockperf,
            title: format!("{title}, {protocol}"),
            words: Box::new(move |words| {
                let port = ports::SOCKPERF_PORT.to_string();
                let mut all = owned(["sockperf", kind, "-i", words.server, "-p", &port, "-t"]);
                all.push(words.seconds.to_string());
                all.extend(tcp.then(|| "--tcp".to_owned()));
                all.extend(rest.iter().map(|word| (*word).to_owned()));
                all
            }),
            parse: if rest.is_empty() { outputs::sockperf } else { outputs::sockperf_load },
            congestion: None,
        }
    };
    // By default one message of 100 is answered: too few for a 99.9th percentile.
    let load = ["--mps=10000", "--reply-every=5"].as_slice();
    [true, false]
        .into_iter()
        .flat_map(|tcp| {
            let loaded = "under load, 10,000 messages/s";
            [one("ping-pong", "ping-pong", tcp, &[]), one("under-load", loaded, tcp, load)]
        })
        .collect()
}

/// `pgbench -S`. Its log has the latency of each transaction.
fn pgbench(clients: u32) -> Measurement {
    let plural = if clients == 1 { "" } else { "s" };
    Measurement {
        application: Application::Postgres,
        title: format!("{clients} client{plural}"),
        words: Box::new(move |words| {
            let script = "pgbench \"$@\" && cat \"$0\"* && rm -f \"$0\"*";
            let log = format!("--log-prefix={}", words.file);
            let mut all = owned(["sh", "-c", script, words.file, "-n", "-S", "-l", &log]);
            all.extend(owned(["-h", words.server, "-U", "postgres"]));
            let threads = clients.min(2);
            all.extend(
                ["-c", "-j", "-T"]
                    .into_iter()
                    .zip([clients, threads, words.seconds])
                    .flat_map(|(word, value)| [word.to_owned(), value.to_string()]),
            );
            all.push("postgres".to_owned());
            all
        }),
        parse: outputs::pgbench,
        congestion: None,
    }
}

/// Debian's memaslap: nine gets for each set, values of 1 KiB.
fn memaslap() -> Measurement {
    Measurement {
        application: Application::Memcached,
        title: "50 connections, 9 gets to 1 set".to_owned(),
        words: Box::new(|words| {
            let server = format!("{}:{}", words.server, ports::MEMCACHED_PORT);
            let mut all = owned(["memcaslap", "-T", "2", "-c", "50", "-s", &server, "-t"]);
            all.push(format!("{}s", words.seconds));
            all
        }),
        parse: outputs::memaslap,
        congestion: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_are_unique_and_every_program_has_some() {
        let all = all(&["cubic".to_owned(), "bbr".to_owned()]);
        let names: Vec<_> = all.iter().map(|it| (it.application.name(), &it.title)).collect();
        let unique: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(unique.len(), names.len(), "{names:?}");
        for application in Application::ALL {
            assert!(all.iter().any(|it| it.application == application), "{application:?}");
        }
    }
}
