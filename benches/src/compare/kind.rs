//! The set-ups of one kind and role: what the engine of the lab measures together, in turn.
//!
//! Each round has hosts of its own, the first one those of the warm-up. So a place in memory that
//! favours one build does so in one round only. Hosts end in the order of the round, since an
//! instance that begins first is slower more often.

use anyhow::{Context as _, Result};
use lab::Figure;

use super::measures::{plans, series, values, word};
use super::plan::{Plan, measure};
use crate::args::CompareArgs;
use crate::hosts::Programs;
use crate::lab::experiment::{FigurePlan, LabExperiment, MeasuredValues};
use crate::late_host::LateHost;
use crate::row::Row;
use crate::setup::{Role, Setup};

/// A set-up with one build of Tasuki.
struct ComparedSetup<'a> {
    programs: &'a Programs,
    /// Of this round.
    host: LateHost,
}

/// See the module.
pub(super) struct ComparedKind<'a> {
    args: &'a CompareArgs,
    kind: Setup,
    role: Role,
    plans: Vec<&'static Plan>,
    members: Vec<ComparedSetup<'a>>,
    /// `None`: what is measured is to warm up.
    round: Option<u32>,
    rows: Vec<Row>,
}

impl<'a> ComparedKind<'a> {
    /// Those set-ups with these builds, by these plans.
    pub(super) fn new(
        args: &'a CompareArgs,
        (kind, role): (Setup, Role),
        members: impl Iterator<Item = (Setup, &'a Programs)>,
        plans: Vec<&'static Plan>,
    ) -> Self {
        let member =
            |(setup, programs)| ComparedSetup { programs, host: LateHost::new(setup, role) };
        let members = members.map(member).collect();
        Self { args, kind, role, plans, members, round: None, rows: Vec::new() }
    }

    /// Is there nothing to measure?
    pub(super) fn is_empty(&self) -> bool {
        self.members.is_empty() || self.plans.is_empty()
    }

    /// All that was measured.
    pub(super) fn into_rows(self) -> Vec<Row> {
        self.rows
    }

    /// The options of a command that measures these set-ups again, with the same rounds and sizes.
    fn words(&self) -> String {
        let args = self.args;
        let mut words = format!("--rounds {}", args.rounds);
        for (is_set, word) in [(args.quick, " --quick"), (args.unpinned, " --unpinned")] {
            words.push_str(if is_set { word } else { "" });
        }
        let congestion = &args.congestion.congestion;
        if congestion != "cubic" {
            words.push_str(&format!(" --congestion {congestion}"));
        }
        if let Some(before) = &args.before {
            words.push_str(&format!(" --before {}", before.display()));
        }
        let mut only: Vec<String> = self.members.iter().map(|it| word(&it.host.setup())).collect();
        only.dedup();
        format!("{words} --only {} --role {}", only.join(","), word(&self.role))
    }
}

impl LabExperiment for ComparedKind<'_> {
    fn figures(&self) -> Vec<FigurePlan> {
        let has_base = self.members.iter().any(|member| member.host.setup() == self.kind);
        plans(self.kind, self.role, has_base, &self.words())
    }

    fn points(&self) -> Vec<String> {
        let of = |plan: &&Plan| if plan.with_cpu { "processor time, " } else { "" };
        self.plans.iter().map(|plan| format!("{}{}", of(plan), plan.test)).collect()
    }

    fn setups(&self) -> Vec<String> {
        let end = if self.role == Role::Server { " as server" } else { "" };
        let title = |it: &ComparedSetup| series(it.host.setup(), it.programs.build);
        self.members.iter().map(|it| format!("{}{end}", title(it))).collect()
    }

    fn begin_round(&mut self, round: u32) {
        if self.round.replace(round).is_none() {
            return;
        }
        let hosts = self.members.iter_mut().map(|member| &mut member.host);
        match round.is_multiple_of(2) {
            true => hosts.for_each(LateHost::remove),
            false => hosts.rev().for_each(LateHost::remove),
        }
    }

    fn measure(&mut self, point: usize, setup: usize) -> Result<MeasuredValues> {
        let plan = *self.plans.get(point).context("a measurement")?;
        let member = self.members.get_mut(setup).context("a set-up")?;
        if plan.sizes(member.host.setup(), self.role).is_none() {
            return Ok(MeasuredValues::default());
        }
        let args = self.args;
        let host = member.host.get(member.programs, &args.congestion, !args.unpinned)?;
        let rows = measure(host, self.round.unwrap_or(0), plan, args.quick)?;
        let readings = rows.iter().flat_map(values).collect();
        if self.round.is_some() {
            self.rows.extend(rows);
        }
        Ok(MeasuredValues { readings, warm_up: 0 })
    }

    /// No other figures; the commands are those of another program.
    fn conclude(&self, figures: &mut Vec<Figure>) -> Vec<String> {
        for figure in figures {
            figure.command = figure.command.replacen("tasuki lab", "tasuki-bench compare", 1);
        }
        Vec::new()
    }
}
