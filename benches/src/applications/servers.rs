//! The programs' servers: their words and files, and when they are ready.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use super::ports::{
    IPERF3_PORT, MEMCACHED_PORT, NGINX_PORT, POSTGRES_PORT, REDIS_PORT, SOCKPERF_PORT,
};
use super::process::{end, last_lines};
use super::row::Application;
use crate::hosts::Ends;
use crate::setup::Role;

/// The most time for a server to listen.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(20);

/// Where Debian has programs that are not on everybody's PATH.
const FOLDERS: [&str; 3] = ["/usr/sbin", "/sbin", "/usr/local/sbin"];
const POSTGRES_VERSIONS: &str = "/usr/lib/postgresql";

/// The path of a program.
fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    folders.extend(FOLDERS.map(PathBuf::from));
    let versions = fs::read_dir(POSTGRES_VERSIONS).into_iter().flatten().flatten();
    let mut versions: Vec<PathBuf> = versions.map(|it| it.path().join("bin")).collect();
    versions.sort();
    folders.extend(versions.into_iter().rev());
    folders.into_iter().map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// The programs of it that are not installed.
pub(crate) fn missing(application: Application) -> Vec<&'static str> {
    let programs: &[&str] = match application {
        Application::Redis => &["redis-server", "redis-benchmark"],
        Application::Nginx => &["nginx", "wrk", "prlimit"],
        Application::Iperf3 => &["iperf3"],
        Application::Sockperf => &["sockperf"],
        Application::Postgres => &["postgres", "initdb", "pgbench", "pg_isready", "setpriv"],
        Application::Memcached => &["memcached", "memcaslap"],
    };
    programs.iter().copied().filter(|program| find(program).is_none()).collect()
}

/// Words before both ends of it: RLIMIT_NOFILE for its connections.
pub(crate) fn limits(application: Application) -> &'static [&'static str] {
    match application {
        Application::Nginx => &["prlimit", "--nofile=20000:20000"],
        _ => &[],
    }
}

/// A server that listens.
pub(crate) struct ApplicationServer {
    child: Child,
    log: PathBuf,
}

impl ApplicationServer {
    /// Starts it at the server's end.
    pub(crate) fn start(application: Application, ends: &Ends, folder: &Path) -> Result<Self> {
        let name = format!("{}-{}", application.name(), ends.title().replace(' ', "-"));
        let (own, log) = (folder.join(&name), folder.join(format!("{name}.log")));
        let words = words(application, folder, &own)?;
        let mut command = ends.command(Role::Server, limits(application))?;
        command.args(words).stdin(Stdio::null());
        let file = File::create(&log)?;
        command.stdout(file.try_clone()?).stderr(file);
        let child = command.spawn().with_context(|| format!("starting {command:?}"))?;
        let mut server = Self { child, log };
        let began = Instant::now();
        while !is_ready(application, ends, &own)? {
            if let Some(words) = server.last_words() {
                bail!("it ended: {words}");
            }
            if began.elapsed() > PATIENCE {
                bail!("it does not listen after {PATIENCE:?}: {}", server.said());
            }
            sleep(LOOK);
        }
        Ok(server)
    }

    fn said(&self) -> String {
        let said = fs::read(&self.log).unwrap_or_default();
        last_lines(&String::from_utf8_lossy(&said))
    }

    /// What it said last, if it has ended.
    pub(crate) fn last_words(&mut self) -> Option<String> {
        let status = self.child.try_wait().ok().flatten()?;
        Some(format!("{status}: {}", self.said()))
    }
}

impl Drop for ApplicationServer {
    fn drop(&mut self) {
        // A failure leaves it to the removal of its namespace.
        let _ = end(&mut self.child);
    }
}

/// The server's words; `own` is its folder, within that of all.
fn words(application: Application, folder: &Path, own: &Path) -> Result<Vec<String>> {
    let own_text = own.to_string_lossy().into_owned();
    let line = match application {
        Application::Redis => format!(
            "redis-server --port {REDIS_PORT} --bind 0.0.0.0 --protected-mode no --appendonly no"
        ),
        Application::Nginx => {
            nginx_files(own)?;
            format!("{} -c {own_text}/nginx.conf -e stderr", path_of("nginx")?)
        }
        Application::Iperf3 => "iperf3 -s".to_owned(),
        Application::Memcached => {
            format!("memcached -u nobody -t 4 -m 512 -U 0 -p {MEMCACHED_PORT}")
        }
        Application::Sockperf => {
            let server = format!("sockperf server -i 0.0.0.0 -p {SOCKPERF_PORT}");
            return Ok(["sh", "-c", &format!("{server} & exec {server} --tcp")]
                .map(str::to_owned)
                .to_vec());
        }
        Application::Postgres => {
            postgres_files(folder, own)?;
            let user = "setpriv --reuid=postgres --regid=postgres --clear-groups";
            let settings = "-c listen_addresses=* -c max_wal_size=4GB";
            let postgres = path_of("postgres")?;
            format!("{user} {postgres} -D {own_text} -k {own_text} {settings}")
        }
    };
    let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    if application == Application::Redis {
        // An empty word: no saves.
        words.extend(["--save".to_owned(), String::new()]);
    }
    Ok(words)
}

fn path_of(program: &str) -> Result<String> {
    let path = find(program).with_context(|| format!("{program} is not installed"))?;
    Ok(path.to_string_lossy().into_owned())
}

/// Can clients connect?
fn is_ready(application: Application, ends: &Ends, own: &Path) -> Result<bool> {
    if application == Application::Postgres {
        // It listens before it is ready.
        let mut command = Command::new(path_of("pg_isready")?);
        command.arg("-q").arg("-h").arg(own).stdout(Stdio::null()).stderr(Stdio::null());
        if !command.status()?.success() {
            return Ok(false);
        }
    }
    let port = match application {
        Application::Redis => REDIS_PORT,
        Application::Nginx => NGINX_PORT,
        Application::Iperf3 => IPERF3_PORT,
        Application::Sockperf => SOCKPERF_PORT,
        Application::Postgres => POSTGRES_PORT,
        Application::Memcached => MEMCACHED_PORT,
    };
    let (mut command, address) = ends.prober()?;
    let script = format!("exec 3<>/dev/tcp/{address}/{port}");
    command.args(["timeout", "2", "bash", "-c", &script]).stderr(Stdio::null());
    Ok(command.status()?.success())
}

/// Two files, and a configuration like Debian's without an access log.
fn nginx_files(own: &Path) -> Result<()> {
    fs::create_dir_all(own)?;
    fs::write(own.join("1k"), [b'x'; 1 << 10])?;
    fs::write(own.join("1m"), vec![b'x'; 1 << 20])?;
    let root = own.display();
    let text = format!(
        "daemon off;\npid {root}/pid;\nworker_processes 2;\nworker_rlimit_nofile 20000;\n\
         events {{ worker_connections 20000; }}\n\
         http {{\n  access_log off;\n  sendfile on;\n  tcp_nopush on;\n  \
         server {{ listen {NGINX_PORT} backlog=4096; root {root}; }}\n}}\n"
    );
    Ok(fs::write(own.join("nginx.conf"), text)?)
}

/// A copy of a database with the tables of pgbench. The first call makes the original.
fn postgres_files(folder: &Path, own: &Path) -> Result<()> {
    let original = folder.join("postgres");
    if !original.exists() {
        make_database(&original)?;
    }
    // That of an earlier round.
    let _ = fs::remove_dir_all(own);
    shell(r#"cp -a "$0" "$1""#, &[&original.to_string_lossy(), &own.to_string_lossy()])
}

fn make_database(original: &Path) -> Result<()> {
    let bin = find("initdb").context("initdb is not installed")?;
    let bin = bin.parent().context("a folder")?;
    let script = r#"
        set -e
        as_user() { setpriv --reuid=postgres --regid=postgres --clear-groups "$@"; }
        mkdir "$1"
        chown postgres "$1"
        chmod 700 "$1"
        cd "$1"
        as_user "$0/initdb" -D "$1" -A trust -N >"$2" 2>&1
        echo 'local all all trust
host all all 0.0.0.0/0 trust' > pg_hba.conf
        as_user "$0/pg_ctl" -w -D "$1" -l "$2" \
            -o "-k $1 -c listen_addresses= -c fsync=off" start >&2
        pgbench -q -i -h "$1" -U postgres postgres >&2 || failed=1
        as_user "$0/pg_ctl" -w -D "$1" -m fast stop >&2
        [ -z "$failed" ]
    "#;
    let log = original.with_extension("log");
    fs::write(&log, "")?;
    shell(r#"chown postgres "$0""#, &[&log.to_string_lossy()])?;
    let words = [bin.to_string_lossy(), original.to_string_lossy(), log.to_string_lossy()];
    shell(script, &words.each_ref().map(|word| &**word)).with_context(|| {
        let said = fs::read(&log).unwrap_or_default();
        format!("making a database: {}", last_lines(&String::from_utf8_lossy(&said)))
    })
}

/// Runs a script whose `$0`, `$1` and so on are the words.
fn shell(script: &str, words: &[&str]) -> Result<()> {
    let output = Command::new("sh").args(["-c", script]).args(words).output()?;
    if !output.status.success() {
        bail!("{}", last_lines(&String::from_utf8_lossy(&output.stderr)));
    }
    Ok(())
}
