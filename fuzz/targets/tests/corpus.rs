//! Replays the corpora with the ordinary compiler. Inputs kept from fuzzing must go on passing.

use std::path::{Path, PathBuf};

use tasuki_fuzz_targets::TARGETS;

fn fuzz() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the folder fuzz/")
}

fn names(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths
}

#[test]
fn every_input_of_every_corpus_passes() {
    for (name, run) in TARGETS {
        let inputs = names(&fuzz().join("corpus").join(name));
        assert!(!inputs.is_empty() && inputs.len() < 200, "{name} has {} inputs", inputs.len());
        for path in inputs {
            let data = std::fs::read(&path).expect("a file that can be read");
            // The test's output names the input if it fails.
            println!("{}", path.display());
            run(&data);
        }
    }
}

/// Every target has a corpus and is given to libFuzzer, and there is nothing else.
#[test]
fn targets_corpora_and_binaries_belong_together() {
    let expected: Vec<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
    let stems = |folder: &str| -> Vec<String> {
        let stem =
            |path: &PathBuf| path.file_stem().expect("a name").to_string_lossy().into_owned();
        names(&fuzz().join(folder)).iter().map(stem).collect()
    };
    assert_eq!(stems("corpus"), expected);
    assert_eq!(stems("fuzz_targets"), expected);
    let manifest = std::fs::read_to_string(fuzz().join("Cargo.toml")).expect("a manifest");
    let listed = manifest.matches("[[bin]]").count();
    let named = expected.iter().all(|name| manifest.contains(&format!("name = \"{name}\"")));
    assert!(listed == expected.len() && named, "fuzz/Cargo.toml lists {listed} binaries");
}
