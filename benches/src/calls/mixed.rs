//! Calls of several kinds at once, and work beside them.
//!
//! * An *urgent* call is submitted last behind so many ordinary ones. It has a higher priority, so
//!   the server takes it first of those that it takes together.
//! * Calls *wait*: so many accepts for connections that never come. The time of others shows what
//!   they cost those that do not wait.
//! * The caller *computes* while calls are on their way. Computing takes about as long as the calls
//!   by themselves. What both together take less than one after the other was hidden.

use std::hint::black_box;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde::{Deserialize, Serialize};
use sockets::{CallBatch, Errno, Request, TcpListener, Wait};

use super::measure::{Caller, per_call};
use crate::median::median;

/// Calls that are measured beside calls that wait. A thread has room for 1,024 outstanding calls.
const BESIDE: u32 = 16;
/// The priority of an urgent call.
const URGENT: u8 = 255;
/// Steps of computing between two looks at the clock, to find out how long a step takes.
const STEPS: u64 = 10_000;

/// Figures of so many calls.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct MixedFigure {
    pub(crate) running: bool,
    pub(crate) same_processor: bool,
    pub(crate) count: u32,
    /// From the submission of the last call to its result, nanoseconds.
    pub(crate) ordinary_ns: f64,
    /// The same of an urgent one.
    pub(crate) urgent_ns: f64,
    /// Nanoseconds per call while so many wait.
    pub(crate) beside_waiting_ns: f64,
    /// The part of the calls' time that computing has hidden, 0 to 1.
    pub(crate) hidden: f64,
}

impl Caller {
    /// All of them.
    pub(super) fn mixed(
        &self,
        (running, same_processor): (bool, bool),
        count: u32,
        time: Duration,
    ) -> Result<MixedFigure> {
        Ok(MixedFigure {
            running,
            same_processor,
            count,
            ordinary_ns: self.last_of(count, 0, time)?,
            urgent_ns: self.last_of(count, URGENT, time)?,
            beside_waiting_ns: self.beside_waiting(count, time)?,
            hidden: self.hidden(count, time)?,
        })
    }

    /// The time to the result of the last call of `count`, which has this priority.
    fn last_of(&self, count: u32, priority: u8, time: Duration) -> Result<f64> {
        let mut batch = CallBatch::with_threshold(self.client(), self.threshold())?;
        let (mut requests, mut tickets, mut over) = (Vec::new(), Vec::new(), Vec::new());
        let (mut times, begun) = (Vec::new(), Instant::now());
        while times.len() < 3 || begun.elapsed() < time {
            requests.extend((1..count).map(|_| Request::null()));
            batch.submit_all(&mut requests, &mut tickets)?;
            let began = Instant::now();
            let last = batch.submit(Request::null().priority(priority))?;
            batch.wait(last, Wait::Forever)?;
            times.push(began.elapsed().as_secs_f64() * 1e9);
            batch.collect(count - 1, Wait::Forever, &mut over)?;
            over.clear();
            tickets.clear();
        }
        Ok(median(times).unwrap_or(f64::NAN))
    }

    fn beside_waiting(&self, count: u32, time: Duration) -> Result<f64> {
        let listener = TcpListener::bind_via(self.client(), (Ipv4Addr::LOCALHOST, 0))?;
        let mut waiting = CallBatch::with_threshold(self.client(), self.threshold())?;
        for _ in 0..count {
            waiting.submit(Request::accept(listener.as_socket()))?;
        }
        waiting.flush();
        let mut batch = CallBatch::with_threshold(self.client(), self.threshold())?;
        let found = per_call(BESIDE, time, || nulls(&mut batch, BESIDE, || {}));
        // They are cancelled with their batch.
        drop(waiting);
        Ok(found?)
    }

    fn hidden(&self, count: u32, time: Duration) -> Result<f64> {
        let mut batch = CallBatch::with_threshold(self.client(), self.threshold())?;
        let third = time / 3;
        let calls = per_call(1, third, || nulls(&mut batch, count, || {}))?;
        let step = per_call(STEPS as u32, third, || {
            compute(STEPS);
            Ok::<_, Errno>(())
        })?;
        let steps = (calls / step).max(1.0) as u64;
        let computing = per_call(1, third, || {
            compute(steps);
            Ok::<_, Errno>(())
        })?;
        let both = per_call(1, third, || nulls(&mut batch, count, || compute(steps)))?;
        Ok(((calls + computing - both) / calls).clamp(0.0, 1.0))
    }
}

/// Submits so many calls, does something else, and takes the results.
fn nulls(batch: &mut CallBatch<'_>, count: u32, meanwhile: impl FnOnce()) -> Result<(), Errno> {
    let mut requests: Vec<Request> = (0..count).map(|_| Request::null()).collect();
    let (mut tickets, mut over) = (Vec::new(), Vec::new());
    batch.submit_all(&mut requests, &mut tickets)?;
    batch.flush();
    meanwhile();
    batch.collect(count, Wait::Forever, &mut over)?;
    let failed = over.iter().find_map(|it| it.result.as_ref().err());
    failed.map_or(Ok(()), |errno| Err(*errno))
}

/// Work that needs nobody else.
fn compute(steps: u64) {
    let mut number = black_box(1_u64);
    for _ in 0..steps {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    }
    black_box(number);
}

/// The figures as Markdown.
pub(super) fn table(figures: &[MixedFigure]) -> String {
    let mut text = "\n| server | calls | last, ordinary, ns | last, urgent, ns \
                    | ns per call while so many wait | hidden |\n"
        .to_owned();
    text += "|---|---:|---:|---:|---:|---:|\n";
    for figure in figures {
        let MixedFigure { running, same_processor, count, ordinary_ns, urgent_ns, .. } = figure;
        let server = if *running { "running" } else { "sleeping" };
        let place = if *same_processor { "same" } else { "another" };
        let (waiting, hidden) = (figure.beside_waiting_ns, 100.0 * figure.hidden);
        text += &format!(
            "| {server}, {place} processor | {count} | {ordinary_ns:.0} | {urgent_ns:.0} \
             | {waiting:.0} | {hidden:.0} % |\n"
        );
    }
    text
}
