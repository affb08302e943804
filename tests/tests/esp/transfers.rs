//! Files go both ways, by every algorithm, in both modes and families.

use crate::pair::{
    A, A6, B, B6, CBC, CHACHA, GCM, GCM_256, NULL, Plan, TRIPLE_DES, end, fetch, joined, protect,
    serve, store,
};

/// A file of 4 MiB goes through ESP, in both directions.
fn transfer(plan: &Plan<'_>) {
    let len = 4 << 20;
    let Some((world, digest)) = joined(len, &[]) else { return };
    protect(&world, plan);
    let server = serve(&world, "b", plan.inner[1]);
    fetch(&world, plan.inner[1], &digest);
    store(&world, plan.inner[1], &digest);
    for net in ["a", "b"] {
        let sent = world.counter(net, "xfrm.bytes-out");
        assert!(sent > len as u64, "{sent} bytes of ESP");
        let opened = world.counter(net, "xfrm.packets-in");
        assert!(opened > 2500, "{opened} packets of ESP");
        let wrong = [
            "xfrm.in-tmpl-mismatch",
            "xfrm.in-state-proto-error",
            "xfrm.in-state-seq-error",
            "xfrm.in-no-states",
            "xfrm.out-error",
        ];
        for name in wrong {
            assert_eq!(world.counter(net, name), 0, "{name} of {net}");
        }
    }
    end(&world, server);
}

#[test]
fn files_go_by_aes_gcm() {
    transfer(&Plan::between([A, B], "transport", GCM));
}

#[test]
fn files_go_by_aes_gcm_with_long_keys_over_ipv6_in_a_tunnel() {
    transfer(&Plan::between([A6, B6], "tunnel", GCM_256));
}

#[test]
fn files_go_by_chacha20_over_ipv6() {
    transfer(&Plan::between([A6, B6], "transport", CHACHA));
}

#[test]
fn files_go_by_chacha20_in_a_tunnel() {
    transfer(&Plan::between([A, B], "tunnel", CHACHA));
}

#[test]
fn files_go_by_aes_cbc_in_a_tunnel() {
    transfer(&Plan::between([A, B], "tunnel", CBC));
}

#[test]
fn files_go_by_aes_cbc_over_ipv6() {
    transfer(&Plan::between([A6, B6], "transport", CBC));
}

#[test]
fn files_go_by_triple_des() {
    transfer(&Plan::between([A, B], "transport", TRIPLE_DES));
}

#[test]
fn files_go_by_triple_des_over_ipv6_in_a_tunnel() {
    transfer(&Plan::between([A6, B6], "tunnel", TRIPLE_DES));
}

#[test]
fn files_go_by_null_encryption() {
    transfer(&Plan::between([A, B], "transport", NULL));
}

#[test]
fn files_go_by_null_encryption_over_ipv6_in_a_tunnel() {
    transfer(&Plan::between([A6, B6], "tunnel", NULL));
}

#[test]
fn ipv4_goes_in_a_tunnel_over_ipv6() {
    transfer(&Plan { inner: [A, B], ..Plan::between([A6, B6], "tunnel", GCM) });
}

#[test]
fn ipv6_goes_in_a_tunnel_over_ipv4() {
    transfer(&Plan { inner: [A6, B6], ..Plan::between([A, B], "tunnel", CBC) });
}
