//! Identities, and a client and a server whose bytes the test moves.

use std::sync::OnceLock;

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose, SanType, SerialNumber, date_time_ymd,
};

use crate::{
    CertificateDer, CertificateRevocationListDer, ClientEndpoint, Handshake, HandshakeError,
    Identity, OpenError, Opened, Receiver, SealError, Sealer, ServerEndpoint, Session,
    SessionSettings, Step, SuiteChoice, Trust, generate_key_pem,
};

/// Seconds since 1970 in these tests: 2026-11-25.
pub(crate) const NOW: u64 = 1_795_564_800;

/// A new raw key.
pub(crate) fn raw_key() -> Identity {
    Identity::raw_key(&generate_key_pem().unwrap()).unwrap()
}

/// An authority of the tests.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new() -> Self {
        Self::named("an authority")
    }

    pub(crate) fn named(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(crate) fn root(&self) -> CertificateDer<'static> {
        self.0.der().clone()
    }

    pub(crate) fn trust(&self) -> Trust {
        Trust::Authorities { roots: vec![self.root()], revocations: Vec::new() }
    }

    /// A certificate for `name` that is valid in the given years, for clients or for servers.
    pub(crate) fn identity(
        &self,
        name: &str,
        years: (i32, i32),
        usage: ExtendedKeyUsagePurpose,
    ) -> Identity {
        self.issue(name, years, usage, None)
    }

    /// A client's certificate with this number, and the number as lists of revocations have it.
    pub(crate) fn numbered_client(&self, serial: u64) -> (Identity, SerialNumber) {
        let serial = SerialNumber::from(serial);
        let usage = ExtendedKeyUsagePurpose::ClientAuth;
        (self.issue("host.example", (2026, 2030), usage, Some(serial.clone())), serial)
    }

    /// A signed list of revocations.
    pub(crate) fn revocations(
        &self,
        list: &CertificateRevocationListParams,
    ) -> CertificateRevocationListDer<'static> {
        list.signed_by(&self.0).unwrap().into()
    }

    fn issue(
        &self,
        name: &str,
        years: (i32, i32),
        usage: ExtendedKeyUsagePurpose,
        serial: Option<SerialNumber>,
    ) -> Identity {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.serial_number = serial;
        params.not_before = date_time_ymd(years.0, 1, 1);
        params.not_after = date_time_ymd(years.1, 1, 1);
        params.extended_key_usages = vec![usage];
        let uri = format!("iqn.2026-11.example:{name}").try_into().unwrap();
        params.subject_alt_names.push(SanType::URI(uri));
        let certificate = params.signed_by(&key, &self.0).unwrap();
        Identity::certificate(&certificate.pem(), &key.serialize_pem()).unwrap()
    }

    pub(crate) fn server(&self) -> Identity {
        self.identity("disks.example", (2026, 2030), ExtendedKeyUsagePurpose::ServerAuth)
    }

    pub(crate) fn client(&self) -> Identity {
        self.identity("host.example", (2026, 2030), ExtendedKeyUsagePurpose::ClientAuth)
    }
}

/// Both ends.
pub(crate) struct Ends {
    pub(crate) client: ClientEndpoint,
    pub(crate) server: ServerEndpoint,
}

impl Ends {
    pub(crate) fn new(client: (Identity, Trust), server: (Identity, Trust)) -> Self {
        let choice = SuiteChoice::default();
        Self {
            client: ClientEndpoint::new(client.0, &client.1, choice).unwrap(),
            server: ServerEndpoint::new(server.0, &server.1, choice).unwrap(),
        }
    }

    /// Raw keys on both ends, with these suites.
    pub(crate) fn raw(client: SuiteChoice, server: SuiteChoice) -> Self {
        Self {
            client: ClientEndpoint::new(raw_key(), &Trust::RawKeys, client).unwrap(),
            server: ServerEndpoint::new(raw_key(), &Trust::RawKeys, server).unwrap(),
        }
    }

    /// Raw keys on both ends, the same in all tests.
    pub(crate) fn common() -> &'static Self {
        static ENDS: OnceLock<Ends> = OnceLock::new();
        ENDS.get_or_init(|| Self::raw(SuiteChoice::default(), SuiteChoice::default()))
    }

    pub(crate) fn begin(&self) -> Pair {
        Pair {
            client: Handshake::client(&self.client, "disks.example", NOW).unwrap(),
            server: Handshake::server(&self.server, NOW).unwrap(),
            to_server: Vec::new(),
            to_client: Vec::new(),
        }
    }

    /// Two sessions with all the default settings.
    pub(crate) fn connect(&self) -> (Talker, Talker) {
        self.connect_with(SessionSettings::default())
    }

    pub(crate) fn connect_with(&self, settings: SessionSettings) -> (Talker, Talker) {
        let mut pair = self.begin();
        pair.run(&mut |_, _| {}).expect("an honest handshake");
        let client = pair.client.into_session(settings).unwrap();
        let server = pair.server.into_session(settings).unwrap();
        let (mut client, mut server) = (Talker::new(client), Talker::new(server));
        assert_eq!(client.receive(&server.take_output()).unwrap(), [Event::Hello]);
        assert_eq!(server.receive(&client.take_output()).unwrap(), [Event::Hello]);
        (client, server)
    }
}

/// An end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Client,
    Server,
}

/// Changes the bytes of one flight on their way. The side is the sender's.
pub(crate) type Tamper<'a> = dyn FnMut(Side, &mut Vec<u8>) + 'a;

/// A handshake of both ends, and the bytes between them.
pub(crate) struct Pair {
    pub(crate) client: Handshake,
    pub(crate) server: Handshake,
    pub(crate) to_server: Vec<u8>,
    pub(crate) to_client: Vec<u8>,
}

impl Pair {
    /// Moves bytes and accepts each peer until no byte moves.
    ///
    /// At the end of an honest handshake the server is ready, and so is the client: it is shown a
    /// byte of the server's first sealed record, which it leaves.
    pub(crate) fn run(&mut self, tamper: &mut Tamper<'_>) -> Result<(), (Side, HandshakeError)> {
        loop {
            let mut flight = self.client.poll_output();
            let moved = flight.len();
            tamper(Side::Client, &mut flight);
            self.to_server.extend(flight);
            let mut flight = self.server.poll_output();
            let moved = moved + flight.len();
            tamper(Side::Server, &mut flight);
            self.to_client.extend(flight);
            let taken = self.server.handle_bytes(&self.to_server);
            let server = taken.map(|taken| drop(self.to_server.drain(..taken)));
            let taken = self.client.handle_bytes(&self.to_client);
            let client = taken.map(|taken| drop(self.to_client.drain(..taken)));
            // The end that failed first has an alert; the other end has not seen it yet.
            server.map_err(|error| (Side::Server, error))?;
            client.map_err(|error| (Side::Client, error))?;
            let judged = [&mut self.client, &mut self.server]
                .into_iter()
                .filter(|end| end.step() == Step::Judging)
                .map(|end| end.accept().unwrap())
                .count();
            if self.server.step() == Step::Ready {
                // The kind of a Hello.
                let taken = self.client.handle_bytes(&[1]);
                assert_eq!(taken.map_err(|error| (Side::Client, error))?, 0);
                return Ok(());
            }
            if moved + judged == 0 {
                return Ok(());
            }
        }
    }

    pub(crate) fn steps(&self) -> (Step, Step) {
        (self.client.step(), self.server.step())
    }
}

/// What a [`Talker`] has received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    Hello,
    Data(Vec<u8>),
    Rekeyed(u64, bool),
    End,
    Alert(crate::Reason),
}

/// A session with the bytes that it wants to send.
pub(crate) struct Talker {
    pub(crate) sealer: Sealer,
    pub(crate) receiver: Receiver,
    pub(crate) output: Vec<u8>,
}

impl Talker {
    pub(crate) fn new(session: Session) -> Self {
        let output = session.hello.as_ref().to_vec();
        Self { sealer: session.sealer, receiver: Receiver::new(session.opener), output }
    }

    pub(crate) fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.output)
    }

    /// The record of a chunk.
    pub(crate) fn record(&mut self, chunk: &[u8]) -> Result<Vec<u8>, SealError> {
        let (mut header, mut body) = ([0; crate::HEADER_LEN], chunk.to_vec());
        let mut tail = vec![0; self.sealer.tail_len(chunk.len())];
        self.sealer.seal(&mut header, &mut body, &mut tail)?;
        Ok([&header[..], &body, &tail].concat())
    }

    /// Receives all of `bytes`.
    pub(crate) fn receive(&mut self, mut bytes: &[u8]) -> Result<Vec<Event>, OpenError> {
        let mut events = Vec::new();
        loop {
            let taken = self.receiver.handle_bytes(bytes);
            bytes = &bytes[taken..];
            while let Some(opened) = self.receiver.next()? {
                events.push(match opened {
                    Opened::Hello(hello) => {
                        self.sealer.handle_hello(hello);
                        Event::Hello
                    }
                    Opened::Data(data) => Event::Data(data.to_vec()),
                    Opened::Rekeyed { epoch, answer } => Event::Rekeyed(epoch, answer),
                    Opened::End => Event::End,
                    Opened::Alert(reason) => Event::Alert(reason),
                });
            }
            if bytes.is_empty() {
                return Ok(events);
            }
        }
    }
}
