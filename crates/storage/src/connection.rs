//! One connection of an initiator.
//!
//! ```text
//!  stream ──▶ read: handle_bytes ──▶ events ──▶ a task for each command ──▶ device, volumes
//!  stream ◀── write: poll_transmit ◀─────────── data-in, requests for data-out, completions
//! ```
//!
//! Reading, writing, timers and commands are tasks of one thread that share the protocol's state.
//! Data-in lies where it was read until it is written to the stream.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use iscsi::pdu::{LoginStatus, RejectReason};
use iscsi::target::{CloseReason, LoginInfo, TargetCommand};
use iscsi::{ProtocolError, TargetEvent, Transmit};
use sockets::Client;
use tasuki_tokio::TcpStream;
use tokio::sync::mpsc;

use crate::counters::TargetCounters;
use crate::portal::Portal;
use crate::session::{Ends, RunningTask, Session};
use crate::stream::{StreamProtocol, StreamSignals, begins_tls};
use crate::transport::{Opened, TransportError};
use crate::{command, management, stream};

/// How long the last output may take to leave.
const LAST_OUTPUT: Duration = Duration::from_secs(5);
/// The shortest pause between two looks at the protocol's timers.
const TIMER_PAUSE: Duration = Duration::from_millis(10);

/// Serves a connection until it is over.
pub(crate) async fn serve(
    portal: &Rc<Portal>,
    client: &Arc<Client>,
    stream: TcpStream,
    ends: Ends,
    random: [u8; 64],
) {
    let session = Session::new(portal.shared(), client, ends, random);
    portal.expect_login(&session);
    let opened = tokio::select! {
        opened = portal.transport().accept(client, stream) => Some(opened),
        () = session.dropped.notified() => None,
    };
    match opened {
        Some(Ok(opened)) => converse(portal, &session, opened).await,
        Some(Err(error)) => {
            portal.count_failure(&error);
            tracing::warn!(peer = %ends.peer, %error, "no session: the transport failed");
        }
        None => {}
    }
    portal.forget_login(&session);
    session.end();
    portal.counters.take(session.connection.borrow().counters());
}

/// Serves a protected stream until it is over.
async fn converse(portal: &Rc<Portal>, session: &Rc<Session>, opened: Opened) {
    let (portal, session) = (Rc::clone(portal), Rc::clone(session));
    let connection = Connection { portal, session, is_new: Cell::new(true) };
    let session = &connection.session;
    session.identify(opened.peer, opened.sealed);
    let until = async {
        tokio::select! {
            () = connection.watch() => {}
            () = session.dropped.notified() => {}
        }
    };
    if let Err(error) = stream::run(&connection, opened.reader, opened.writer, until).await {
        let peer = session.ends.peer;
        match error.get_ref().is_some_and(|error| error.is::<TransportError>()) {
            true => tracing::warn!(%peer, %error, "the connection is given up"),
            false => tracing::debug!(%peer, %error, "the connection is lost"),
        }
    }
}

struct Connection {
    portal: Rc<Portal>,
    session: Rc<Session>,
    /// Nothing has come yet.
    is_new: Cell<bool>,
}

impl StreamProtocol for Connection {
    fn signals(&self) -> &StreamSignals {
        &self.session.signals
    }

    fn handle_bytes(&self, input: &mut Bytes) {
        if self.is_new.replace(false) && begins_tls(input) {
            input.clear();
            self.portal.refused(
                &self.session,
                "it speaks sealed or TLS, and the portal is plain: say iscsi://",
            );
            return self.session.end();
        }
        self.session.connection.borrow_mut().handle_bytes(self.session.now(), input);
        self.handle_events();
    }

    fn poll_transmit(&self) -> Option<Transmit> {
        self.session.connection.borrow_mut().poll_transmit()
    }

    fn is_over(&self) -> bool {
        self.session.closed.get()
    }
}

impl Connection {
    /// Timers of the protocol.
    async fn watch(&self) {
        while !self.session.closed.get() {
            let due = self.session.connection.borrow().next_timeout();
            let pause = due.map_or(LAST_OUTPUT, |due| due.saturating_sub(self.session.now()));
            tokio::time::sleep(pause.max(TIMER_PAUSE)).await;
            self.session.connection.borrow_mut().handle_timeout(self.session.now());
            self.handle_events();
            self.session.signals.output.notify_one();
        }
        // The peer may not read what is left.
        tokio::time::sleep(LAST_OUTPUT).await;
    }

    fn handle_events(&self) {
        loop {
            let event = self.session.connection.borrow_mut().poll_event();
            let Some(event) = event else { return };
            self.handle(event);
        }
    }

    fn handle(&self, event: TargetEvent) {
        match event {
            TargetEvent::Login(info) => {
                let answer = self.portal.judge(&self.session, &info);
                let _ = self.session.connection.borrow_mut().answer_login(answer);
            }
            TargetEvent::SessionReady(info) => self.begin(&info),
            TargetEvent::Command(command) => self.start(command),
            TargetEvent::DataOut { task, offset, data } => {
                if let Some(running) = self.session.tasks.borrow().get(&task) {
                    let _ = running.data.send((offset, data));
                }
            }
            TargetEvent::TaskFailed(task) => self.session.forget(task),
            TargetEvent::TaskManagement { request, function, lun, task } => {
                management::manage(&self.session, request, function, lun, task);
            }
            TargetEvent::SendTargets { request, scope } => {
                let records = self.portal.records(&scope, self.session.ends.local);
                let _ = self.session.connection.borrow_mut().answer_send_targets(request, &records);
            }
            TargetEvent::Logout(_) => self.session.forget_all(),
            TargetEvent::Closed(reason) => self.closed_by(&reason),
            TargetEvent::Rejected { reason: RejectReason::DataDigestError, .. } => {
                let peer = self.session.ends.peer;
                tracing::warn!(%peer, "data came damaged: its digest is wrong; it is refused");
            }
            TargetEvent::Rejected { opcode, .. } => {
                tracing::debug!(peer = %self.session.ends.peer, opcode, "rejected a PDU");
            }
            TargetEvent::LoggedIn(parameters) => {
                let (header, data) = (parameters.header_digest, parameters.data_digest);
                let peer = self.session.ends.peer;
                tracing::debug!(%peer, header_digest = header, data_digest = data, "logged in");
            }
            TargetEvent::Pong => {}
        }
    }

    /// A session begins. One of the same initiator port ends before (RFC 7143 6.3.5).
    fn begin(&self, info: &LoginInfo) {
        let name = (info.initiator.as_str().to_owned(), info.isid);
        if info.target.is_none() {
            let tsih = self.session.device.next_tsih();
            let _ = self.session.connection.borrow_mut().accept_session(self.session.now(), tsih);
            return;
        }
        let old = self.session.table.borrow_mut().remove(&name);
        if let Some(old) = old {
            if !old.is_of(info.user.as_deref(), &self.session) {
                // The name and the ISID alone are no proof.
                self.session.table.borrow_mut().insert(name, old);
                self.portal.refused(&self.session, "another user has the session that it names");
                let status = LoginStatus::AuthorizationFailure;
                let _ = self.session.connection.borrow_mut().refuse_session(status);
                return;
            }
            let peer = self.session.ends.peer;
            tracing::info!(%peer, initiator = name.0, "the session is reinstated");
            TargetCounters::count(&self.portal.counters.reinstated);
            old.end();
        }
        let rights = self.portal.rights(&self.session, info);
        match self.session.device.add_nexus(&name.0, info.isid.0, rights) {
            Ok(nexus) => {
                self.session.enter(name, info.user.clone(), nexus);
                self.portal.forget_login(&self.session);
                TargetCounters::count(&self.portal.counters.logins);
                let tsih = self.session.device.next_tsih();
                let _ =
                    self.session.connection.borrow_mut().accept_session(self.session.now(), tsih);
            }
            Err(error) => {
                tracing::warn!(%error, peer = %self.session.ends.peer, "refused a session");
                let status = LoginStatus::OutOfResources;
                let _ = self.session.connection.borrow_mut().refuse_session(status);
            }
        }
    }

    fn closed_by(&self, reason: &CloseReason) {
        match reason {
            CloseReason::Logout => {}
            // Its reason was told where it was decided.
            CloseReason::LoginRefused(_) => {}
            CloseReason::LoginTimeout => {
                TargetCounters::count(&self.portal.counters.dropped);
                tracing::warn!(peer = %self.session.ends.peer, "dropped: its login takes too long");
            }
            CloseReason::Peer(ProtocolError::Authentication(why)) => {
                self.portal.refused(&self.session, why);
            }
            reason => {
                let peer = self.session.ends.peer;
                tracing::warn!(%peer, "the connection is closed: {reason}");
            }
        }
        self.session.closed.set(true);
        self.session.forget_all();
    }

    /// Begins a command, in the order of its coming.
    fn start(&self, received: TargetCommand) {
        let (id, lun) = (received.task, received.lun);
        let (data, parts) = mpsc::unbounded_channel();
        self.session.tasks.borrow_mut().insert(id, RunningTask { lun, abort: None, data });
        let Some(run) = command::begin(&self.session, received, parts) else { return };
        let handle = tokio::task::spawn_local(run);
        if let Some(running) = self.session.tasks.borrow_mut().get_mut(&id) {
            running.abort = Some(handle.abort_handle());
        }
    }
}
