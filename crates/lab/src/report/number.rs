//! Numbers for people. The page's script has the same rules.

/// With four digits that count, without zeroes behind them.
pub(super) fn short(value: f64) -> String {
    let size = value.abs();
    if size >= 1e7 || (size < 1e-4 && size > 0.0) {
        return format!("{value:.2e}");
    }
    let digits = match size {
        size if size >= 1000.0 => 0,
        size if size >= 100.0 => 1,
        size if size >= 10.0 => 2,
        size if size >= 0.1 => 3,
        _ => 6,
    };
    let text = format!("{value:.digits$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// A place on the horizontal axis, for people. Bytes are counted in units of 1,024.
#[must_use]
pub fn place(value: f64, unit: &str) -> String {
    if unit == "B" {
        for (size, name) in [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")] {
            let size = f64::from(size);
            if value >= size && value % size == 0.0 {
                return format!("{} {name}", short(value / size));
            }
        }
    }
    match unit {
        "" => short(value),
        unit => format!("{} {unit}", short(value)),
    }
}
