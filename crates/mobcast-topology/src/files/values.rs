//! Numbers and lists of files, checked: rates, times, names. One place for each range and its words.

use std::collections::BTreeSet;

use toml::Spanned;

use super::error::{FileError, Text};

/// 1 MB is 10^6 bytes.
const BYTES_PER_MB: f64 = 1e6;
/// The highest rate that a file may give, in MB/s: a petabyte per second. Sums of a thousand such rates fit 64 bits.
const RATE_MB_PER_S_MAX: f64 = 1e9;
/// The longest time that a file may give, in seconds: a year.
const SECONDS_MAX: f64 = 365.0 * 24.0 * 3600.0;
/// The largest object, in MB, as mobcast has it: 8 TiB.
const SIZE_MB_MAX: f64 = (8_u64 << 40) as f64 / BYTES_PER_MB;

impl Text {
    /// A rate in MB/s, more than zero, as bytes per second.
    pub(super) fn rate(&self, value: &Spanned<f64>) -> Result<u64, FileError> {
        match self.rate_or_zero(value)? {
            0 => Err(self.error(value.span(), "has to be more than 0 (a link is cut by a change in an experiment)")),
            rate => Ok(rate),
        }
    }

    /// A rate in MB/s, zero allowed, as bytes per second.
    pub(super) fn rate_or_zero(&self, value: &Spanned<f64>) -> Result<u64, FileError> {
        self.within(value, 0.0, RATE_MB_PER_S_MAX, "MB/s").map(|rate| (rate * BYTES_PER_MB).round() as u64)
    }

    pub(super) fn optional_rate(&self, value: Option<&Spanned<f64>>) -> Result<Option<u64>, FileError> {
        value.map(|value| self.rate(value)).transpose()
    }

    /// The size of an object in MB, as bytes.
    pub(super) fn size(&self, value: &Spanned<f64>) -> Result<u64, FileError> {
        let bytes = (self.within(value, 0.0, SIZE_MB_MAX, "MB")? * BYTES_PER_MB).round() as u64;
        if bytes == 0 {
            return Err(self.error(value.span(), "has to be more than 0"));
        }
        Ok(bytes)
    }

    /// A time in milliseconds, as nanoseconds.
    pub(super) fn milliseconds(&self, value: &Spanned<f64>) -> Result<u64, FileError> {
        self.within(value, 0.0, SECONDS_MAX * 1e3, "ms").map(|time| (time * 1e6).round() as u64)
    }

    /// A time in seconds, zero allowed.
    pub(super) fn seconds(&self, value: &Spanned<f64>) -> Result<f64, FileError> {
        self.within(value, 0.0, SECONDS_MAX, "s")
    }

    /// A time or a fraction that has to be more than zero.
    pub(super) fn positive(&self, value: &Spanned<f64>) -> Result<f64, FileError> {
        match self.within(value, 0.0, SECONDS_MAX, "")? {
            0.0 => Err(self.error(value.span(), "has to be more than 0")),
            number => Ok(number),
        }
    }

    /// A number in a closed range.
    pub(super) fn within(&self, value: &Spanned<f64>, least: f64, most: f64, unit: &str) -> Result<f64, FileError> {
        let number = *value.get_ref();
        if number.is_finite() && (least..=most).contains(&number) {
            return Ok(number);
        }
        let space = if unit.is_empty() { "" } else { " " };
        Err(self.error(value.span(), format!("{number} is not in the range {least} to {most}{space}{unit}")))
    }

    /// A whole number in a closed range.
    pub(super) fn count(&self, value: &Spanned<u32>, least: u32, most: u32) -> Result<u32, FileError> {
        let number = *value.get_ref();
        if (least..=most).contains(&number) {
            return Ok(number);
        }
        Err(self.error(value.span(), format!("{number} is not in the range {least} to {most}")))
    }

    /// The names of a list, each once.
    pub(super) fn names(&self, list: &[Spanned<String>]) -> Result<Vec<String>, FileError> {
        let mut seen = BTreeSet::new();
        for name in list {
            if !seen.insert(name.get_ref()) {
                return Err(self.error(name.span(), format!("{:?} is there twice: leave one out", name.get_ref())));
            }
        }
        Ok(list.iter().map(|name| name.get_ref().clone()).collect())
    }

    /// A list that holds something.
    pub(super) fn filled<'a, T>(&self, list: &'a Spanned<Vec<T>>) -> Result<&'a [T], FileError> {
        if list.get_ref().is_empty() {
            return Err(self.error(list.span(), "the list is empty: give at least one, or leave the key out"));
        }
        Ok(list.get_ref())
    }
}
