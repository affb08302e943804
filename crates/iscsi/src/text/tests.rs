use super::*;
use crate::error::ProtocolError;
use proptest::prelude::*;

#[test]
fn pairs_are_written_and_read() {
    let mut writer = TextWriter::default();
    writer.push("HeaderDigest", "CRC32C,None");
    writer.push("CHAP_A", "");
    writer.push("TargetAlias", "a\0SendTargets=All");
    let text = writer.finish();
    assert_eq!(text, b"HeaderDigest=CRC32C,None\0CHAP_A=\0TargetAlias=a\0");
    let pairs = [("HeaderDigest", "CRC32C,None"), ("CHAP_A", ""), ("TargetAlias", "a")];
    assert_eq!(parse(&text), Ok(pairs.to_vec()));
    assert_eq!(parse(b"a=b=c\0\0\0"), Ok(vec![("a", "b=c")]));
    assert_eq!(parse(b""), Ok(vec![]));
}

#[test]
fn malformed_text_is_refused() {
    let long = format!("{}=1\0", "k".repeat(64));
    let many = "a=1\0".repeat(65);
    for text in
        [&b"a\0"[..], b"a=1", b"=1\0", b"a b=1\0", b"a=\xff\0", long.as_bytes(), many.as_bytes()]
    {
        assert!(matches!(parse(text), Err(ProtocolError::Text(_))), "{text:?}");
    }
}

#[test]
fn a_text_of_several_pdus_is_put_together() {
    let mut assembler = TextAssembler::default();
    assert_eq!(assembler.push(b"a=1\0b", true), Ok(None));
    assert_eq!(assembler.push(b"=2\0", false), Ok(Some(b"a=1\0b=2\0".to_vec())));
    assert_eq!(assembler.push(&[0; 8192], true), Ok(None));
    assert_eq!(assembler.push(&[0; 8192], true), Ok(None));
    assert!(assembler.push(b"a", false).is_err());
}

#[test]
fn values_have_the_forms_of_the_rfc() {
    assert_eq!(number("512"), Some(512));
    assert_eq!(number("0x1F"), Some(31));
    for wrong in ["", "0x", "-1", "+1", "5a", "4294967296"] {
        assert_eq!(number(wrong), None, "{wrong}");
    }
    assert_eq!((boolean("Yes"), boolean("No"), boolean("yes")), (Some(true), Some(false), None));
    assert_eq!(binary("0xaBc", 8), Some(vec![0xa, 0xbc]));
    assert_eq!(binary("0b3q2+7w==", 8), Some(vec![0xde, 0xad, 0xbe, 0xef]));
    assert_eq!(binary("0B3q2+7w", 8), Some(vec![0xde, 0xad, 0xbe, 0xef]));
    for wrong in ["", "0", "0x", "0b", "0xg1", "0b*", "0x001122", "5", "ä0"] {
        assert_eq!(binary(wrong, 2), None, "{wrong}");
    }
}

proptest! {
    #[test]
    fn bytes_survive_hexadecimal_digits(bytes in prop::collection::vec(any::<u8>(), 1..64)) {
        prop_assert_eq!(binary(&hex(&bytes), 64), Some(bytes));
    }

    #[test]
    fn any_text_is_read_or_refused(text: Vec<u8>) {
        if let Ok(pairs) = parse(&text) {
            let mut writer = TextWriter::default();
            pairs.iter().for_each(|(key, value)| writer.push(key, value));
            let again = writer.finish();
            prop_assert_eq!(parse(&again), Ok(pairs));
        }
    }
}
