//! The golden table: see `tasuki_sim::golden`.

#[test]
fn goodput_is_as_it_was() {
    let table = tasuki_sim::golden::table().expect("every stream arrives");
    let golden = include_str!("../golden.txt");
    assert!(
        table == golden,
        "goodput has changed; if that was meant: cargo run -p tasuki-sim -- --golden > \
         sim/golden.txt\n\nis:\n{table}\nwas:\n{golden}"
    );
}
