//! The data itself; the command is tested through the target.

use super::*;
use crate::config::TargetConfig;
use crate::pages::ModeBits;
use crate::registry::Registry;

fn target() -> TargetConfig {
    TargetConfig {
        name: "iqn.2026-01.example:disks".to_owned(),
        vendor: "EXAMPLE".to_owned(),
        revision: "0.1".to_owned(),
        port_group: 1,
        ports: vec![1, 2],
        most_nexuses: 4,
        most_luns: 4,
    }
}

fn unit() -> LogicalUnit {
    let config = LunConfig::new("serial-1", 0xf123_4567_89ab_cdef, 2048);
    LogicalUnit::new(config, ModeBits::default(), Registry::default())
}

#[test]
fn the_list_of_pages_is_sorted_and_each_page_is_there() {
    assert!(PAGES.is_sorted());
    for page in 0..=255 {
        let found = vital(&target(), &unit(), page, 2);
        assert_eq!(found.is_some(), PAGES.contains(&page), "{page:#x}");
        let Some(bytes) = found else { continue };
        assert_eq!(bytes[..2], [0, page]);
        let length = usize::from(u16::from_be_bytes([bytes[2], bytes[3]]));
        assert_eq!(bytes.len(), length + 4, "{page:#x}");
    }
}

#[test]
fn designators_fill_their_page() {
    let page = vital(&target(), &unit(), 0x83, 2).unwrap();
    let mut kinds = Vec::new();
    let mut rest = &page[4..];
    while let [first, second, 0, length, after @ ..] = rest {
        kinds.push((first & 0xf, second & 0x3f));
        rest = &after[usize::from(*length)..];
    }
    assert!(rest.is_empty());
    assert_eq!(kinds, [(2, 0x01), (1, 0x03), (1, 0x14), (1, 0x15), (3, 0x18), (3, 0x28)]);
    // NAA 3 whatever the identifier's highest bits are.
    let naa = [0x33, 0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde, 0xef];
    assert!(
        page.windows(8).any(|window| window == [0x31, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef])
    );
    assert!(!page.windows(9).any(|window| window == naa));
    assert!(page.windows(8).any(|window| window == *b",t,0x0002".first_chunk::<8>().unwrap()));
}

#[test]
fn limits_of_a_thin_unit() {
    let mut unit = unit();
    let page = block_limits(&unit);
    assert_eq!((page.len(), page[0]), (60, 1));
    assert_eq!(page[32..40], [0, 0, 0, 0, 0, 0, 0xff, 0xff]);
    assert_eq!((page[1], &page[2..4], &page[4..8]), (255, &[0, 1][..], &[0, 0, 0x40, 0][..]));
    assert_eq!((&page[16..20], &page[20..24]), (&[255; 4][..], &[0, 0, 1, 0][..]));
    assert_eq!((&page[24..28], page[28]), (&[0, 0, 0, 8][..], 0x80));
    unit.config.provisioning = Provisioning::Full;
    assert_eq!(block_limits(&unit)[16..32], [0; 16]);
    assert_eq!(provisioning(&unit), [0; 4]);
}

#[test]
fn standard_data_says_what_there_is() {
    let config = unit().config;
    let data = standard(&target(), Subject::Unit(&config));
    assert_eq!((data.len(), data[4]), (96, 91));
    assert_eq!(&data[8..36], b"EXAMPLE disk            0.1 ");
    assert_eq!(standard(&target(), Subject::Nothing)[0], 0x7f);
    let removable = LunConfig { removable: true, ..config };
    assert_eq!(standard(&target(), Subject::Unit(&removable))[1], 0x80);
}
