//! Whole files through the stack, both ways, by programs that know nothing of it; intact by
//! SHA-256.

use tasuki_tests::{HOST, LARGE, Mode, Nic, Running, STACK, World, sha256, write_noise};

const MEDIUM: usize = 32 << 20;

/// A world with a file of noise and its SHA-256.
fn world(len: usize) -> Option<(World, String)> {
    let world = World::new()?;
    write_noise(&world.path("file"), len, 1);
    let digest = sha256(&world.path("file"));
    Some((world, digest))
}

fn url(host: &str) -> String {
    format!("http://{host}:8000/file")
}

/// A program on the stack fetches the file from the kernel's HTTP server into `back`.
fn download(mode: Mode, len: usize, words: impl FnOnce(&World) -> Vec<String>) {
    let Some((world, digest)) = world(len) else { return };
    let server = world.http_server();
    let words = words(&world);
    let _ = Running::start(world.on_stack(mode, &words)).finish().success();
    assert_eq!(sha256(&world.path("back")), digest);
    drop(server);
    world.assert_nothing_left();
}

fn curl(_: &World) -> Vec<String> {
    ["curl", "-sS", "-o", "back", &url(HOST)].map(str::to_owned).to_vec()
}

#[test]
fn curl_downloads_in_split_mode() {
    download(Mode::Split, LARGE, curl);
}

#[test]
fn curl_downloads_in_fused_mode() {
    download(Mode::Fused, LARGE, curl);
}

#[test]
fn curl_downloads_in_library_mode() {
    download(Mode::Library, LARGE, curl);
}

#[test]
fn wget_downloads() {
    let wget = |_: &World| ["wget", "-q", "-O", "back", &url(HOST)].map(str::to_owned).to_vec();
    download(Mode::given(), MEDIUM, wget);
}

#[test]
fn python_downloads() {
    let program = format!("import urllib.request as r; r.urlretrieve('{}', 'back')", url(HOST));
    download(Mode::given(), MEDIUM, |world| world.python(&["-c", &program]));
}

/// curl on the stack puts the file to a server of the kernel's side.
fn upload(mode: Mode) {
    let Some((world, digest)) = world(LARGE) else { return };
    let sink = world.spawn(&world.script("sink.py", &["0.0.0.0", "8000"]));
    let _ = sink.line("ready");
    let curl = world.on_stack(mode, &["curl", "-sS", "-T", "file", &url(HOST)]);
    let _ = Running::start(curl).finish().success();
    assert_eq!(sink.line("sha256"), format!("sha256 {digest}"));
    drop(sink);
    world.assert_nothing_left();
}

#[test]
fn curl_uploads_in_split_mode() {
    upload(Mode::Split);
}

#[test]
fn curl_uploads_in_fused_mode() {
    upload(Mode::Fused);
}

#[test]
fn curl_uploads_in_library_mode() {
    upload(Mode::Library);
}

/// Python's HTTP server on the stack serves the kernel's curl.
fn serve(mode: Mode) {
    let Some((world, digest)) = world(LARGE) else { return };
    let server = world.python(&["-m", "http.server", "8000"]);
    let server = Running::start(world.on_stack(mode, &server));
    let _ = server.line("Serving HTTP");
    let _ = world.run(&["curl", "-sS", "-o", "back", &url(STACK)]).success();
    assert_eq!(sha256(&world.path("back")), digest);
    server.signal(rustix::process::Signal::INT);
    let _ = server.finish();
    world.assert_nothing_left();
}

#[test]
fn python_serves_in_split_mode() {
    serve(Mode::Split);
}

#[test]
fn python_serves_in_fused_mode() {
    serve(Mode::Fused);
}

#[test]
fn python_serves_in_library_mode() {
    serve(Mode::Library);
}

#[test]
fn python_receives_the_upload_of_curl() {
    let Some((world, digest)) = world(LARGE) else { return };
    let sink = world.script("sink.py", &["0.0.0.0", "8000"]);
    let sink = Running::start(world.on_stack(Mode::given(), &sink));
    let _ = sink.line("ready");
    let _ = world.run(&["curl", "-sS", "-T", "file", &url(STACK)]).success();
    assert_eq!(sink.line("sha256"), format!("sha256 {digest}"));
}

#[test]
fn nc_sends() {
    let Some((world, digest)) = world(MEDIUM) else { return };
    let receive = world.spawn(&["sh", "-c", "exec nc -n -v -l 9000 >back"]);
    let _ = receive.line("Listening on");
    let send = ["sh", "-c", &format!("exec nc -n -N {HOST} 9000 <file")];
    let _ = Running::start(world.on_stack(Mode::given(), &send)).finish().success();
    let _ = receive.finish().success();
    assert_eq!(sha256(&world.path("back")), digest);
    world.assert_nothing_left();
}

#[test]
fn nc_receives() {
    let Some((world, digest)) = world(MEDIUM) else { return };
    let receive = ["sh", "-c", "exec nc -n -v -l 9000 >back"];
    let receive = Running::start(world.on_stack(Mode::given(), &receive));
    let _ = receive.line("Listening on");
    let send = ["sh", "-c", &format!("exec nc -n -N {STACK} 9000 <file")];
    let _ = world.run(&send).success();
    let _ = receive.finish().success();
    assert_eq!(sha256(&world.path("back")), digest);
    world.assert_nothing_left();
}

#[test]
fn both_directions_at_once() {
    let Some((world, digest)) = world(MEDIUM) else { return };
    let Some(mode) = Mode::shared() else { return };
    world.up("both", mode, &[]);
    let files = world.http_server();
    let sink = world.spawn(&world.script("sink.py", &["0.0.0.0", "8001"]));
    let _ = sink.line("ready");
    let down = Running::start(world.on_net("both", &curl(&world)));
    let put = ["curl", "-sS", "-T", "file", &format!("http://{HOST}:8001/file")];
    let up = Running::start(world.on_net("both", &put));
    let _ = (down.finish().success(), up.finish().success());
    assert_eq!(sha256(&world.path("back")), digest);
    assert_eq!(sink.line("sha256"), format!("sha256 {digest}"));
    drop((files, sink));
    world.down("both");
    world.assert_nothing_left();
}

#[test]
fn the_defaults_suffice() {
    let Some(world) = World::over(Nic::Tap) else { return };
    write_noise(&world.path("file"), 1 << 20, 1);
    let digest = sha256(&world.path("file"));
    let server = world.http_server();
    // The address of the host's side is a documented default: 10.219.0.1 where nothing else uses
    // it.
    let words = ["run", "--", "curl", "-sS", "-o", "back", &url("10.219.0.1")];
    let _ = Running::start(world.tasuki(&words)).finish().success();
    assert_eq!(sha256(&world.path("back")), digest);
    drop(server);
    world.assert_nothing_left();
}
