//! The fifth paper's experiment with today's transports: reads of a disk's blocks plain, by TLS,
//! sealed above TCP, and by ESP below it. The worlds are those of `tasuki-bench storage`.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use lab::plan::{ExperimentName, LabOptions};
use lab::{Direction, Figure, FigureKind};

use super::derived::{Reference, share_of_base};
use super::experiment::{FigurePlan, LabExperiment, MeasuredValue, MeasuredValues, bytes_axis};
use crate::storage::ReadyTransport;

const SIZES: [u32; 6] = [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20];
const QUICK_SIZES: [u32; 2] = [64 << 10, 1 << 20];
/// Requests that are open at a time.
const DEPTH: u16 = 8;
const SECONDS: f64 = 1.0;
const QUICK_SECONDS: f64 = 0.5;
/// As `tasuki-bench storage` names them, and the one that others are compared with.
const TRANSPORTS: [&str; 4] = ["plain", "tls", "sealed", "esp"];
const BASE: &str = "esp";

/// See the module.
pub(crate) struct DiskReads {
    tasuki: PathBuf,
    sizes: Vec<u32>,
    seconds: f64,
    /// Made when they are needed first, and kept.
    ready: [Option<ReadyTransport>; TRANSPORTS.len()],
}

impl DiskReads {
    /// As the options say.
    pub(crate) fn new(tasuki: &Path, options: &LabOptions) -> Self {
        let usual = if options.quick { &QUICK_SIZES[..] } else { &SIZES };
        let given = options.size.as_ref().map(|places| places.all().to_vec());
        Self {
            tasuki: tasuki.to_path_buf(),
            sizes: given.unwrap_or_else(|| usual.to_vec()),
            seconds: if options.quick { QUICK_SECONDS } else { SECONDS },
            ready: [const { None }; TRANSPORTS.len()],
        }
    }

    fn transport(&mut self, at: usize) -> Result<&ReadyTransport> {
        let slot = self.ready.get_mut(at).context("a transport")?;
        if slot.is_none() {
            *slot = Some(ReadyTransport::null(&self.tasuki, at, TRANSPORTS[at])?);
        }
        slot.as_ref().context("a transport")
    }
}

impl LabExperiment for DiskReads {
    fn name(&self) -> ExperimentName {
        ExperimentName::Storage
    }

    fn figures(&self) -> Vec<FigurePlan> {
        let sizes: Vec<String> = self.sizes.iter().map(ToString::to_string).collect();
        let plan = |name: &str, title: &str, unit, direction, is_judged| FigurePlan {
            name: name.to_owned(),
            title: title.to_owned(),
            axis: bytes_axis("bytes of a block"),
            unit,
            direction,
            base: Some(BASE),
            words: format!("storage --size {}", sizes.join(",")),
            is_judged,
            kind: FigureKind::Lines,
            second: None,
        };
        let (higher, lower) = (Direction::Higher, Direction::Lower);
        vec![
            plan("read", "Reads one behind the other, 8 at a time", "MiB/s", higher, true),
            plan("cpu-user", "Processor time of both sides, user", "s/GiB", lower, false),
            plan("cpu-system", "Processor time of both sides, system", "s/GiB", lower, false),
        ]
    }

    fn points(&self) -> Vec<String> {
        self.sizes.iter().map(|size| lab::report::place(f64::from(*size), "B")).collect()
    }

    fn setups(&self) -> Vec<String> {
        TRANSPORTS.map(str::to_owned).to_vec()
    }

    fn measure(&mut self, point: usize, setup: usize) -> Result<MeasuredValues> {
        let size = *self.sizes.get(point).context("a size")?;
        let seconds = self.seconds;
        let row = self.transport(setup)?.read(size, DEPTH, seconds)?;
        let (user, system) = row.cpu_per_gib();
        let reading = |(figure, value)| MeasuredValue {
            figure,
            series: TRANSPORTS[setup].to_owned(),
            x: f64::from(size),
            y: 0.0,
            value,
        };
        let readings = [(0, row.mib()), (1, user), (2, system)].map(reading).to_vec();
        Ok(MeasuredValues { readings, warm_up: 0 })
    }

    fn conclude(&self, figures: &mut Vec<Figure>) -> Vec<String> {
        let Some(read) = figures.iter().find(|figure| figure.name == "read") else {
            return Vec::new();
        };
        let papers = [
            ("paper 5: encryption above TCP, sockets, mean of all sizes", 130.0),
            ("paper 5: encryption above TCP, iSCSI, mean of all sizes", 117.0),
        ];
        let papers = papers.map(|(name, value)| Reference::flat(name, &read.places(), value));
        let title = ("read-share", "Reads, in percent of those by ESP");
        let more = share_of_base(read, title, Direction::Higher, &papers);
        figures.extend(more);
        Vec::new()
    }
}
