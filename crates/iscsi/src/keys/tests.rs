use super::*;
use crate::settings::{DigestPreference, KeySettings, SessionType};
use crate::text::{self, TextWriter};

fn settings() -> KeySettings {
    KeySettings {
        header_digest: DigestPreference::Avoid,
        data_digest: DigestPreference::Require,
        initial_r2t: false,
        immediate_data: true,
        max_burst: 100_000,
        first_burst: 50_000,
        max_outstanding_r2t: 8,
        data_pdu_in_order: false,
        ..KeySettings::default()
    }
}

/// The answer of an acceptor to one offer; `None` if the negotiation fails.
fn answer(session: SessionType, key: &str, value: &str) -> Option<String> {
    let mut out = TextWriter::default();
    KeyNegotiation::new(session, &settings()).take(key, value, &mut out).ok()?;
    let text = out.finish();
    let pairs = text::parse(&text).expect("sound");
    Some(pairs.iter().map(|(k, v)| if *k == key { (*v).to_owned() } else { "?".into() }).collect())
}

#[test]
fn offers_are_answered_by_the_result_functions() {
    for (key, value, expected) in [
        ("HeaderDigest", "None,CRC32C", Some("None")),
        ("HeaderDigest", "CRC32C,None", Some("CRC32C")),
        ("HeaderDigest", "sha9,CRC32C", Some("CRC32C")),
        ("HeaderDigest", "sha9", None),
        ("DataDigest", "None,CRC32C", Some("CRC32C")),
        ("DataDigest", "None", None),
        ("MaxConnections", "4", Some("1")),
        ("MaxConnections", "0", None),
        ("InitialR2T", "Yes", Some("Yes")),
        ("InitialR2T", "No", Some("No")),
        ("InitialR2T", "no", None),
        ("ImmediateData", "Yes", Some("Yes")),
        ("ImmediateData", "No", Some("No")),
        ("MaxBurstLength", "262144", Some("100000")),
        ("MaxBurstLength", "0x200", Some("512")),
        ("MaxBurstLength", "511", None),
        ("MaxBurstLength", "16777216", None),
        ("FirstBurstLength", "65536", Some("50000")),
        ("DefaultTime2Wait", "5", Some("5")),
        ("DefaultTime2Wait", "0", Some("2")),
        ("DefaultTime2Retain", "20", Some("0")),
        ("MaxOutstandingR2T", "1", Some("1")),
        ("MaxOutstandingR2T", "65535", Some("8")),
        ("DataPDUInOrder", "No", Some("No")),
        ("DataSequenceInOrder", "No", Some("Yes")),
        ("ErrorRecoveryLevel", "2", Some("0")),
        ("ErrorRecoveryLevel", "3", None),
        ("iSCSIProtocolLevel", "2", Some("1")),
        ("TaskReporting", "FastAbort,RFC3720", Some("RFC3720")),
        ("TaskReporting", "FastAbort", None),
        ("IFMarker", "Yes", Some("No")),
        ("OFMarkInt", "1~2", Some("Reject")),
        ("MaxRecvDataSegmentLength", "8192", Some("")),
        ("MaxRecvDataSegmentLength", "1", None),
        ("X-com.example.key", "1", Some("NotUnderstood")),
        ("headerdigest", "None", Some("NotUnderstood")),
        ("Unknown", "NotUnderstood", Some("")),
    ] {
        assert_eq!(answer(SessionType::Normal, key, value).as_deref(), expected, "{key}={value}");
    }
}

#[test]
fn keys_of_data_are_irrelevant_in_discovery() {
    for (key, value, expected) in [
        ("MaxBurstLength", "262144", "Irrelevant"),
        ("InitialR2T", "Yes", "Irrelevant"),
        ("DefaultTime2Wait", "9", "9"),
        ("HeaderDigest", "None", "None"),
    ] {
        assert_eq!(answer(SessionType::Discovery, key, value).as_deref(), Some(expected));
    }
}

#[test]
fn a_key_is_settled_once() {
    let mut keys = KeyNegotiation::new(SessionType::Normal, &settings());
    let mut out = TextWriter::default();
    assert!(keys.take("InitialR2T", "No", &mut out).is_ok());
    assert!(keys.take("InitialR2T", "No", &mut out).is_err());
}

/// An originator with those wishes takes the answers of an acceptor with these.
#[test]
fn both_ends_agree() {
    let other = KeySettings {
        header_digest: DigestPreference::Prefer,
        initial_r2t: true,
        max_burst: 70_000,
        first_burst: 70_000,
        max_recv_data_segment: 4096,
        ..KeySettings::default()
    };
    let mut originator = KeyNegotiation::new(SessionType::Normal, &other);
    let mut acceptor = KeyNegotiation::new(SessionType::Normal, &settings());
    let (mut offers, mut answers) = (TextWriter::default(), TextWriter::default());
    originator.offer(&mut offers);
    for (key, value) in text::parse(&offers.finish()).expect("sound") {
        acceptor.take(key, value, &mut answers).expect("a legal offer");
    }
    acceptor.declare(&mut answers);
    let mut nothing = TextWriter::default();
    for (key, value) in text::parse(&answers.finish()).expect("sound") {
        originator.take(key, value, &mut nothing).expect("a legal answer");
    }
    assert_eq!(nothing.finish(), b"");
    let (mut a, mut b) = (originator.agreed(), acceptor.agreed());
    assert_eq!((a.send_limit, a.receive_limit), (b.receive_limit, b.send_limit));
    (a.send_limit, a.receive_limit) = (0, 0);
    (b.send_limit, b.receive_limit) = (0, 0);
    assert_eq!(a, b);
    assert!(a.header_digest && a.data_digest && a.initial_r2t && a.immediate_data);
    assert_eq!((a.max_burst, a.first_burst, a.max_outstanding_r2t), (70_000, 50_000, 4));
}

#[test]
fn an_answer_beyond_the_offer_is_refused() {
    for (key, value, allowed) in [
        ("MaxBurstLength", "100001", false),
        ("MaxBurstLength", "512", true),
        ("ImmediateData", "No", true),
        ("InitialR2T", "Yes", true),
        ("DefaultTime2Wait", "1", false),
        ("DataDigest", "None", false),
        ("HeaderDigest", "CRC32C,None", false),
        ("MaxOutstandingR2T", "Irrelevant", true),
        ("MaxOutstandingR2T", "Reject", false),
    ] {
        let mut keys = KeyNegotiation::new(SessionType::Normal, &settings());
        let mut out = TextWriter::default();
        keys.offer(&mut out);
        let taken = keys.take(key, value, &mut out);
        assert_eq!(taken.is_ok(), allowed, "{key}={value}");
    }
}

#[test]
fn the_first_burst_is_not_longer_than_a_burst() {
    let mut keys = KeyNegotiation::new(SessionType::Normal, &settings());
    let mut out = TextWriter::default();
    keys.take("MaxBurstLength", "1024", &mut out).expect("legal");
    assert_eq!(keys.agreed().first_burst, 1024);
}
