use super::*;
use crate::error::ProtocolError;
use crate::pdu::{Isid, LoginRequest, LoginResponse, LoginStatus, Stage};
use crate::secret::ChapSecret;
use crate::serial::SerialNumber;
use crate::settings::{
    ChapAccount, ChapAlgorithm, ChapDemand, ChapPolicy, DigestPreference, KeySettings,
    SessionParameters,
};
use crate::text;

const ISID: Isid = Isid([0x80, 1, 2, 3, 4, 5]);
const ALL: [ChapAlgorithm; 3] =
    [ChapAlgorithm::Sha3_256, ChapAlgorithm::Sha256, ChapAlgorithm::Md5];

fn account(name: &str, secret: &str) -> ChapAccount {
    ChapAccount { name: name.to_owned(), secret: ChapSecret::new(secret.as_bytes()) }
}

fn policy(algorithms: &[ChapAlgorithm], mutual: bool) -> ChapPolicy {
    ChapPolicy {
        initiator: account("alice", "correct horse battery"),
        target: mutual.then(|| account("disks", "staple of another kind")),
        algorithms: algorithms.to_vec(),
    }
}

fn wishes(stages: LoginStages, chap: Option<ChapPolicy>) -> InitiatorWishes {
    let name = |text: &str| text.parse().expect("a name");
    InitiatorWishes {
        name: name("iqn.2001-04.com.example:alice"),
        alias: Some("alice's".to_owned()),
        target: Some(name("iqn.2001-04.com.example:disks")),
        isid: ISID,
        stages,
        keys: KeySettings { header_digest: DigestPreference::Prefer, ..KeySettings::default() },
        chap,
    }
}

fn target() -> TargetLogin {
    TargetLogin::new(KeySettings::default(), 7, &[3; 33])
}

fn allow(chap: Option<ChapPolicy>) -> LoginAnswer {
    LoginAnswer::Allow { chap: chap.map(Into::into), alias: Some("the disks".to_owned()) }
}

fn request(current: Stage, transit: Option<Stage>, more: bool) -> LoginRequest {
    LoginRequest {
        transit: transit.is_some(),
        more,
        current,
        next: transit.unwrap_or(current),
        version_max: 0,
        version_min: 0,
        isid: ISID,
        tsih: 0,
        task_tag: 1,
        cid: 0,
        cmd_sn: SerialNumber::new(1),
        exp_stat_sn: SerialNumber::new(1),
    }
}

fn response(current: Stage, transit: Option<Stage>) -> LoginResponse {
    let number = SerialNumber::new(1);
    LoginResponse {
        transit: transit.is_some(),
        more: false,
        current,
        next: transit.unwrap_or(current),
        version_max: 0,
        version_active: 0,
        isid: ISID,
        tsih: if transit == Some(Stage::FullFeature) { 9 } else { 0 },
        task_tag: 1,
        stat_sn: number,
        exp_cmd_sn: number,
        max_cmd_sn: number,
        status: LoginStatus::Success,
    }
}

/// Why a login of both ends failed.
#[derive(Debug, PartialEq)]
enum Failure {
    Target(LoginRefusal),
    Initiator(ProtocolError),
}

/// What both ends have after a login, and the texts of each request and response.
struct Outcome {
    initiator: InitiatorLogin,
    target: TargetLogin,
    texts: Vec<String>,
}

fn log_in(wishes: InitiatorWishes, answer: &LoginAnswer) -> Result<Outcome, Failure> {
    let mut initiator = InitiatorLogin::new(wishes, &[5; 33]);
    let mut target = target();
    let mut texts = Vec::new();
    let mut step = initiator.start();
    for _ in 0..20 {
        let InitiatorStep::Request { current, transit, text } = step else { break };
        texts.push(String::from_utf8(text.clone()).expect("text"));
        let asked = target.handle(&request(current, transit, false), &text);
        let given = match asked.map_err(Failure::Target)? {
            TargetStep::Ask(info) => {
                assert_eq!(target.info(), Some(&info));
                target.answer(answer.clone()).expect("asked").map_err(Failure::Target)?
            }
            given => given,
        };
        let (current, transit, text) = match given {
            TargetStep::Respond { current, transit, text } => (current, transit, text),
            TargetStep::Ready { current, text } => (current, Some(Stage::FullFeature), text),
            TargetStep::Ask(_) => panic!("asked twice"),
        };
        texts.push(String::from_utf8(text.clone()).expect("text"));
        let taken = initiator.handle(&response(current, transit), &text);
        step = taken.map_err(Failure::Initiator)?;
        if step == (InitiatorStep::Done { tsih: 9 }) {
            return Ok(Outcome { initiator, target, texts });
        }
    }
    panic!("the login does not end: {texts:?}");
}

#[test]
fn logins_succeed_in_every_combination_of_stages_and_proofs() {
    let stages = [LoginStages::Both, LoginStages::Operational, LoginStages::Security];
    let proofs = [None, Some(policy(&ALL, false)), Some(policy(&ALL, true))];
    for stages in stages {
        for (offered, ours) in proofs.iter().enumerate() {
            for (wanted, theirs) in proofs.iter().enumerate() {
                for session in ["normal", "discovery"] {
                    let mut wishes = wishes(stages, ours.clone());
                    if session == "discovery" {
                        wishes.target = None;
                    }
                    let outcome = log_in(wishes, &allow(theirs.clone()));
                    let secure = stages != LoginStages::Operational;
                    let expected = match (offered, wanted) {
                        (0 | 1, 0) => true,
                        // An initiator that wants a proof gets one; a target proves itself only if
                        // it can.
                        (2, 0) => !secure,
                        (1, 1 | 2) | (2, 2) => secure,
                        _ => false,
                    };
                    let place = format!("{stages:?} {offered} {wanted} {session}");
                    assert_eq!(outcome.is_ok(), expected, "{place}: {:?}", outcome.err());
                    let Ok(outcome) = outcome else { continue };
                    let (a, b) = (outcome.initiator.agreed(), outcome.target.agreed());
                    assert_eq!(a.header_digest, stages != LoginStages::Security, "{place}");
                    assert_eq!((a.send_limit, a.max_burst), (b.receive_limit, b.max_burst));
                    if session == "normal" {
                        assert_eq!(outcome.initiator.portal_group(), Some(7));
                        assert_eq!(outcome.initiator.alias().map(|a| &a[..]), Some("the disks"));
                    }
                    if stages == LoginStages::Security {
                        assert_eq!(a, SessionParameters::default());
                    }
                }
            }
        }
    }
}

#[test]
fn the_first_algorithm_of_the_initiator_that_the_target_allows_is_used() {
    use ChapAlgorithm::{Md5, Sha3_256, Sha256};
    for (offered, allowed, chosen) in [
        (&[Md5, Sha256][..], &[Sha256, Sha3_256][..], Some("CHAP_A=7")),
        (&[Md5, Sha256], &[Sha256, Md5], Some("CHAP_A=5")),
        (&[Sha3_256], &[Sha256, Sha3_256], Some("CHAP_A=8")),
        (&[Md5], &[Sha256], None),
    ] {
        let wishes = wishes(LoginStages::Both, Some(policy(offered, true)));
        let outcome = log_in(wishes, &allow(Some(policy(allowed, true))));
        let text = outcome.map(|outcome| outcome.texts.concat());
        match chosen {
            Some(chosen) => assert!(text.is_ok_and(|text| text.contains(chosen))),
            None => assert!(text.is_err()),
        }
    }
}

fn status(outcome: Result<Outcome, Failure>) -> Option<LoginStatus> {
    match outcome {
        Err(Failure::Target(refusal)) => Some(refusal.status),
        _ => None,
    }
}

#[test]
fn wrong_secrets_and_names_are_refused() {
    let mut wrong_secret = policy(&ALL, false);
    wrong_secret.initiator.secret = ChapSecret::new(b"incorrect horse");
    let mut wrong_name = policy(&ALL, false);
    wrong_name.initiator.name = "mallory".to_owned();
    for chap in [wrong_secret, wrong_name] {
        let outcome =
            log_in(wishes(LoginStages::Both, Some(chap)), &allow(Some(policy(&ALL, false))));
        assert_eq!(status(outcome), Some(LoginStatus::AuthenticationFailure));
    }
    // A target that does not know its own secret.
    let mut impostor = policy(&ALL, true);
    impostor.target = Some(account("disks", "guessed"));
    let wishes = wishes(LoginStages::Both, Some(policy(&ALL, true)));
    let outcome = log_in(wishes, &allow(Some(impostor)));
    let Err(Failure::Initiator(ProtocolError::Authentication(_))) = outcome else {
        panic!("an impostor was taken");
    };
}

/// Two users of one target: each has a secret of its own, and the shell learns who it was.
#[test]
fn each_user_has_a_secret() {
    let mut demand = ChapDemand::from(policy(&ALL, true));
    demand.accounts.push(account("bob", "another dozen bytes"));
    let answer = LoginAnswer::Allow { chap: Some(demand), alias: None };
    let outcome = |name: &str, secret: &str| {
        let policy = ChapPolicy { initiator: account(name, secret), ..policy(&ALL, true) };
        log_in(wishes(LoginStages::Both, Some(policy)), &answer)
    };
    for (name, secret) in [("alice", "correct horse battery"), ("bob", "another dozen bytes")] {
        let outcome = outcome(name, secret).unwrap_or_else(|failure| panic!("{failure:?}"));
        assert_eq!(outcome.target.info().and_then(|info| info.user.as_deref()), Some(name));
    }
    // Each way to be wrong is answered alike, that of a name that nobody has too.
    let wrong = |name, secret| outcome(name, secret).err().expect("a refusal");
    let first = wrong("alice", "another dozen bytes");
    assert_eq!(first, wrong("bob", "correct horse battery"));
    assert_eq!(first, wrong("carol", "correct horse battery"));
    assert_eq!(first, wrong("", "another dozen bytes"));
    // What an unknown user is compared with is no secret: it is the challenge.
    let known = ChapSecret::new(&[3; 32]);
    let response = crate::chap::respond(ChapAlgorithm::Sha256, 3, &known, &[3; 32]);
    let proof = format!("CHAP_N=carol\0CHAP_R={}\0", text::hex(&response));
    assert!(talk(&[NAMES, "CHAP_A=7\0", &proof]).is_err());
}

/// An initiator that knows the target's secret need not know its name.
#[test]
fn a_target_without_expected_name_is_known_by_its_secret() {
    let mut ours = policy(&ALL, true);
    ours.target.as_mut().expect("mutual").name.clear();
    let theirs = allow(Some(policy(&ALL, true)));
    assert!(log_in(wishes(LoginStages::Both, Some(ours.clone())), &theirs).is_ok());
    ours.target = Some(account("", "guessed"));
    assert!(log_in(wishes(LoginStages::Both, Some(ours)), &theirs).is_err());
}

/// What proved a user once proves nothing in another login.
#[test]
fn a_response_is_for_one_challenge() {
    let secret = ChapSecret::new(b"correct horse battery");
    for challenge in [[3; 32], [4; 32]] {
        let response = crate::chap::respond(ChapAlgorithm::Sha256, 3, &secret, &challenge);
        let proof = format!("CHAP_N=alice\0CHAP_R={}\0", text::hex(&response));
        let taken = talk(&[NAMES, "CHAP_A=7\0", &proof]);
        assert_eq!(taken.is_ok(), challenge == [3; 32], "the target's random bytes are 3");
    }
}

#[test]
fn equal_secrets_of_both_ends_are_refused() {
    let mut same = policy(&ALL, true);
    same.target = Some(account("disks", "correct horse battery"));
    let outcome = log_in(wishes(LoginStages::Both, Some(policy(&ALL, true))), &allow(Some(same)));
    assert_eq!(status(outcome), Some(LoginStatus::TargetError));
}

/// Sends texts to a target that asks for CHAP, up to the last one's answer.
fn talk(texts: &[&str]) -> Result<TargetStep, LoginRefusal> {
    let mut target = target();
    let mut last = None;
    for text in texts {
        let asked = target.handle(&request(Stage::Security, None, false), text.as_bytes())?;
        last = Some(match asked {
            TargetStep::Ask(_) => target.answer(allow(Some(policy(&ALL, true)))).expect("asked")?,
            step => step,
        });
    }
    Ok(last.expect("at least one text"))
}

const NAMES: &str = "InitiatorName=iqn.2001-04.com.example:alice\0\
                     TargetName=iqn.2001-04.com.example:disks\0AuthMethod=CHAP\0";

#[test]
fn a_reflected_challenge_is_refused() {
    // The target's challenge is its random bytes.
    let challenge = text::hex(&[3; 32]);
    let secret = ChapSecret::new(b"correct horse battery");
    let response = crate::chap::respond(ChapAlgorithm::Sha256, 3, &secret, &[3; 32]);
    let proof = format!("CHAP_N=alice\0CHAP_R={}\0", text::hex(&response));
    assert!(talk(&[NAMES, "CHAP_A=7\0", &proof]).is_ok());
    let reflected = format!("{proof}CHAP_I=9\0CHAP_C={challenge}\0");
    let refusal = talk(&[NAMES, "CHAP_A=7\0", &reflected]).expect_err("a reflection");
    assert_eq!(refusal.status, LoginStatus::AuthenticationFailure);
    // In base64 as well; and too short to be one.
    let in_base64 = format!("{proof}CHAP_I=9\0CHAP_C=0b{}\0", "AwMD".repeat(10) + "AwM=");
    assert!(talk(&[NAMES, "CHAP_A=7\0", &in_base64]).is_err());
    assert!(talk(&[NAMES, "CHAP_A=7\0", &format!("{proof}CHAP_I=9\0CHAP_C=0x01\0")]).is_err());
    let fresh = format!("{proof}CHAP_I=9\0CHAP_C=0x0102030405060708\0");
    assert!(talk(&[NAMES, "CHAP_A=7\0", &fresh]).is_ok());
}

/// What libiscsi's tests send: test_iscsi_chap.c and test_iscsi_chap_base64.c.
#[test]
fn lists_of_algorithms_are_read_as_a_whole() {
    assert!(talk(&[NAMES, "CHAP_A=5,6,7,8\0"]).is_ok());
    for list in ["CHAP_A=56\0", "CHAP_A=\0", "CHAP_A=6\0", "CHAP_N=alice\0", ""] {
        assert!(talk(&[NAMES, list]).is_err(), "{list:?}");
    }
    let secret = ChapSecret::new(b"correct horse battery");
    let response = crate::chap::respond(ChapAlgorithm::Md5, 3, &secret, &[3; 32]);
    use base64ct::{Base64, Encoding};
    let base64 = Base64::encode_string(&response);
    assert!(talk(&[NAMES, "CHAP_A=5\0", &format!("CHAP_N=alice\0CHAP_R=0b{base64}\0")]).is_ok());
    let oversize = format!("CHAP_N=alice\0CHAP_R=0bb3ZlcnNpemUK{base64}\0");
    assert!(talk(&[NAMES, "CHAP_A=5\0", &oversize]).is_err());
}

#[test]
fn rules_of_stages_are_kept() {
    let names = NAMES.as_bytes();
    let check = |requests: &[LoginRequest]| {
        let mut target = target();
        let mut result = Ok(());
        for (number, request) in requests.iter().enumerate() {
            let text = if number == 0 { names } else { b"" };
            result = target.handle(request, text).map(|_| ()).map_err(|refusal| refusal.status);
            if result.is_ok() && target.info().is_some() && number == 0 {
                let open =
                    LoginAnswer::Allow { chap: Some(policy(&ALL, false).into()), alias: None };
                drop(target.answer(open));
            }
        }
        result
    };
    let wrong = Err(LoginStatus::InitiatorError);
    let security = request(Stage::Security, None, false);
    assert_eq!(check(&[security]), Ok(()));
    let full = request(Stage::FullFeature, None, false);
    assert_eq!(check(&[full]), wrong);
    let same = request(Stage::Operational, Some(Stage::Operational), false);
    assert_eq!(check(&[same]), wrong);
    let back = request(Stage::Operational, Some(Stage::Security), false);
    assert_eq!(check(&[back]), wrong);
    let skipping = request(Stage::Operational, None, false);
    assert_eq!(check(&[security, skipping]), wrong);
    let other = LoginRequest { cid: 5, ..security };
    assert_eq!(check(&[security, other]), wrong);
    let version = LoginRequest { version_min: 1, ..security };
    assert_eq!(check(&[version]), Err(LoginStatus::UnsupportedVersion));
    let session = LoginRequest { tsih: 5, ..security };
    assert_eq!(check(&[session]), Err(LoginStatus::SessionDoesNotExist));
    let mut many = vec![request(Stage::Security, None, true); 65];
    assert_eq!(check(&many), wrong);
    many.pop();
    assert_ne!(check(&many[..3]), wrong);
}

#[test]
fn an_authentication_cannot_be_skipped() {
    let mut target = target();
    let asked = target.handle(&request(Stage::Operational, None, false), NAMES.as_bytes());
    assert!(matches!(asked, Ok(TargetStep::Ask(_))));
    let refusal = target.answer(allow(Some(policy(&ALL, false)))).expect("asked");
    assert_eq!(refusal.expect_err("skipped").status, LoginStatus::AuthenticationFailure);
}

#[test]
fn first_texts_without_names_are_refused() {
    let refusal = |text: &str| {
        let asked = target().handle(&request(Stage::Operational, None, false), text.as_bytes());
        asked.err().map(|refusal| refusal.status)
    };
    let initiator = "InitiatorName=iqn.2001-04.com.example:alice\0";
    for (text, status) in [
        (String::new(), Some(LoginStatus::MissingParameter)),
        (initiator.to_owned(), Some(LoginStatus::MissingParameter)),
        (format!("{initiator}SessionType=Discovery\0"), None),
        (format!("{initiator}SessionType=Other\0"), Some(LoginStatus::SessionTypeNotSupported)),
        (format!("{initiator}TargetName=nothing\0"), Some(LoginStatus::NotFound)),
        ("InitiatorName=nobody\0".to_owned(), Some(LoginStatus::InitiatorError)),
        ("InitiatorName".to_owned(), Some(LoginStatus::InitiatorError)),
    ] {
        assert_eq!(refusal(&text), status, "{text}");
    }
}

#[test]
fn text_of_several_requests_is_one_text() {
    let mut target = target();
    let (first, rest) = NAMES.as_bytes().split_at(30);
    let step = target.handle(&request(Stage::Security, None, true), first);
    let empty = TargetStep::Respond { current: Stage::Security, transit: None, text: vec![] };
    assert_eq!(step, Ok(empty));
    let step = target.handle(&request(Stage::Security, None, false), rest);
    assert!(matches!(step, Ok(TargetStep::Ask(_))));
    let early = target.handle(&request(Stage::Security, None, false), b"");
    assert!(early.is_err(), "a request before the response");
}

#[test]
fn refusals_and_redirections_reach_the_initiator() {
    let mut initiator = InitiatorLogin::new(wishes(LoginStages::Both, None), &[5; 33]);
    initiator.start();
    let mut moved = response(Stage::Security, None);
    moved.status = LoginStatus::TargetMovedPermanently;
    let address = "10.0.0.1:3260,1".to_owned();
    assert_eq!(
        initiator.handle(&moved, b"TargetAddress=10.0.0.1:3260,1\0"),
        Ok(InitiatorStep::Redirected { address, permanent: true })
    );
    moved.status = LoginStatus::NotFound;
    moved.isid = Isid([0; 6]);
    let refused = Ok(InitiatorStep::Refused(LoginStatus::NotFound));
    assert_eq!(initiator.handle(&moved, b""), refused);
    let mut target = target();
    let asked = target.handle(&request(Stage::Security, None, false), NAMES.as_bytes());
    assert!(asked.is_ok());
    let redirect = LoginAnswer::Redirect { address: "a:1".to_owned(), permanent: false };
    let refusal = target.answer(redirect).expect("asked").expect_err("a redirection");
    assert_eq!(refusal.status, LoginStatus::TargetMovedTemporarily);
    assert_eq!((refusal.address.as_deref(), refusal.error), (Some("a:1"), None));
}

/// The requests of libiscsi (lib/login.c): all keys in the first one, T and NSG 3.
#[test]
fn a_login_of_one_request_succeeds() {
    let text = "InitiatorName=iqn.2007-10.com.github:sahlberg:libiscsi:iscsi-test\0\
                TargetName=iqn.2001-04.com.example:disks\0SessionType=Normal\0\
                HeaderDigest=None,CRC32C\0DataDigest=None\0InitialR2T=No\0ImmediateData=Yes\0\
                MaxBurstLength=262144\0FirstBurstLength=262144\0DefaultTime2Wait=2\0\
                DefaultTime2Retain=0\0MaxOutstandingR2T=1\0ErrorRecoveryLevel=0\0IFMarker=No\0\
                OFMarker=No\0MaxConnections=1\0MaxRecvDataSegmentLength=262144\0\
                DataPDUInOrder=Yes\0DataSequenceInOrder=Yes\0";
    let mut target = target();
    let request = request(Stage::Operational, Some(Stage::FullFeature), false);
    assert!(matches!(target.handle(&request, text.as_bytes()), Ok(TargetStep::Ask(_))));
    let step = target.answer(allow(None)).expect("asked").expect("legal");
    let TargetStep::Ready { current: Stage::Operational, text } = step else {
        panic!("{step:?}");
    };
    let text = String::from_utf8(text).expect("text");
    for pair in ["HeaderDigest=None", "MaxBurstLength=262144", "OFMarker=No", "InitialR2T=No"] {
        assert!(text.contains(&format!("{pair}\0")), "{text}");
    }
    assert!(text.starts_with("TargetPortalGroupTag=7\0TargetAlias=the disks\0"));
    let agreed = target.agreed();
    assert_eq!((agreed.first_burst, agreed.send_limit), (262_144, 262_144));
}
