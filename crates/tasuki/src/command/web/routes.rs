//! Requests and their answers.
//!
//! | address | answer |
//! |---|---|
//! | `/` | the page; with `?token=`, a cookie and an address without it |
//! | `/api/snapshot` | the state of the instance, as JSON |
//! | `/api/events` | the same again and again, as server-sent events |
//! | `/api/sockets?from=N` | a page of the sockets |
//! | `/api/recording?seconds=S` | frames, marks and the time of each stage |
//! | `/api/counters` | names and meanings of the counters, by layer |
//! | `/metrics` | all counters, for Prometheus |
//!
//! The checks come first, in this order: site (421, 403), method (405), token (401), address (404),
//! its words (400). An error is one sentence.

use std::cell::Cell;
use std::convert::Infallible;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::channel::Channel;
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};

use super::access::{Access, Refused};
use super::page::WebPage;
use super::recording::{Recorder, Wanted};
use super::stream::stream;
use super::watcher::{NoAnswer, Question, Watched};
use crate::command::stats;
use crate::exit::{Code, Failure};
use crate::runtime_dir::InstanceName;

/// Viewers at a time.
const MOST_VIEWERS: usize = 16;
/// For an answer of the instance.
const PATIENCE: Duration = Duration::from_secs(10);

/// An answer's body: whole, or a stream.
pub(super) type Body = Either<Full<Bytes>, Channel<Bytes, Infallible>>;

const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";
const HTML: &str = "text/html; charset=utf-8";
const EVENTS: &str = "text/event-stream";
/// Version 0.0.4 of the text format.
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Headers of every answer: nothing is kept, guessed, framed, or told to another site.
const ALWAYS: [(HeaderName, &str); 5] = [
    (header::CACHE_CONTROL, "no-store"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];

/// The policy of answers that are no page.
const NOTHING: &str = "default-src 'none'; frame-ancestors 'none'";

/// All that answers need.
#[derive(Clone)]
pub(super) struct Site(Rc<SiteParts>);

struct SiteParts {
    access: Access,
    watched: Watched,
    recorder: Recorder,
    name: InstanceName,
    page: WebPage,
    counters: Bytes,
}

/// An answer that is an error.
struct ErrorAnswer(StatusCode, String);

impl From<Refused> for ErrorAnswer {
    fn from(refused: Refused) -> Self {
        let (status, sentence) = match refused {
            Refused::NoHost => {
                (StatusCode::BAD_REQUEST, "the request does not say Host, or says it twice")
            }
            Refused::ForeignHost => (
                StatusCode::MISDIRECTED_REQUEST,
                "this page has no name: open it by an address or as localhost",
            ),
            Refused::ForeignOrigin => (StatusCode::FORBIDDEN, "another site's page asks for this"),
            Refused::NoToken => (
                StatusCode::UNAUTHORIZED,
                "the token is missing or wrong: open the address that `tasuki web` has printed",
            ),
        };
        Self(status, sentence.to_owned())
    }
}

impl From<NoAnswer> for ErrorAnswer {
    fn from(none: NoAnswer) -> Self {
        match none {
            NoAnswer::Busy => Self(
                StatusCode::SERVICE_UNAVAILABLE,
                "too many questions at a time: try again".to_owned(),
            ),
            NoAnswer::Gone => Self(
                StatusCode::INTERNAL_SERVER_ERROR,
                "the thread that asks the instance has failed: start `tasuki web` anew".to_owned(),
            ),
            NoAnswer::Failed(failure) => failure.into(),
        }
    }
}

impl From<Failure> for ErrorAnswer {
    fn from(failure: Failure) -> Self {
        let status = match failure.code {
            Code::NoInstance => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::BAD_GATEWAY,
        };
        Self(status, failure.sentence)
    }
}

impl Site {
    /// With these.
    pub(super) fn new(access: Access, watched: Watched, name: InstanceName) -> Self {
        let counters = stats::meanings().to_string().into();
        let (recorder, page) = (Recorder::default(), WebPage::new());
        Self(Rc::new(SiteParts { access, watched, recorder, name, page, counters }))
    }

    /// Answers a request. `has_token` becomes true when it has shown the token.
    pub(super) async fn answer(
        &self,
        request: &Request<Incoming>,
        has_token: &Cell<bool>,
    ) -> Response<Body> {
        let (method, headers) = (request.method(), request.headers());
        let (path, query) = (request.uri().path(), request.uri().query());
        tracing::debug!(%method, path, "request");
        match self.route(method, headers, (path, query), has_token).await {
            Ok(response) => response,
            Err(ErrorAnswer(status, sentence)) => {
                error(status, &sentence, path.starts_with("/api/"))
            }
        }
    }

    async fn route(
        &self,
        method: &Method,
        headers: &HeaderMap,
        (path, query): (&str, Option<&str>),
        has_token: &Cell<bool>,
    ) -> Result<Response<Body>, ErrorAnswer> {
        let site = &self.0;
        site.access.check_site(headers)?;
        if method != Method::GET && method != Method::HEAD {
            let sentence = "the page only reads: GET and HEAD are all that it takes";
            return Err(ErrorAnswer(StatusCode::METHOD_NOT_ALLOWED, sentence.to_owned()));
        }
        if path == "/"
            && let Some(right) = site.access.check_query(query)
        {
            right?;
            has_token.set(true);
            return Ok(self.log_in());
        }
        site.access.check_token(headers)?;
        has_token.set(true);
        match path {
            "/" => Ok(whole(HTML, site.page.html.clone(), &site.page.policy)),
            "/api/snapshot" => self.ask(Question::Snapshot, JSON).await,
            "/api/sockets" => self.ask(Question::Sockets { from: first(query)? }, JSON).await,
            "/api/counters" => Ok(whole(JSON, site.counters.clone(), NOTHING)),
            "/metrics" => self.ask(Question::Metrics, METRICS).await,
            // A stream that nobody reads would only count as a viewer.
            "/api/events" if method == Method::HEAD => Ok(whole(EVENTS, Bytes::new(), NOTHING)),
            "/api/events" => self.events(),
            "/api/recording" if method == Method::HEAD => Ok(whole(JSON, Bytes::new(), NOTHING)),
            "/api/recording" => self.record(query).await,
            _ => {
                let sentence = "there is nothing here: see docs/reference/web.md";
                Err(ErrorAnswer(StatusCode::NOT_FOUND, sentence.to_owned()))
            }
        }
    }

    /// Puts the token into a cookie, and leads to the address without it.
    fn log_in(&self) -> Response<Body> {
        let mut response = whole(TEXT, Bytes::from_static(b"see /\n"), NOTHING);
        *response.status_mut() = StatusCode::SEE_OTHER;
        let headers = response.headers_mut();
        headers.insert(header::LOCATION, HeaderValue::from_static("/"));
        // A token has only characters that a header may have.
        if let Ok(mut cookie) = HeaderValue::from_str(&self.0.access.cookie()) {
            cookie.set_sensitive(true);
            headers.insert(header::SET_COOKIE, cookie);
        }
        response
    }

    async fn ask(&self, question: Question, kind: &str) -> Result<Response<Body>, ErrorAnswer> {
        let asked = tokio::time::timeout(PATIENCE, self.0.watched.ask(question)).await;
        let late = |_| {
            let sentence = "the instance does not answer".to_owned();
            ErrorAnswer(StatusCode::GATEWAY_TIMEOUT, sentence)
        };
        Ok(whole(kind, asked.map_err(late)??, NOTHING))
    }

    fn events(&self) -> Result<Response<Body>, ErrorAnswer> {
        let viewer = self.0.watched.view(MOST_VIEWERS).ok_or_else(|| {
            let sentence = format!("{MOST_VIEWERS} pages look already: close one of them first");
            ErrorAnswer(StatusCode::SERVICE_UNAVAILABLE, sentence)
        })?;
        Ok(response(EVENTS, Either::Right(stream(viewer)), NOTHING))
    }

    async fn record(&self, query: Option<&str>) -> Result<Response<Body>, ErrorAnswer> {
        let wanted = Wanted::parse(query);
        let wanted = wanted.map_err(|why| ErrorAnswer(StatusCode::BAD_REQUEST, why))?;
        let turn = self.0.recorder.turn().ok_or_else(|| {
            let sentence = "another recording is under way: try again when it has ended";
            ErrorAnswer(StatusCode::SERVICE_UNAVAILABLE, sentence.to_owned())
        })?;
        let name = self.0.name.clone();
        let recording = tokio::task::spawn_blocking(move || turn.record(&name, &wanted));
        let json = recording.await.map_err(|_| NoAnswer::Gone)??;
        Ok(whole(JSON, json.into(), NOTHING))
    }

    /// Stops a recording, and waits for it.
    pub(super) async fn stop_recording(&self, patience: Duration) {
        let since = Instant::now();
        while self.0.recorder.stop() && since.elapsed() < patience {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// `from=N`, or nothing.
fn first(query: Option<&str>) -> Result<usize, ErrorAnswer> {
    let wrong = || {
        let sentence = "sockets has from only, a number";
        ErrorAnswer(StatusCode::BAD_REQUEST, sentence.to_owned())
    };
    match query.unwrap_or("") {
        "" => Ok(0),
        text => text.strip_prefix("from=").and_then(|it| it.parse().ok()).ok_or_else(wrong),
    }
}

fn whole(kind: &str, body: Bytes, policy: &str) -> Response<Body> {
    response(kind, Either::Left(Full::new(body)), policy)
}

fn response(kind: &str, body: Body, policy: &str) -> Response<Body> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    for (name, value) in ALWAYS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    for (name, value) in [(header::CONTENT_TYPE, kind), (header::CONTENT_SECURITY_POLICY, policy)] {
        // Both are texts of this program.
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(name, value);
        }
    }
    response
}

/// An error as a sentence; below /api/ as JSON.
fn error(status: StatusCode, sentence: &str, is_api: bool) -> Response<Body> {
    let (kind, text) = match is_api {
        true => (JSON, serde_json::json!({ "error": sentence }).to_string()),
        false => (TEXT, format!("{sentence}\n")),
    };
    let mut response = whole(kind, text.into(), NOTHING);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    let also = match status {
        StatusCode::METHOD_NOT_ALLOWED => Some((header::ALLOW, "GET, HEAD")),
        StatusCode::UNAUTHORIZED => Some((header::WWW_AUTHENTICATE, "Bearer")),
        StatusCode::SERVICE_UNAVAILABLE => Some((header::RETRY_AFTER, "2")),
        _ => None,
    };
    if let Some((name, value)) = also {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_sockets() {
        let at = |query| first(query).map_err(|ErrorAnswer(status, _)| status.as_u16());
        assert_eq!((at(None), at(Some("")), at(Some("from=256"))), (Ok(0), Ok(0), Ok(256)));
        for wrong in ["from=", "from=-1", "from=x", "x=1", "from=1&from=2"] {
            assert_eq!(at(Some(wrong)), Err(400), "{wrong}");
        }
    }

    #[test]
    fn errors_are_sentences_with_the_right_headers() {
        for (refused, status) in [
            (Refused::NoHost, 400),
            (Refused::ForeignHost, 421),
            (Refused::ForeignOrigin, 403),
            (Refused::NoToken, 401),
        ] {
            let ErrorAnswer(code, sentence) = refused.into();
            assert_eq!(code.as_u16(), status);
            let response = error(code, &sentence, true);
            assert_eq!(response.headers()[header::CONTENT_TYPE], JSON);
            assert_eq!(response.headers()[header::CACHE_CONTROL], "no-store");
        }
        let response = error(StatusCode::METHOD_NOT_ALLOWED, "x", false);
        assert_eq!(response.headers()[header::ALLOW], "GET, HEAD");
    }
}
