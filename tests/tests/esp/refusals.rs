//! Wrong keys, missing associations and plaintext pass nothing.

use crate::pair::{
    A, B, GCM, Plan, SPI_AB, cannot_fetch, end, fetch, joined, protect, serve, xfrm_done,
};

#[test]
fn wrong_keys_missing_associations_and_plaintext_pass_nothing() {
    let Some((world, digest)) = joined(1 << 16, &[]) else { return };
    protect(&world, &Plan::between([A, B], "transport", GCM));
    let server = serve(&world, "b", B);
    fetch(&world, B, &digest);
    // Another key at the receiver.
    let delete = format!("state delete src {A} dst {B} proto esp spi {SPI_AB}");
    let _ = xfrm_done(&world, "b", &delete);
    let other = GCM.replace("{}", "7");
    let add = format!(
        "state add src {A} dst {B} proto esp spi {SPI_AB} reqid 1 replay-window 32 {other}"
    );
    let _ = xfrm_done(&world, "b", &add);
    cannot_fetch(&world, B);
    assert!(world.counter("b", "xfrm.in-state-proto-error") > 0);
    // None at the receiver.
    let _ = xfrm_done(&world, "b", &delete);
    cannot_fetch(&world, B);
    assert!(world.counter("b", "xfrm.in-no-states") > 0);
    // None at the sender: nothing leaves.
    let _ = xfrm_done(&world, "a", &delete);
    let sent = world.counter("a", "xfrm.packets-out");
    cannot_fetch(&world, B);
    assert!(world.counter("a", "xfrm.out-no-states") > 0);
    assert_eq!(world.counter("a", "xfrm.packets-out"), sent);
    // No policy at the sender: plaintext leaves, and is refused.
    let _ = xfrm_done(&world, "a", "policy flush");
    cannot_fetch(&world, B);
    assert!(world.counter("b", "xfrm.in-tmpl-mismatch") > 0);
    // Without policies at both ends it is as it was before.
    let _ = xfrm_done(&world, "b", "policy flush");
    fetch(&world, B, &digest);
    end(&world, server);
}
