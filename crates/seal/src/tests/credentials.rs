//! Credentials that are refused, and peers that speak TLS and not this protocol.

use std::io::Write;
use std::sync::Arc;

use rcgen::{
    CertificateRevocationListParams, ExtendedKeyUsagePurpose, KeyIdMethod, KeyPair,
    RevokedCertParams, SerialNumber, date_time_ymd,
};
use rustls::crypto::aws_lc_rs;
use rustls::{AlertDescription, CertificateError, ClientConfig, ClientConnection};

use super::world::{Authority, Ends, NOW, Pair, Side, raw_key};
use crate::raw_keys::AnyRawKey;
use crate::{
    ALPN, ClientEndpoint, Fault, Handshake, HandshakeError, Identity, MAX_HANDSHAKE,
    ServerEndpoint, Step, SuiteChoice, Trust,
};

/// Runs the handshake to its failure: who refused, with which error, and what the other end saw.
fn refusal(ends: &Ends) -> (Side, HandshakeError, HandshakeError) {
    let mut pair = ends.begin();
    let (side, error) = pair.run(&mut |_, _| {}).expect_err("a refusal");
    let (refusing, other) = match side {
        Side::Client => (&mut pair.client, &mut pair.server),
        Side::Server => (&mut pair.server, &mut pair.client),
    };
    // What had been on its way, then the alert.
    let mut alert = if side == Side::Client { pair.to_server } else { pair.to_client };
    alert.extend(refusing.poll_output());
    let seen = match other.handle_bytes(&alert) {
        Ok(_) => panic!("the other end is not told of {error}"),
        Err(seen) => seen,
    };
    (side, error, seen)
}

/// Both ends with certificates; the client's and the server's can be of any authority.
fn certified(client: Identity, server: Identity, trust: &Trust) -> Ends {
    Ends::new((client, trust.clone()), (server, trust.clone()))
}

fn alert_of(error: &HandshakeError) -> AlertDescription {
    match error {
        HandshakeError::Tls(rustls::Error::AlertReceived(alert)) => *alert,
        other => panic!("no alert: {other:?}"),
    }
}

#[test]
fn a_certificate_of_another_authority_is_refused() {
    let ours = Authority::new();
    let cases = [
        (Authority::named("another"), CertificateError::UnknownIssuer, AlertDescription::UnknownCA),
        // It has the same name, and another key.
        (Authority::new(), CertificateError::BadSignature, AlertDescription::DecryptError),
    ];
    for (other, why, alert) in cases {
        let expected = HandshakeError::Tls(why.into());
        let ends = certified(other.client(), ours.server(), &ours.trust());
        let (side, error, seen) = refusal(&ends);
        assert_eq!((side, &error, error.fault()), (Side::Server, &expected, Fault::Peer));
        // The client learns it after its Finished, in the place of the first sealed record.
        assert_eq!(alert_of(&seen), alert);
        let ends = certified(ours.client(), other.server(), &ours.trust());
        let (side, error, seen) = refusal(&ends);
        assert_eq!((side, &error), (Side::Client, &expected));
        assert_eq!(alert_of(&seen), alert);
    }
}

#[test]
fn a_certificate_out_of_its_time_is_refused() {
    use ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};
    let ours = Authority::new();
    for (years, is_expired) in [((2020, 2026), true), ((2027, 2030), false)] {
        let check = |error: &HandshakeError| {
            let HandshakeError::Tls(rustls::Error::InvalidCertificate(error)) = error else {
                panic!("{error}");
            };
            match error {
                CertificateError::ExpiredContext { .. } => assert!(is_expired),
                CertificateError::NotValidYetContext { .. } => assert!(!is_expired),
                error => panic!("{error}"),
            }
        };
        let client = ours.identity("host.example", years, ClientAuth);
        let (side, error, seen) = refusal(&certified(client, ours.server(), &ours.trust()));
        assert_eq!(side, Side::Server);
        check(&error);
        alert_of(&seen);
        let server = ours.identity("disks.example", years, ServerAuth);
        let (side, error, _) = refusal(&certified(ours.client(), server, &ours.trust()));
        assert_eq!(side, Side::Client);
        check(&error);
    }
}

/// The time is the one that the shell tells for the handshake.
#[test]
fn the_time_is_told() {
    let ours = Authority::new();
    let ends = certified(ours.client(), ours.server(), &ours.trust());
    let mut pair = ends.begin();
    pair.run(&mut |_, _| {}).unwrap();
    let later = 2_000_000_000;
    let mut pair = Pair {
        client: Handshake::client(&ends.client, "disks.example", later).unwrap(),
        server: Handshake::server(&ends.server, later).unwrap(),
        to_server: Vec::new(),
        to_client: Vec::new(),
    };
    assert!(pair.run(&mut |_, _| {}).is_err());
}

/// A client's certificate does not make a server, nor the other way round.
#[test]
fn a_certificate_for_another_use_is_refused() {
    let ours = Authority::new();
    for (client, server, refusing) in
        [(ours.client(), ours.client(), Side::Client), (ours.server(), ours.server(), Side::Server)]
    {
        let (side, error, _) = refusal(&certified(client, server, &ours.trust()));
        assert_eq!(side, refusing);
        assert!(matches!(error, HandshakeError::Tls(rustls::Error::InvalidCertificate(_))));
    }
}

#[test]
fn a_server_of_another_name_is_refused() {
    let ours = Authority::new();
    let usage = ExtendedKeyUsagePurpose::ServerAuth;
    let other = ours.identity("other.example", (2026, 2030), usage);
    let (side, error, _) = refusal(&certified(ours.client(), other, &ours.trust()));
    assert_eq!(side, Side::Client);
    let HandshakeError::Tls(rustls::Error::InvalidCertificate(error)) = error else {
        panic!("{error}");
    };
    assert!(matches!(error, CertificateError::NotValidForNameContext { .. }), "{error}");
}

#[test]
fn a_revoked_certificate_is_refused() {
    let ours = Authority::new();
    let (revoked, serial) = ours.numbered_client(7);
    let (sound, _) = ours.numbered_client(8);
    let list = CertificateRevocationListParams {
        this_update: date_time_ymd(2026, 11, 1),
        next_update: date_time_ymd(2027, 11, 1),
        crl_number: SerialNumber::from(1),
        issuing_distribution_point: None,
        revoked_certs: vec![RevokedCertParams {
            serial_number: serial,
            revocation_time: date_time_ymd(2026, 11, 1),
            reason_code: None,
            invalidity_date: None,
        }],
        key_identifier_method: KeyIdMethod::Sha256,
    };
    let list = ours.revocations(&list);
    let trust = Trust::Authorities { roots: vec![ours.root()], revocations: vec![list] };
    for (client, is_revoked) in [(revoked, true), (sound, false)] {
        let ends = Ends::new((client, ours.trust()), (ours.server(), trust.clone()));
        if is_revoked {
            let (side, error, _) = refusal(&ends);
            let expected = HandshakeError::Tls(CertificateError::Revoked.into());
            assert_eq!((side, error), (Side::Server, expected));
        } else {
            ends.connect();
        }
    }
}

/// A raw key where a certificate is asked for, and the other way round; either end.
#[test]
fn a_credential_of_the_other_kind_is_refused() {
    let ours = Authority::new();
    let (raw, trust) = (Trust::RawKeys, ours.trust());
    let cases = [
        Ends::new((raw_key(), raw.clone()), (raw_key(), trust.clone())),
        Ends::new((ours.client(), raw.clone()), (raw_key(), raw.clone())),
        Ends::new((raw_key(), trust.clone()), (raw_key(), raw.clone())),
        Ends::new((raw_key(), raw.clone()), (ours.server(), raw.clone())),
    ];
    for ends in cases {
        let mut pair = ends.begin();
        let (_, error) = pair.run(&mut |_, _| {}).expect_err("a refusal");
        let refused = matches!(
            error,
            HandshakeError::Tls(
                rustls::Error::PeerIncompatible(_) | rustls::Error::InvalidCertificate(_)
            )
        );
        assert!(refused, "{error:?}");
        assert_ne!(pair.client.step(), Step::Ready);
        assert_ne!(pair.server.step(), Step::Ready);
    }
}

/// A client of rustls, set up otherwise than ours.
fn foreign_client(alpn: &[&[u8]], identity: Option<&Identity>) -> ClientConnection {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = Arc::new(AnyRawKey::new(&provider));
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let mut config = match identity {
        None => builder.with_no_client_auth(),
        Some(identity) => {
            let certified = Arc::clone(&identity.certified);
            let resolver = rustls::client::AlwaysResolvesClientRawPublicKeys::new(certified);
            builder.with_client_cert_resolver(Arc::new(resolver))
        }
    };
    config.alpn_protocols = alpn.iter().map(|protocol| protocol.to_vec()).collect();
    ClientConnection::new(Arc::new(config), "disks.example".try_into().unwrap()).unwrap()
}

/// Moves bytes between a foreign client and our server, until the server is ready or fails.
fn serve(mut client: ClientConnection, data: &[u8]) -> Result<Handshake, HandshakeError> {
    let mut server = Handshake::server(&Ends::common().server, NOW).unwrap();
    for _ in 0..5 {
        let mut bytes = Vec::new();
        client.write_tls(&mut bytes).unwrap();
        server.handle_bytes(&bytes)?;
        if server.step() == Step::Judging {
            server.accept().unwrap();
            return Ok(server);
        }
        let bytes = server.poll_output();
        client.read_tls(&mut &bytes[..]).unwrap();
        client.process_new_packets().unwrap();
        client.writer().write_all(data).unwrap();
    }
    panic!("no end of the handshake");
}

#[test]
fn a_peer_without_our_protocol_is_refused() {
    let identity = raw_key();
    assert!(serve(foreign_client(&[ALPN], Some(&identity)), b"").is_ok());
    let other = serve(foreign_client(&[b"http/1.1"], Some(&identity)), b"");
    assert_eq!(other.unwrap_err(), HandshakeError::Tls(rustls::Error::NoApplicationProtocol));
    let none = serve(foreign_client(&[], Some(&identity)), b"");
    assert_eq!(none.unwrap_err(), HandshakeError::WrongProtocol);
}

#[test]
fn a_client_without_a_credential_is_refused() {
    let error = serve(foreign_client(&[ALPN], None), b"").unwrap_err();
    let none = HandshakeError::Tls(rustls::Error::NoCertificatesPresented);
    let kind = matches!(error, HandshakeError::Tls(rustls::Error::PeerIncompatible(_)));
    assert!(error == none || kind, "{error:?}");
}

/// Data that the client sends by TLS, behind its Finished: it is left for the session, which
/// refuses it.
#[test]
fn data_by_tls_is_no_sealed_record() {
    let server = serve(foreign_client(&[ALPN], Some(&raw_key())), b"by TLS").unwrap();
    let mut session = server.into_session(crate::SessionSettings::default()).unwrap();
    let record = [23, 3, 3, 0, 23, 0, 0, 0];
    let error = session.opener.header(record).unwrap_err();
    assert_eq!(error, crate::OpenError::UnknownKind { kind: 23 });
}

/// The client's credential does not go to a server that its shell has not accepted, however the
/// handshake ends.
#[test]
fn a_credential_is_not_shown_before_the_judgement() {
    let ends = Ends::common();
    let provider = Arc::new(aws_lc_rs::default_provider());
    let certified = Arc::clone(&ends.server.identity().certified);
    let resolver = rustls::server::AlwaysResolvesServerRawPublicKeys::new(certified);
    for alpn in [vec![], vec![ALPN.to_vec()]] {
        let mut config = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_client_cert_verifier(Arc::new(AnyRawKey::new(&provider)))
            .with_cert_resolver(Arc::new(resolver.clone()));
        config.alpn_protocols = alpn;
        let is_ours = !config.alpn_protocols.is_empty();
        let mut server = rustls::ServerConnection::new(Arc::new(config)).unwrap();
        let mut client = ends.begin().client;
        let bytes = client.poll_output();
        server.read_tls(&mut &bytes[..]).unwrap();
        server.process_new_packets().unwrap();
        let mut flight = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut flight).unwrap();
        }
        if is_ours {
            assert_eq!(client.handle_bytes(&flight), Ok(flight.len()));
            assert_eq!(client.step(), Step::Judging);
            client.handle_end_of_stream();
        } else {
            // The server has not agreed to the protocol.
            assert_eq!(client.handle_bytes(&flight), Err(HandshakeError::WrongProtocol));
        }
        assert_eq!(client.step(), Step::Failed);
        assert!(client.poll_output().is_empty());
    }
}

/// A server that goes on with TLS where its first sealed record was to come.
#[test]
fn a_server_that_goes_on_with_tls_is_refused() {
    let ends = Ends::common();
    let provider = Arc::new(aws_lc_rs::default_provider());
    let certified = Arc::clone(&ends.server.identity().certified);
    let resolver = rustls::server::AlwaysResolvesServerRawPublicKeys::new(certified);
    for tickets in [0, 2] {
        let mut config = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_client_cert_verifier(Arc::new(AnyRawKey::new(&provider)))
            .with_cert_resolver(Arc::new(resolver.clone()));
        config.alpn_protocols = vec![ALPN.to_vec()];
        config.send_tls13_tickets = tickets;
        let mut server = rustls::ServerConnection::new(Arc::new(config)).unwrap();
        let mut client = ends.begin().client;
        let mut to_client = Vec::new();
        while client.step() != Step::Judging {
            let bytes = client.poll_output();
            server.read_tls(&mut &bytes[..]).unwrap();
            server.process_new_packets().unwrap();
            server.write_tls(&mut to_client).unwrap();
            let taken = client.handle_bytes(&to_client).unwrap();
            to_client.drain(..taken);
        }
        client.accept().unwrap();
        let bytes = client.poll_output();
        server.read_tls(&mut &bytes[..]).unwrap();
        server.process_new_packets().unwrap();
        server.writer().write_all(b"by TLS").unwrap();
        server.write_tls(&mut to_client).unwrap();
        let error = client.handle_bytes(&to_client).unwrap_err();
        assert_eq!((&error, error.fault()), (&HandshakeError::TlsAfterSwitch, Fault::Peer));
    }
}

/// A key of another kind than Ed25519 as a raw key.
#[test]
fn a_raw_key_of_another_algorithm_is_refused() {
    let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
    let der = rustls::pki_types::PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let key = aws_lc_rs::sign::any_supported_type(&der).unwrap();
    let spki = key.public_key().unwrap().to_vec();
    let mut identity = raw_key();
    identity.certified = Arc::new(rustls::sign::CertifiedKey::new(vec![spki.into()], key));
    let ends = Ends::new((identity, Trust::RawKeys), (raw_key(), Trust::RawKeys));
    let mut pair = ends.begin();
    assert!(pair.run(&mut |_, _| {}).is_err());
    assert_ne!(pair.server.step(), Step::Ready);
}

/// The holder of one key claims to have another, whose public part everybody knows.
#[test]
fn a_public_key_alone_proves_nothing() {
    let ends = Ends::common();
    let mut thief = raw_key();
    let known = ends.client.identity().credential().to_vec();
    let key = Arc::clone(&thief.certified.key);
    thief.certified = Arc::new(rustls::sign::CertifiedKey::new(vec![known.into()], key));
    let ends = Ends {
        client: ClientEndpoint::new(thief, &Trust::RawKeys, SuiteChoice::default()).unwrap(),
        server: ServerEndpoint::new(raw_key(), &Trust::RawKeys, SuiteChoice::default()).unwrap(),
    };
    let (side, error, _) = refusal(&ends);
    let expected = HandshakeError::Tls(CertificateError::BadSignature.into());
    assert_eq!((side, error), (Side::Server, expected));
}

/// A chain of certificates that is longer than the bound.
#[test]
fn a_long_handshake_is_refused() {
    let ours = Authority::new();
    let mut client = ours.client();
    let mut chain = client.certified.cert.clone();
    chain.extend(std::iter::repeat_n(ours.root(), 100));
    assert!(chain.iter().map(|one| one.len()).sum::<usize>() > MAX_HANDSHAKE);
    let key = Arc::clone(&client.certified.key);
    client.certified = Arc::new(rustls::sign::CertifiedKey::new(chain, key));
    let ends = certified(client, ours.server(), &ours.trust());
    let mut pair = ends.begin();
    let refused = pair.run(&mut |_, _| {});
    let most = MAX_HANDSHAKE;
    assert_eq!(refused, Err((Side::Server, HandshakeError::TooLong { most })));
}

/// What is no TLS at all: plain iSCSI, a sealed record, text; and TLS records of bad lengths.
#[test]
fn other_protocols_are_named() {
    let first = |bytes: &[u8]| {
        let mut server = Handshake::server(&Ends::common().server, NOW).unwrap();
        server.handle_bytes(bytes).unwrap_err()
    };
    let hint = |bytes: &[u8]| match first(bytes) {
        HandshakeError::NotTls { first, hint } => {
            assert_eq!(first, bytes[0]);
            hint
        }
        error => panic!("{error:?}"),
    };
    assert_eq!(hint(&[0x43, 0x87, 0, 0]), "perhaps plain iSCSI");
    assert_eq!(hint(&[1, 0, 0, 0, 0, 0, 0, 24]), "a sealed record before the end of the handshake");
    assert_eq!(hint(b"GET / HTTP/1.1\r\n"), "another protocol");
    for (version, length) in [(0x0303, 0), (0x0303, 0x4101), (0x0303, 0xffff), (0x0203, 100)] {
        let [v0, v1] = u16::to_be_bytes(version);
        let [l0, l1] = u16::to_be_bytes(length);
        let error = first(&[22, v0, v1, l0, l1]);
        assert_eq!(error, HandshakeError::BadTlsRecord { version, length });
        assert_eq!(error.fault(), Fault::PeerOrPath);
    }
    // A sealed record between the flights of the handshake.
    let mut pair = Ends::common().begin();
    let hello = pair.client.poll_output();
    pair.server.handle_bytes(&hello).unwrap();
    let error = pair.server.handle_bytes(&[2, 0, 0, 0, 0, 0, 0, 17]).unwrap_err();
    assert!(matches!(error, HandshakeError::NotTls { first: 2, .. }));
}

#[test]
fn no_authority_is_no_trust() {
    let trust = Trust::Authorities { roots: Vec::new(), revocations: Vec::new() };
    assert!(ClientEndpoint::new(raw_key(), &trust, SuiteChoice::default()).is_err());
    let error = ServerEndpoint::new(raw_key(), &trust, SuiteChoice::default()).unwrap_err();
    assert!(error.to_string().starts_with("the authorities or revocation lists"), "{error}");
}
