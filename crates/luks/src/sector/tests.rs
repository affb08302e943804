//! The vectors of IEEE 1619 for AES-256, and what sectors of LUKS are.

use super::*;

/// Both keys of vectors 10 to 14 (IEEE 1619-2007, annex B).
const KEY: &str = "\
    2718281828459045235360287471352662497757247093699959574966967627\
    3141592653589793238462643383279502884197169399375105820974944592";
/// The ciphertext of vector 10.
const VECTOR_10: &str = "\
    1c3b3a102f770386e4836c99e370cf9bea00803f5e482357a4ae12d414a3e63b5d31e276f8fe4a8d\
    66b317f9ac683f44680a86ac35adfc3345befecb4bb188fd5776926c49a3095eb108fd1098baec70\
    aaa66999a72a82f27d848b21d4a741b0c5cd4d5fff9dac89aeba122961d03a757123e9870f8acf10\
    00020887891429ca2a3e7a7d7df7b10355165c8b9a6d0a7de8b062c4500dc4cd120c0f7418dae3d0\
    b5781c34803fa75421c790dfe1de1834f280d7667b327f6c8cd7557e12ac3a0f93ec05c52e0493ef\
    31a12d3d9260f79a289d6a379bc70c50841473d1a8cc81ec583e9645e07b8d9670655ba5bbcfecc6\
    dc3966380ad8fecb17b6ba02469a020a84e18e8f84252070c13e9f1f289be54fbc481457778f6160\
    15e1327a02b140f1505eb309326d68378f8374595c849d84f4c333ec4423885143cb47bd71c5edae\
    9be69a2ffeceb1bec9de244fbe15992b11b77c040f12bd8f6a975a44a0f90c29a9abc3d4d8939272\
    84c58754cce294529f8614dcd2aba991925fedc4ae74ffac6e333b93eb4aff0479da9a410e4450e0\
    dd7ae4c6e2910900575da401fc07059f645e8b7e9bfdef33943054ff84011493c27b3429eaedb4ed\
    5376441a77ed43851ad77f16f541dfd269d50d6a5f14fb0aab1cbb4c1550be97f7ab4066193c4caa\
    773dad38014bd2092fa755c824bb5e54c4f36ffda9fcea70b9c6e693e148c151";
/// The data unit's number, the first and the last 16 bytes of the ciphertext: vectors 11 to 14.
const OTHERS: [(u64, &str, &str); 4] = [
    (0xffff, "77a31251618a15e6b92d1d66dffe7b50", "a4f9e27b42af8100cb9d59cef9645803"),
    (0xffffff, "e387aaa58ba483afa7e8eb469778317e", "2263a1eef52dd6888c309f5a7d712826"),
    (0xffffffff, "bf53d2dade78e822a4d949a9bc6766b0", "4c82f335abb152c4a93411373aaa8220"),
    (0xffffffffff, "64497e5a831e4a932c09be3e5393376d", "d609d273ad5b0d59631c531f6a0a57b9"),
];

fn bytes(hex: &str) -> Vec<u8> {
    let pairs = hex.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn cipher(sector: SectorSize) -> SectorCipher {
    SectorCipher::new(&bytes(KEY).try_into().unwrap(), sector).unwrap()
}

fn plain(len: usize) -> Vec<u8> {
    (0..=u8::MAX).cycle().take(len).collect()
}

#[test]
fn vectors_of_the_standard() {
    let mut cipher = cipher(SectorSize::SMALL);
    let mut sector = plain(512);
    cipher.encrypt(0xff * 512, &mut sector);
    assert_eq!(sector, bytes(VECTOR_10));
    cipher.decrypt(0xff * 512, &mut sector);
    assert_eq!(sector, plain(512));
    for (number, first, last) in OTHERS {
        let mut sector = plain(512);
        cipher.encrypt(number * 512, &mut sector);
        assert_eq!((&sector[..16], &sector[496..]), (&bytes(first)[..], &bytes(last)[..]));
        cipher.decrypt(number * 512, &mut sector);
        assert_eq!(sector, plain(512));
    }
}

#[test]
fn each_sector_has_its_own_tweak() {
    for sector in [SectorSize::SMALL, SectorSize::LARGE] {
        let len = sector.bytes();
        let mut cipher = cipher(sector);
        let mut together = vec![0; 8 * len];
        cipher.encrypt(3 * len as u64, &mut together);
        for (number, expected) in (3..).zip(together.chunks(len)) {
            let mut one = vec![0; len];
            cipher.encrypt(number * len as u64, &mut one);
            assert_eq!(one, expected);
        }
        assert_ne!(together[..len], together[len..2 * len]);
        cipher.decrypt(3 * len as u64, &mut together);
        assert!(together.iter().all(|byte| *byte == 0));
    }
}

/// dm-crypt's tweaks count 512 bytes, also for larger sectors. So the first 512 bytes of a sector
/// are those of a small sector at the same place.
#[test]
fn tweaks_count_small_sectors() {
    let (mut large, mut small) = (plain(4096), plain(512));
    cipher(SectorSize::LARGE).encrypt(5 * 4096, &mut large);
    cipher(SectorSize::SMALL).encrypt(5 * 4096, &mut small);
    assert_eq!(large[..512], small);
}

#[test]
fn equal_halves_are_no_key() {
    assert!(SectorCipher::new(&[7; KEY_LEN], SectorSize::SMALL).is_none());
}

#[test]
fn sizes_of_sectors() {
    for bytes in [512, 1024, 2048, 4096] {
        assert_eq!(SectorSize::new(bytes).map(SectorSize::bytes), usize::try_from(bytes).ok());
    }
    for bytes in [0, 256, 520, 3072, 8192, 1 << 32] {
        assert_eq!(SectorSize::new(bytes), None);
    }
}

#[test]
#[should_panic(expected = "no whole sectors")]
fn parts_of_sectors_are_refused() {
    cipher(SectorSize::LARGE).encrypt(0, &mut [0; 512]);
}
