//! All measurements over all set-ups, in rounds.
//!
//! Set-ups with the same base and role ([`ComparedKind`]) are measured by the engine of the lab:
//! they take turns measurement by measurement, so a drift of the machine's speed meets compared
//! set-ups alike. A measurement that fails or takes too long is reported, listed and left out; all
//! others go on.

mod builds;
mod kind;
mod measures;
mod plan;
mod record;

use anyhow::{Result, bail, ensure};

use self::kind::ComparedKind;
use self::plan::PLANS;
use self::record::Record;
use crate::args::CompareArgs;
use crate::hosts::Programs;
use crate::report;
use crate::row::Row;
use crate::setup::{Build, Role, Setup};

/// Run everything and print it.
pub(crate) fn run(args: &CompareArgs) -> Result<()> {
    let programs = programs(args)?;
    let kinds = kinds(args, &programs);
    let mut record = Record::new(args, kinds.len())?;
    let mut rows = Vec::new();
    for mut kind in kinds {
        record.measure(&mut kind)?;
        rows.extend(kind.into_rows());
    }
    let (results, failures) = record.end()?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&rows)?);
    } else {
        rows.retain(|row: &Row| row.build == Build::New);
        print!("{}{}", report::markdown(&rows), builds::markdown(&results));
    }
    if !failures.is_empty() {
        bail!("{} measurements failed:\n{}", failures.len(), failures.join("\n"));
    }
    Ok(())
}

/// The kinds of set-ups that were asked for, in each role.
fn kinds<'a>(args: &'a CompareArgs, programs: &'a [Programs]) -> Vec<ComparedKind<'a>> {
    let wanted: &[Setup] = if args.only.is_empty() { &Setup::ALL } else { &args.only };
    let bases =
        Setup::BASES.iter().flat_map(|(base, _)| args.role.iter().map(|role| (*base, *role)));
    let kind = |(base, role): (Setup, Role)| {
        let setups = wanted.iter().filter(move |it| it.base() == base && it.has(role));
        let members = setups
            .flat_map(|&setup| builds_of(programs, setup).iter().map(move |build| (setup, build)));
        let plans = PLANS.iter().filter(|plan| plan.is_wanted(args)).collect();
        ComparedKind::new(args, (base, role), members, plans)
    };
    bases.map(kind).filter(|kind| !kind.is_empty()).collect()
}

/// The builds of Tasuki that are measured, the new one first.
fn programs(args: &CompareArgs) -> Result<Vec<Programs>> {
    let peers = &args.peers;
    let new = Programs::new(&args.tasuki, peers)?;
    let before = args.before.as_ref().map(|tasuki| Programs::earlier(tasuki, peers)).transpose()?;
    let tasuki = &new.tasuki;
    ensure!(tasuki.exists(), "{} is not there: `make build` makes it", tasuki.display());
    Ok([new].into_iter().chain(before).collect())
}

/// The kernel and the peers are measured once, whatever builds of Tasuki there are.
fn builds_of(builds: &[Programs], setup: Setup) -> &[Programs] {
    if setup.tasuki().is_some() { builds } else { &builds[..1] }
}

#[cfg(test)]
mod tests;
