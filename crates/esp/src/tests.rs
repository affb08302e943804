//! The standards' test vectors, round trips, refusals.

use std::net::{IpAddr, Ipv4Addr};

use abi::xfrm::{XfrmAlgorithm, XfrmAlgorithms, XfrmKey, XfrmVectors};
use aws_lc_rs::hmac;
use inet::{EspCipher, EspCipherError, EspHeader};

use crate::combined::Combined;
use crate::error::CipherRefusal;
use crate::iv::Counted;
use crate::make::{combined, counted_key, make};
use crate::separate::{BlockCipher, Separate};

const A: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const B: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
const VECTORS: Option<XfrmVectors> = Some(XfrmVectors { first: 1 << 40, end: 1 << 41 });

fn hex(digits: &str) -> Vec<u8> {
    let digits: String = digits.chars().filter(|c| !c.is_whitespace()).collect();
    let pairs = digits.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn algorithm(name: &str, key: Vec<u8>) -> XfrmAlgorithm {
    XfrmAlgorithm { name: name.to_owned(), key: Some(XfrmKey::new(key)), icv: None }
}

/// Seals a standard's packet, whose nonce is salt and vector, and opens it again.
fn check_combined(
    name: &str,
    (key, nonce): (&str, &str),
    header: EspHeader,
    (plain, sealed, tag): (&str, &str, &str),
) {
    let (nonce, plain) = (hex(nonce), hex(plain));
    let vector = u64::from_be_bytes(nonce[4..].try_into().unwrap());
    let key = [hex(key), nonce[..4].to_vec()].concat();
    let mut cipher: Combined = combined(&algorithm(name, key), Counted::exactly(vector)).unwrap();
    let (mut iv, mut body, mut icv) = ([0; 8], plain.clone(), [0; 16]);
    cipher.seal(&header, &mut iv, &mut body, &mut icv).unwrap();
    assert_eq!((&iv[..], &body, &icv[..]), (&nonce[4..], &hex(sealed), &hex(tag)[..]), "{name}");
    cipher.open(&header, &iv, &mut body, &icv).unwrap();
    assert_eq!(body, plain);
    let other = EspHeader { sequence: header.sequence ^ 1, ..header };
    let opened = cipher.open(&other, &iv, &mut hex(sealed), &icv);
    assert_eq!(opened, Err(EspCipherError::BadCheckValue));
}

/// draft-mcgrew-gcm-test-01, the first three cases: 64-bit numbers, and keys of 192 and 256 bits.
#[test]
fn aes_gcm_agrees_with_the_test_cases_for_esp() {
    let name = "rfc4106(gcm(aes))";
    check_combined(
        name,
        ("4c80cdefbb5d10da906ac73c3613a634", "2e443b684956ed7e3b244cfe"),
        EspHeader { spi: 0x4321, sequence: 0x8765_4321_0000_0000, extended: true },
        (
            "45000048699a000080114db7c0a80102c0a801010a9bf15638d3010000010000
             00000000045f736970045f756470037369700963796265726369747902646b00
             0021000101020201",
            "fecf537e729d5b07dc30df528dd22b768d1b98736696a6fd348509fa13ceac34
             cfa2436f14a3f3cf65925bf1f4a13c5d15b21e1884f5ff6247aeabb786b93bce
             61bc17d768fd9732",
            "459018148f6cbe722fd04796562dfdb4",
        ),
    );
    check_combined(
        name,
        ("feffe9928665731c6d6a8f9467308308feffe9928665731c", "cafebabefacedbaddecaf888"),
        EspHeader { spi: 0xa5f8, sequence: 10, extended: false },
        (
            "45000028a4ad4000400678800a01038f0a010612802306b8cb712602dd6bb03e
             501016d075680001",
            "a5b1f8066029aea40e598b8122de02420938b3ab33f828e687b8858b5bfbdbd0
             315b27452144cc77",
            "95457b9652037f5318027b5b4cd7a636",
        ),
    );
    check_combined(
        name,
        (
            "abbccddef00112233445566778899aababbccddef00112233445566778899aab",
            "112233440102030405060708",
        ),
        EspHeader { spi: 0x4a2c_bfe3, sequence: 2, extended: false },
        (
            "4500003069a6400080062690c0a801029389155e0a9e008b2dc57ee000000000
             7002400020bf0000020405b40101040201020201",
            "ff425c9b724599df7a3bcd510194e00d6a78107f1b0b1cbf06efae9d65a5d763
             748a637985771d347f0545659f14e99def842d8e",
            "b335f4eecfdbf831824b4c4915956c96",
        ),
    );
}

/// RFC 7634, appendix A.
#[test]
fn chacha20_poly1305_agrees_with_its_rfc() {
    check_combined(
        "rfc7539esp(chacha20,poly1305)",
        (
            "808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f",
            "a0a1a2a31011121314151617",
        ),
        EspHeader { spi: 0x0102_0304, sequence: 5, extended: false },
        (
            "45000054a6f200004001e778c6336405c000020508005b7a3a080000553bec10
             0007362708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20212223
             2425262728292a2b2c2d2e2f303132333435363701020204",
            "24039428b97f417e3c13753a4f05087b67c352e6a7fab1b982d466ef407ae5c6
             14ee8099d52844eb61aa95dfab4c02f72aa71e7c4c4f64c9befe2facc638e8f3
             cbec163fac469b502773f6fb94e664da9165b82829f641e0",
            "76aaa8266b7fb0f7b11b369907e1ad43",
        ),
    );
}

/// RFC 3602 4, cases 1, 2 and 5.
#[test]
fn aes_cbc_agrees_with_its_rfc() {
    let cases = [
        (
            "06a9214036b8a15b512e03d534120006",
            "3dafba429d9eb430b422da802c9fac41",
            "53696e676c6520626c6f636b206d7367",
            "e353779c1079aeb82708942dbe77181a",
        ),
        (
            "c286696d887c9aa0611bbb3e2025a45a",
            "562e17996d093d28ddb3ba695a2e6f58",
            "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
            "d296cd94c2cccf8a3a863028b5e1dc0a7586602d253cfff91b8266bea6d61ab1",
        ),
        (
            "90d382b410eeba7ad938c46cec1a82bf",
            "e96e8c08ab465763fd098d45dd3ff893",
            "08000ebda70a00008e9c083db95b070008090a0b0c0d0e0f1011121314151617
             18191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f3031323334353637
             0102030405060708090a0b0c0d0e0e01",
            "f663c25d325c18c6a9453e194e120849a4870b66cc6b9965330013b4898dc856
             a4699e523a55db080b59ec3a8e4b7e52775b07d1db34ed9c538ab50c551b874a
             a269add047ad2d5913ac19b7cfbad4a6",
        ),
    ];
    for (key, iv, plain, sealed) in cases {
        let cipher = BlockCipher::aes(&hex(key)).unwrap();
        let mut body = hex(plain);
        cipher.encrypt(&hex(iv), &mut body).unwrap();
        assert_eq!(body, hex(sealed));
        cipher.decrypt(&hex(iv), &mut body).unwrap();
        assert_eq!(body, hex(plain));
    }
}

/// One block of the well-known sample of NIST SP 800-67: in CBC mode with a vector of zeros it is
/// that of the code book.
#[test]
fn triple_des_agrees_with_nist() {
    let key = hex("0123456789abcdef23456789abcdef01456789abcdef0123");
    let cipher = BlockCipher::triple_des(&key).unwrap();
    let mut body = hex("5468652071756663");
    cipher.encrypt(&[0; 8], &mut body).unwrap();
    assert_eq!(body, hex("a826fd8ce53b855f"));
    cipher.decrypt(&[0; 8], &mut body).unwrap();
    assert_eq!(body, hex("5468652071756663"));
}

/// RFC 4868 2.7.2.1 and RFC 2202 3, the first cases: the text "Hi There" is a header here.
#[test]
fn check_values_agree_with_their_rfcs() {
    let header = EspHeader { spi: 0x4869_2054, sequence: 0x6865_7265, extended: false };
    let cases = [
        (hmac::HMAC_SHA256, 32, 16, "198a607eb44bfbc69903a0f1cf2bbdc5"),
        (hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, 20, 12, "b617318655057264e28bc0b6"),
    ];
    for (algorithm, key, len, right) in cases {
        let key = hmac::Key::new(algorithm, &vec![0x0b; key]);
        let mut cipher = Separate::new(None, key, len);
        let mut icv = vec![0; len];
        cipher.seal(&header, &mut [], &mut [], &mut icv).unwrap();
        assert_eq!(icv, hex(right));
        cipher.open(&header, &[], &mut [], &icv).unwrap();
        icv[0] ^= 1;
        let opened = cipher.open(&header, &[], &mut [], &icv);
        assert_eq!(opened, Err(EspCipherError::BadCheckValue));
    }
}

fn separate(enc: (&str, usize), auth: (&str, usize), insecure: bool) -> XfrmAlgorithms {
    XfrmAlgorithms {
        aead: None,
        enc: Some(algorithm(enc.0, (0..enc.1).map(|n| n as u8 * 3).collect())),
        auth: Some(algorithm(auth.0, vec![2; auth.1])),
        insecure,
    }
}

fn aead(name: &str, len: usize) -> XfrmAlgorithms {
    XfrmAlgorithms { aead: Some(algorithm(name, vec![7; len])), ..XfrmAlgorithms::default() }
}

#[test]
fn every_algorithm_opens_what_it_seals_and_nothing_else() {
    let all = [
        aead("rfc4106(gcm(aes))", 20),
        aead("rfc4106(gcm(aes))", 28),
        aead("rfc4106(gcm(aes))", 36),
        aead("rfc7539esp(chacha20,poly1305)", 36),
        separate(("cbc(aes)", 16), ("hmac(sha256)", 32), false),
        separate(("cbc(aes)", 32), ("hmac(sha256)", 32), false),
        separate(("cbc(des3_ede)", 24), ("hmac(sha1)", 20), true),
        separate(("cipher_null", 0), ("hmac(sha256)", 32), true),
    ];
    for algorithms in all {
        let mut sender = make(&algorithms, VECTORS, A, B).unwrap();
        let mut receiver = make(&algorithms, VECTORS, A, B).unwrap();
        let shape = sender.shape();
        for extended in [false, true] {
            let header = EspHeader { spi: 300, sequence: 1 << 32 | 9, extended };
            let plain: Vec<u8> = (0..96).collect();
            let (mut iv, mut body) = (vec![0; shape.iv], plain.clone());
            let mut icv = vec![0; shape.icv];
            sender.seal(&header, &mut iv, &mut body, &mut icv).unwrap();
            let mut opened = body.clone();
            receiver.open(&header, &iv, &mut opened, &icv).unwrap();
            assert_eq!(opened, plain, "{algorithms:?}");
            let upper = EspHeader { sequence: header.sequence ^ 1 << 40, ..header };
            let other = receiver.open(&upper, &iv, &mut body.clone(), &icv);
            assert_eq!(other.is_err(), extended, "{algorithms:?}");
            body[5] ^= 4;
            let changed = receiver.open(&header, &iv, &mut body, &icv);
            assert_eq!(changed, Err(EspCipherError::BadCheckValue), "{algorithms:?}");
        }
    }
}

#[test]
fn vectors_are_those_reserved_and_differ_in_the_two_directions() {
    let algorithms = aead("rfc4106(gcm(aes))", 20);
    let block = XfrmVectors { first: 1000, end: 1010 };
    let header = EspHeader { spi: 300, sequence: 1, extended: false };
    let mut seen = std::collections::BTreeSet::new();
    for (from, to) in [(A, B), (B, A)] {
        let mut cipher = make(&algorithms, Some(block), from, to).unwrap();
        let mut seal = || {
            let mut iv = [0; 8];
            cipher.seal(&header, &mut iv, &mut [0; 4], &mut [0; 16]).map(|()| iv)
        };
        for number in block.first..block.end {
            let iv = seal().unwrap();
            assert_eq!(u64::from_be_bytes(iv) & !(1 << 63), number);
            assert!(seen.insert(iv));
        }
        assert_eq!(seal(), Err(EspCipherError::Exhausted));
    }
    let mut last = Counted::exactly((1 << 63) - 1);
    assert!(last.next().is_some());
    assert_eq!(last.next(), None);
    assert_eq!(make(&algorithms, None, A, B).unwrap_err(), CipherRefusal::NoVectors);
}

#[test]
fn a_key_has_a_name_that_does_not_tell_it() {
    let name = |algorithms: &XfrmAlgorithms| counted_key(algorithms);
    let gcm = name(&aead("rfc4106(gcm(aes))", 20)).unwrap();
    assert_eq!(gcm.len(), 64);
    assert!(!gcm.contains("0707"));
    assert_ne!(Some(gcm), name(&aead("rfc4106(gcm(aes))", 28)));
    // Random vectors need no record.
    assert_eq!(name(&separate(("cbc(aes)", 16), ("hmac(sha256)", 32), false)), None);
}

#[test]
fn the_vectors_of_block_ciphers_are_random() {
    let algorithms = separate(("cbc(aes)", 16), ("hmac(sha256)", 32), false);
    let mut cipher = make(&algorithms, VECTORS, A, B).unwrap();
    let header = EspHeader { spi: 300, sequence: 1, extended: false };
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..1000 {
        let mut iv = [0; 16];
        cipher.seal(&header, &mut iv, &mut [0; 16], &mut [0; 16]).unwrap();
        assert!(seen.insert(iv));
    }
}

#[test]
fn refusals_say_what_is_wrong() {
    let short = XfrmAlgorithms {
        aead: Some(XfrmAlgorithm { icv: Some(96), ..algorithm("rfc4106(gcm(aes))", vec![0; 20]) }),
        ..XfrmAlgorithms::default()
    };
    let both = XfrmAlgorithms {
        aead: aead("rfc4106(gcm(aes))", 20).aead,
        ..separate(("cbc(aes)", 16), ("hmac(sha256)", 32), false)
    };
    let cases = [
        (aead("rfc4106(gcm(aes))", 16), "takes a key of 20, 28 or 36 bytes, not of 16"),
        (aead("rfc4309(ccm(aes))", 20), "no aead algorithm \"rfc4309(ccm(aes))\""),
        (short, "check value of 128 bits here, not of 96"),
        (both, "either an aead algorithm, or enc and auth"),
        (XfrmAlgorithms::default(), "either an aead algorithm, or enc and auth"),
        (separate(("cbc(aes)", 24), ("hmac(sha256)", 32), false), "16 or 32 bytes, not of 24"),
        (separate(("cbc(aes)", 16), ("hmac(sha256)", 20), false), "32 bytes, not of 20"),
        (separate(("cbc(aes)", 16), ("hmac(md5)", 16), true), "no auth algorithm \"hmac(md5)\""),
        (separate(("cbc(aes)", 16), ("hmac(sha1)", 20), false), "hmac(sha1) protects too little"),
        (separate(("cbc(des3_ede)", 24), ("hmac(sha1)", 20), false), "cbc(des3_ede) protects"),
        (separate(("cipher_null", 0), ("hmac(sha256)", 32), false), "cipher_null protects"),
    ];
    for (algorithms, expected) in cases {
        let refusal: CipherRefusal = make(&algorithms, VECTORS, A, B).unwrap_err();
        let sentence = refusal.to_string();
        assert!(sentence.contains(expected), "{sentence}");
    }
}
