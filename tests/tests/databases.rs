//! Servers of data: PostgreSQL, MariaDB, memcached, redis.
//!
//! The servers run on Tasuki. Clients run on the far host and on Tasuki, and compare what they
//! read with what was written. No packet uses the host's network: [`ProgramWorld`].

use tasuki_tests::{HOST, PostgresFiles, ProgramWorld, Running, STACK, eventually, program};

/// A PostgreSQL on the instance.
struct Postgres {
    world: ProgramWorld,
    files: PostgresFiles,
    server: Running,
}

impl Postgres {
    fn start(options: &[&str]) -> Option<Self> {
        let bin = PostgresFiles::bin()?;
        let world = ProgramWorld::new(&["psql", "setpriv"])?;
        let files = PostgresFiles::new(&world, bin);
        let mut server = world.start_with(options, &files.server);
        let _ = server.line("ready to accept connections");
        world.listens(&mut server, 5432);
        Some(Self { world, files, server })
    }

    fn client(&self, program: &str, at: &str, rest: &[&str]) -> Vec<String> {
        self.files.client(program, at, rest)
    }

    /// The rows that a query gives, on both hosts and over the Unix socket.
    fn query(&self, sql: &str) -> String {
        let world = &self.world;
        let words = |at: &str| self.client("psql", at, &["-Atc", sql]);
        let mut answers: Vec<_> =
            [world.run(&words(STACK)), world.run(&words(&self.files.sockets))]
                .into_iter()
                .chain([STACK, "127.0.0.1"].map(|at| world.run_inside(&words(at))))
                .map(|said| said.success().stdout)
                .collect();
        answers.dedup();
        assert_eq!(answers.len(), 1, "all clients read the same: {answers:?}");
        answers.remove(0)
    }

    fn end(self) {
        self.server.signal(rustix::process::Signal::INT);
        let said = self.server.finish().success();
        for bad in ["PANIC", "terminated by signal", "could not"] {
            assert!(!said.stderr.contains(bad), "{said}");
        }
        self.world.end();
    }

    /// pgbench from both hosts. Then the sums of all tables agree with the history.
    fn pgbench(&self, clients: &str, each: &str) {
        let bench = |rest: &[&str]| {
            let pgbench =
                self.client("pgbench", STACK, &[&["-c", clients, "-j", "2"], rest].concat());
            self.world.run_on_both(&pgbench, |said| {
                let said = said.success();
                assert!(said.stdout.contains("number of failed transactions: 0"), "{said}");
            });
        };
        let _ = self.world.run(&self.client("pgbench", STACK, &["-i", "-q"])).success();
        // Without -n, pgbench would empty the history.
        bench(&["-n", "-t", each]);
        bench(&["-n", "-S", "-t", each]);
        bench(&["-n", "-S", "-C", "-t", "5"]);
        let sums = "select count(*) > 0, sum(delta) = (select sum(abalance) from pgbench_accounts),
                    sum(delta) = (select sum(tbalance) from pgbench_tellers),
                    sum(delta) = (select sum(bbalance) from pgbench_branches)
                    from pgbench_history";
        assert_eq!(self.query(sums), "t|t|t|t\n");
    }
}

/// A process for each connection, Unix sockets beside TCP.
#[test]
fn postgresql_answers_over_tcp_and_unix_sockets() {
    let Some(postgres) = Postgres::start(&[]) else { return };
    assert_eq!(postgres.query("select 40 + 2"), "42\n");
    let rows = postgres.query("select i, md5(i::text) from generate_series(1, 30000) i");
    assert_eq!(rows.lines().count(), 30000);
    assert!(
        rows.ends_with("30000|5ecc613150de01b7e6824594426f24f4\n"),
        "{}",
        &rows[rows.len() - 99..]
    );
    postgres.pgbench("4", "50");
    postgres.end();
}

/// More of it, and a dump that is restored and compared.
#[test]
#[ignore = "long: `make test-programs` runs it"]
fn postgresql_restores_its_dump() {
    let Some(postgres) = Postgres::start(&[]) else { return };
    postgres.pgbench("8", "500");
    let world = &postgres.world;
    let dump = |name: &str| {
        let words = postgres.client("pg_dump", STACK, &["-f", name]);
        let _ = world.run_inside(&words).success();
        let text = std::fs::read_to_string(world.path(name)).expect("a dump");
        // Newer versions write a random key into their dumps.
        let kept = text.lines().filter(|line| !line.contains("restrict"));
        kept.collect::<Vec<_>>().join("\n")
    };
    let first = dump("first");
    assert!(first.lines().count() > 100_000, "{}", first.len());
    let drop = "drop table pgbench_accounts, pgbench_branches, pgbench_history, pgbench_tellers";
    assert_eq!(postgres.query("select 1"), "1\n");
    let _ = world.run(&postgres.client("psql", STACK, &["-c", drop])).success();
    let restore = postgres.client("psql", STACK, &["-q", "-v", "ON_ERROR_STOP=1", "-f", "first"]);
    let _ = world.run_inside(&restore).success();
    assert!(dump("second") == first, "the dump of the restored tables is another");
    postgres.end();
}

/// Without the library: all of its sockets are the relay's.
#[test]
#[ignore = "long: `make test-programs` runs it"]
fn postgresql_answers_through_the_relay() {
    let Some(postgres) = Postgres::start(&["--intercept", "seccomp"]) else { return };
    postgres.pgbench("4", "50");
    postgres.end();
}

/// Threads. It gives up root before its first socket.
fn memcached(user: &str, threads: &str, times: usize) {
    let Some(world) = ProgramWorld::new(&["memcached"]) else { return };
    let words = ["memcached", "-u", user, "-t", threads, "-l", "0.0.0.0", "-p", "11211"];
    let mut server = world.start(&words);
    world.listens(&mut server, 11211);
    let load = program("databases/memcached_load.py");
    let load = world.python(&[&load, STACK, "11211", "8", &times.to_string()]);
    let right = format!("read {0} counted {0}", 8 * times);
    world.run_on_both(&load, |said| {
        let said = said.success();
        assert_eq!(said.stdout.trim(), right, "{said}");
    });
    server.signal(rustix::process::Signal::TERM);
    let _ = server.finish();
    world.end();
}

#[test]
fn memcached_serves_as_another_user() {
    memcached("nobody", "4", 50);
}

#[test]
#[ignore = "long: `make test-programs` runs it"]
fn memcached_serves_with_many_threads() {
    memcached("memcache", "16", 500);
}

/// Threads; each connection has one.
#[test]
fn mariadb_answers_queries() {
    let Some(world) = ProgramWorld::new(&["mariadbd", "mariadb", "mariadb-install-db"]) else {
        return;
    };
    let (data, socket) = (world.file("data"), world.file("data/socket"));
    std::fs::create_dir(&data).expect("a folder");
    let _ = world.run(&["chown", "mysql", &data]).success();
    let data = format!("--datadir={data}");
    let normal = "--auth-root-authentication-method=normal";
    let words = ["mariadb-install-db", "--no-defaults", "--user=mysql", &data, normal];
    let _ = world.run(&words).success();
    let at = format!("--socket={socket}");
    let words = ["mariadbd", "--no-defaults", "--user=mysql", &data, &at];
    let words = [&words[..], &["--bind-address=0.0.0.0", "--port=3306", "--skip-name-resolve"]];
    let mut server = world.start(&words.concat());
    world.listens(&mut server, 3306);
    let _ = server.line("ready for connections");
    let grant = "create user a identified by 'b'; grant all on *.* to a";
    let _ = world.run(&["mariadb", "--no-defaults", &at, "-e", grant]).success();
    let query = |sql: &str| {
        let words = ["mariadb", "--no-defaults", "-h", STACK, "-ua", "-pb", "-N", "-e", sql];
        words.map(str::to_owned)
    };
    let fill = "create database d; use d; create table d.t (i int primary key, s text);
                insert into d.t select seq, repeat(md5(seq), 20) from seq_1_to_5000";
    let _ = world.run(&query(fill)).success();
    let whole = query("select * from d.t order by i");
    let mut answers = Vec::new();
    world.run_on_both(&whole, |said| answers.push(said.success().stdout));
    assert!(answers[0] == answers[1], "both hosts read the same");
    assert_eq!(answers[0].lines().count(), 5000);
    world.run_on_both(
        &query("update d.t set s = '' where i <= 100; select count(*) from d.t where s = ''"),
        |said| assert_eq!(said.success().stdout, "100\n"),
    );
    server.signal(rustix::process::Signal::TERM);
    let said = server.finish().success();
    assert!(!said.stderr.contains("[ERROR]"), "{said}");
    world.end();
}

/// A primary on the far host, and one on Tasuki, which has a replica on Tasuki.
#[test]
fn redis_replicates() {
    let Some(world) = ProgramWorld::new(&["redis-server", "redis-cli"]) else { return };
    let server = |port: &str, rest: &[&str]| {
        let folder = world.file(&format!("redis{port}"));
        std::fs::create_dir(&folder).expect("a folder");
        let words = ["redis-server", "--port", port, "--bind", "0.0.0.0", "--dir", &folder];
        let rest = [&["--protected-mode", "no", "--repl-diskless-sync-delay", "0"], rest].concat();
        [&words[..], &rest].concat().into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let mut primary = world.start(&server("7000", &[]));
    world.listens(&mut primary, 7000);
    let cli = |port: &str, words: &[&str]| {
        let all = [&["redis-cli", "-h", STACK, "-p", port], words].concat();
        world.run(&all).success().stdout
    };
    let fill = "for i = 1, 20000 do redis.call('set', 'k' .. i, string.rep(i, 50)) end";
    let _ = cli("7000", &["eval", fill, "0"]);
    let mut replica = world.start(&server("7001", &["--replicaof", STACK, "7000"]));
    world.listens(&mut replica, 7001);
    let far = world.spawn(&server("7002", &["--replicaof", STACK, "7000"]));
    let connected = || cli("7000", &["info", "replication"]).matches("state=online").count();
    eventually("both replicas are online", || connected() == 2);
    // Written while they follow.
    let _ = cli("7000", &["eval", &fill.replace("'k'", "'l'"), "0"]);
    for port in ["7001", "7002"] {
        let at = if port == "7001" { STACK } else { HOST };
        let size = ["redis-cli", "-h", at, "-p", port, "dbsize"];
        eventually("the replica has all keys", || {
            world.run_inside(&size).success().stdout.trim() == "40000"
        });
    }
    let digest = cli("7000", &["debug", "digest"]);
    if !digest.starts_with("ERR") {
        assert_eq!(cli("7001", &["debug", "digest"]), digest);
    }
    assert_eq!(cli("7001", &["get", "l19999"]).trim(), "19999".repeat(50));
    for server in [primary, replica, far] {
        server.signal(rustix::process::Signal::TERM);
        let _ = server.finish().success();
    }
    world.end();
}

/// Its own load generator, on both hosts, of a server on Tasuki and of one on the far host. What is
/// counted there is what was asked for.
fn redis_benchmark(requests: u32, threads: &str) {
    let Some(world) = ProgramWorld::new(&["redis-server", "redis-benchmark", "redis-cli"]) else {
        return;
    };
    let server = ["redis-server", "--port", "7000", "--bind", "0.0.0.0", "--save", ""];
    let server = [&server[..], &["--protected-mode", "no", "--io-threads", "2"]].concat();
    let far = world.spawn(&server);
    let mut near = world.start(&server);
    world.listens(&mut near, 7000);
    let _ = far.line("Ready to accept connections");
    let count = requests.to_string();
    for at in [HOST, STACK] {
        let mut asked = 0;
        for (clients, pipeline) in [("1", "1"), ("50", "1"), ("50", "16")] {
            let words = ["redis-benchmark", "-h", at, "-p", "7000", "--threads", threads, "-q"];
            let load = ["-t", "incr,lpush", "-n", &count, "-c", clients, "-P", pipeline];
            world.run_on_both(&[&words[..], &load].concat(), |said| {
                let said = said.success();
                assert_eq!(said.stdout.matches("requests per second").count(), 2, "{said}");
                asked += requests;
            });
        }
        for query in [&["get", "counter:__rand_int__"][..], &["llen", "mylist"]] {
            let words = [&["redis-cli", "-h", at, "-p", "7000"], query].concat();
            world.run_on_both(&words, |said| {
                assert_eq!(said.success().stdout.trim(), asked.to_string(), "{query:?} of {at}");
            });
        }
    }
    for server in [far, near] {
        server.signal(rustix::process::Signal::TERM);
        let _ = server.finish().success();
    }
    world.end();
}

#[test]
fn redis_benchmark_counts_right() {
    redis_benchmark(3200, "2");
}

#[test]
#[ignore = "long: `make test-programs` runs it"]
fn redis_benchmark_counts_much_right() {
    redis_benchmark(32_000, "4");
}
