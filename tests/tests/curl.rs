//! curl's ways of asking: both families of addresses, HTTP/1.0, HTTP/1.1 with and without TLS,
//! HTTP/2, many requests at once over one connection, parts of a file, files sent.
//!
//! The server is nginx, first on the far host, then on Tasuki. curl runs on both hosts. The data
//! are compared. No packet uses the host's network: [`ProgramWorld`].

use rustix::process::Signal;
use tasuki_tests::{
    HOST, HOST6, ProgramWorld, Running, STACK, STACK6, eventually, sha256, write_noise,
};

/// Files of the folder that is served.
const FILES: usize = 12;

fn world(bytes: usize) -> Option<ProgramWorld> {
    let six = format!("{STACK6}/64");
    let world = ProgramWorld::new_with(&["curl", "nginx", "openssl"], &["--ip", &six])?;
    for folder in ["www", "www/put", "back"] {
        std::fs::create_dir(world.path(folder)).expect("a folder");
    }
    for number in 0..FILES {
        // Each is another one, and longer than that before it.
        let path = world.path("www").join(format!("file{number}"));
        write_noise(&path, 1 + number * bytes / (FILES - 1), number as u64);
    }
    let names = [HOST, HOST6, STACK, STACK6].map(|at| format!("IP:{at}")).join(",");
    let names = format!("subjectAltName={names}");
    let words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"];
    let files = ["-keyout", "key.pem", "-out", "cert.pem", "-subj", "/CN=any", "-addext", &names];
    let _ = world.run(&[&words[..], &files].concat()).success();
    Some(world)
}

/// nginx at these addresses, which answers.
fn nginx(world: &ProgramWorld, inside: bool, four: &str, six: &str) -> Running {
    let here = world.file("");
    let listen =
        |port: &str, how: &str| format!("listen {four}:{port} {how}; listen [{six}]:{port} {how};");
    // A worker would leave the group of the far host's programs.
    let master = if inside { "on" } else { "off" };
    let conf = format!(
        "user root; daemon off; master_process {master};
         error_log stderr; pid {here}/pid{inside}; events {{ }}
         http {{ access_log off; sendfile on; server {{ root {here}/www;
             location /put/ {{ dav_methods PUT; client_max_body_size 99m; }}
             ssl_certificate cert.pem; ssl_certificate_key key.pem;
             {} {} }} }}\n",
        listen("8000", ""),
        listen("8443", "ssl http2"),
    );
    let file = format!("nginx{inside}.conf");
    std::fs::write(world.path(&file), conf).expect("a file");
    let words = ["/usr/sbin/nginx", "-c", &world.file(&file), "-e", "stderr", "-p", &here];
    let server = if inside { world.start(&words) } else { world.spawn(&words) };
    let probe = format!("http://{four}:8000/file0");
    eventually("nginx answers", || {
        world.run(&["curl", "-sf", "-m", "60", &probe]).status.success()
    });
    server
}

/// All files at once: what each of them has become is compared.
fn fetch_all(world: &ProgramWorld, base: &str, how: &[&str], version: &str) {
    let url = format!("{base}/file[0-{}]", FILES - 1);
    let words = ["curl", "-sS", "-f", "-m", "100", "--cacert", "cert.pem"];
    let rest = ["-w", "%{http_version} %{num_connects}\n", "-o", "back/file#1", &url];
    world.run_on_both(&[&words[..], how, &rest].concat(), |said| {
        let said = said.success();
        let lines = said.stdout.lines().filter(|line| line.starts_with(&format!("{version} ")));
        assert_eq!(lines.count(), FILES, "{said}");
        let made = said.stdout.lines().filter_map(|line| line.split_once(' '));
        let connects: u32 = made.filter_map(|(_, made)| made.parse::<u32>().ok()).sum();
        assert!(version != "2" || connects == 1, "over one connection: {said}");
        for number in 0..FILES {
            let [got, right] = ["back", "www"].map(|it| world.path(&format!("{it}/file{number}")));
            assert_eq!(sha256(&got), sha256(&right), "{said}");
            std::fs::remove_file(got).expect("the file that curl wrote");
        }
    });
}

/// A file there, and a part of it back.
fn send_and_part(world: &ProgramWorld, base: &str, how: &[&str]) {
    let last = FILES - 1;
    let (url, sent) = (format!("{base}/put/file"), format!("www/file{last}"));
    let begin = [&["curl", "-sS", "-f", "-m", "100", "--cacert", "cert.pem"], how].concat();
    let put = [&begin[..], &["-T", &sent, &url]].concat();
    let part = [&begin[..], &["-r", "1000-70999", "-o", "back/part", &url]].concat();
    let whole = std::fs::read(world.path(&sent)).expect("the file");
    for inside in [false, true] {
        for words in [&put, &part] {
            let said = if inside { world.run_inside(words) } else { world.run(words) };
            let _ = said.success();
        }
        assert_eq!(sha256(&world.path("www/put/file")), sha256(&world.path(&sent)));
        let got = std::fs::read(world.path("back/part")).expect("the part");
        assert!(got == whole[1000..71_000], "{} other bytes", got.len());
        std::fs::remove_file(world.path("www/put/file")).expect("the file that nginx wrote");
    }
}

fn asks_in_all_ways(bytes: usize, how: &[&str]) {
    let Some(world) = world(bytes) else { return };
    for (inside, four, six) in [(false, HOST, HOST6), (true, STACK, STACK6)] {
        let server = nginx(&world, inside, four, six);
        for at in [four.to_owned(), format!("[{six}]")] {
            for (scheme, port, options, version) in [
                // nginx says 1.1 to each version before 2.
                ("http", "8000", &["--http1.0"][..], "1.1"),
                ("http", "8000", &["--http1.1"], "1.1"),
                ("http", "8000", &["--http1.1", "-Z"], "1.1"),
                ("https", "8443", &["--http1.1"], "1.1"),
                ("https", "8443", &["--http2"], "2"),
                ("https", "8443", &["--http2", "-Z"], "2"),
            ] {
                let base = format!("{scheme}://{at}:{port}");
                fetch_all(&world, &base, &[how, options].concat(), version);
                send_and_part(&world, &base, &[how, options].concat());
            }
        }
        server.signal(Signal::QUIT);
        let _ = server.finish().success();
    }
    world.end();
}

#[test]
fn curl_asks_over_both_families_and_versions() {
    asks_in_all_ways(200_000, &[]);
}

#[test]
#[ignore = "long: `make test-programs` runs it"]
fn curl_asks_for_much_slowly() {
    asks_in_all_ways(9_000_000, &["--limit-rate", "60M"]);
}
