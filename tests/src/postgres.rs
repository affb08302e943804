//! PostgreSQL with its files in a test's folder.

use crate::program_world::{ProgramWorld, installed};
use crate::tools::skip;

const VERSIONS: &str = "/usr/lib/postgresql";

/// A database that is ready to be served.
pub struct PostgresFiles {
    /// Where the newest PostgreSQL has its programs. Debian keeps them off PATH.
    pub bin: String,
    /// The folder of its Unix sockets.
    pub sockets: String,
    /// The words of the server, as the user `postgres`. It listens on port 5432.
    pub server: Vec<String>,
}

impl PostgresFiles {
    /// The folder of PostgreSQL's programs. Without one it prints SKIP and returns `None`.
    #[must_use]
    pub fn bin() -> Option<String> {
        let versions = std::fs::read_dir(VERSIONS).into_iter().flatten().flatten();
        let folders = versions.map(|version| format!("{}/bin", version.path().display()));
        let found = folders.filter(|folder| installed(&format!("{folder}/postgres"))).max();
        if found.is_none() {
            skip("postgresql is not installed: `scripts/deps.sh programs` installs it");
        }
        found
    }

    /// Makes an empty database that trusts everybody.
    ///
    /// # Panics
    /// When PostgreSQL does not.
    #[must_use]
    pub fn new(world: &ProgramWorld, bin: String) -> Self {
        let (data, sockets) = (world.file("data"), world.file("sockets"));
        for folder in [&data, &sockets] {
            std::fs::create_dir(folder).expect("a folder");
            let _ = world.run(&["chown", "postgres", folder]).success();
        }
        let user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"];
        let initdb = format!("{bin}/initdb");
        let words = [&user[..], &[&initdb, "-D", &data, "-A", "trust", "-N"]].concat();
        let _ = world.run(&words).success();
        let hba = "local all all trust\nhost all all 0.0.0.0/0 trust\n";
        std::fs::write(world.path("data/pg_hba.conf"), hba).expect("a file");
        let postgres = format!("{bin}/postgres");
        let folder = format!("unix_socket_directories={sockets}");
        let rest =
            [&postgres, "-D", &data, "-c", "listen_addresses=*", "-c", &folder, "-c", "fsync=off"];
        let server = [&user[..], &rest].concat().into_iter().map(str::to_owned).collect();
        Self { bin, sockets, server }
    }

    /// Words for a program of PostgreSQL that connects to `at`.
    #[must_use]
    pub fn client(&self, program: &str, at: &str, rest: &[&str]) -> Vec<String> {
        let program = format!("{}/{program}", self.bin);
        let all = [&[&*program, "-h", at, "-U", "postgres", "-d", "postgres"], rest].concat();
        all.into_iter().map(str::to_owned).collect()
    }
}
