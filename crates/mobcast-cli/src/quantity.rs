//! Sizes, rates and times as people write them: `64MiB`, `100Mbit/s`, `30s`; and the way back, for people to read.
//!
//! 1 MB is 10^6 bytes and 1 MiB is 2^20 bytes. Parsing is exact (integers, no floating point) and total: every text is
//! a value or an error that shows valid examples. What could mean two things (`64M`, `10Mb/s`, `--wait 30`) is refused.

use std::time::Duration;

/// Why a text is not a quantity.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QuantityError(String);

impl std::fmt::Display for QuantityError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for QuantityError {}

const SIZE_EXAMPLES: &str = "write a size like 64MiB, 512KiB, 1GB or 4096";
const RATE_EXAMPLES: &str = "write a rate like 10MB/s, 512KiB/s or 100Mbit/s";
const TIME_EXAMPLES: &str = "write a time like 500ms, 30s, 5m or 24h";

/// Decimal places that are read; more would not change a byte of any size that there is.
const DECIMALS_MAX: usize = 18;

/// Bytes in a unit of size.
const SIZE_UNITS: &[(&str, u128)] = &[
    ("", 1),
    ("b", 1),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
];

/// Bits in a unit of rate, without the `/s`.
const BIT_UNITS: &[(&str, u128)] =
    &[("bit", 1), ("kbit", 1_000), ("mbit", 1_000_000), ("gbit", 1_000_000_000), ("tbit", 1_000_000_000_000)];

/// Nanoseconds in a unit of time.
const TIME_UNITS: &[(&str, u128)] = &[
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];

/// Reads a size in bytes: `4096`, `64MiB`, `1.5GB`.
pub fn parse_size(text: &str) -> Result<u64, QuantityError> {
    let refuse = |why: &str| Err(QuantityError(format!("{why}; {SIZE_EXAMPLES}")));
    let Some((number, unit)) = split(text) else {
        return refuse("it does not begin with a number");
    };
    let lower = unit.to_ascii_lowercase();
    if let "k" | "m" | "g" | "t" = lower.as_str() {
        let letter = lower.to_ascii_uppercase();
        return refuse(&format!("{letter} could be {letter}B (powers of 1000) or {letter}iB (powers of 1024)"));
    }
    let Some(factor) = find(SIZE_UNITS, &lower) else {
        return refuse(&format!("there is no unit {unit:?}"));
    };
    match number.times(factor).and_then(|bytes| u64::try_from(bytes).ok()) {
        Some(bytes) => Ok(bytes),
        None => refuse("it is too large"),
    }
}

/// Reads a rate in bytes per second: `10MB/s`, `100Mbit/s`. Zero is refused.
pub fn parse_rate(text: &str) -> Result<u64, QuantityError> {
    let refuse = |why: &str| Err(QuantityError(format!("{why}; {RATE_EXAMPLES}")));
    let Some((number, unit)) = split(text) else {
        return refuse("it does not begin with a number");
    };
    let Some(unit) = unit.strip_suffix("/s") else {
        return refuse("a rate ends with /s");
    };
    // One letter decides about a factor of eight, and people mean both by a small b.
    if unit.ends_with('b') && unit.len() <= 3 {
        return refuse(&format!("{unit}/s could be bits or bytes"));
    }
    let lower = unit.to_ascii_lowercase();
    let bytes = match (find(BIT_UNITS, &lower), find(SIZE_UNITS, &lower)) {
        (Some(bits), _) => number.times(bits).map(|bits| bits / 8),
        (None, Some(bytes)) if !unit.is_empty() => number.times(bytes),
        _ => return refuse(&format!("there is no unit {unit:?} per second")),
    };
    match bytes.and_then(|bytes| u64::try_from(bytes).ok()) {
        Some(0) => refuse("a rate of zero sends nothing"),
        Some(bytes_per_s) => Ok(bytes_per_s),
        None => refuse("it is too large"),
    }
}

/// Reads a time: `500ms`, `30s`, `5m`, `24h`, `7d`.
pub fn parse_time(text: &str) -> Result<Duration, QuantityError> {
    let refuse = |why: &str| Err(QuantityError(format!("{why}; {TIME_EXAMPLES}")));
    let Some((number, unit)) = split(text) else {
        return refuse("it does not begin with a number");
    };
    let Some(factor) = find(TIME_UNITS, unit) else {
        return refuse(&if unit.is_empty() {
            "a time needs a unit".to_owned()
        } else {
            format!("there is no unit {unit:?}")
        });
    };
    // Beyond this, adding the time to a clock would overflow.
    const NANOSECONDS_MAX: u128 = 100 * 365 * 86_400_000_000_000;
    match number.times(factor) {
        Some(nanoseconds) if nanoseconds <= NANOSECONDS_MAX => Ok(Duration::from_nanos(nanoseconds as u64)),
        _ => refuse("it is over a hundred years"),
    }
}

/// A size for people: three digits and a decimal unit.
pub fn show_size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KB", "MB", "GB", "TB"];
    if bytes < 1_000 {
        return format!("{bytes} B");
    }
    let (mut value, mut unit) = (bytes as f64 / 1e3, 0);
    // Not 1000: what rounds up to 1000 belongs to the next unit.
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1e3;
        unit += 1;
    }
    let decimals = if value < 9.995 {
        2
    } else if value < 99.95 {
        1
    } else {
        0
    };
    format!("{value:.decimals$} {}", UNITS[unit])
}

/// A rate for people.
pub fn show_rate(bytes_per_s: u64) -> String {
    format!("{}/s", show_size(bytes_per_s))
}

/// A time for people, to the second from ten seconds on.
pub fn show_time(time: Duration) -> String {
    let s = time.as_secs();
    match s {
        0..10 => format!("{:.1} s", time.as_secs_f64()),
        10..60 => format!("{s} s"),
        60..3600 => format!("{} min {:02} s", s / 60, s % 60),
        _ => format!("{} h {:02} min", s / 3600, s / 60 % 60),
    }
}

/// A decimal number as digits, so that no byte is lost: `1.25` is 125 hundredths.
struct Number {
    digits: u128,
    /// Power of ten that the digits are divided by.
    divisor: u128,
}

impl Number {
    /// The number times `factor`, rounded down.
    fn times(&self, factor: u128) -> Option<u128> {
        Some(self.digits.checked_mul(factor)? / self.divisor)
    }
}

/// Splits a text into its number and its unit; none if it does not begin with a number.
fn split(text: &str) -> Option<(Number, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let has_point = number.contains('.');
    if whole.is_empty() || (has_point && fraction.is_empty()) || fraction.len() > DECIMALS_MAX {
        return None;
    }
    let digits = format!("{whole}{fraction}").parse().ok()?;
    Some((Number { digits, divisor: 10u128.pow(fraction.len() as u32) }, unit.trim_start()))
}

fn find(units: &[(&str, u128)], name: &str) -> Option<u128> {
    units.iter().find(|(unit, _)| *unit == name).map(|(_, factor)| *factor)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sizes_are_decimal_or_binary_by_their_unit() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("1B", 1),
            ("1kB", 1_000),
            ("512KiB", 512 << 10),
            ("64MiB", 64 << 20),
            ("1GB", 1_000_000_000),
            ("1 GB", 1_000_000_000),
            ("1gb", 1_000_000_000),
            ("1.5GB", 1_500_000_000),
            ("0.5KiB", 512),
            ("2TiB", 2 << 40),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused_with_examples() {
        for text in ["", "MiB", "x", "-1", "1.", ".5GB", "1..5GB", "64M", "1g", "5 apples", "99999999TB", "1MB/s"] {
            let error = parse_size(text).expect_err(text).to_string();
            assert!(error.ends_with(SIZE_EXAMPLES), "{text}: {error}");
        }
        assert!(parse_size("64M").expect_err("ambiguous").to_string().contains("MB (powers of 1000) or MiB"));
    }

    #[test]
    fn rates_say_whether_they_are_bits_or_bytes() {
        for (text, bytes_per_s) in [
            ("10MB/s", 10_000_000),
            ("100Mbit/s", 12_500_000),
            ("1Gbit/s", 125_000_000),
            ("512KiB/s", 512 << 10),
            ("2.5MB/s", 2_500_000),
            ("800B/s", 800),
        ] {
            assert_eq!(parse_rate(text), Ok(bytes_per_s), "{text}");
        }
        for text in ["10", "10MB", "10Mb/s", "1b/s", "10/s", "0MB/s", "1bit/s", "fast", "10Mib/s"] {
            let error = parse_rate(text).expect_err(text).to_string();
            assert!(error.ends_with(RATE_EXAMPLES), "{text}: {error}");
        }
    }

    #[test]
    fn times_need_a_unit() {
        for (text, ms) in [("500ms", 500), ("30s", 30_000), ("5m", 300_000), ("5min", 300_000), ("24h", 86_400_000)] {
            assert_eq!(parse_time(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        assert_eq!(parse_time("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(parse_time("0s"), Ok(Duration::ZERO));
        for text in ["", "30", "s", "1y", "1000000d", "5 M"] {
            let error = parse_time(text).expect_err(text).to_string();
            assert!(error.ends_with(TIME_EXAMPLES), "{text}: {error}");
        }
    }

    #[test]
    fn people_read_three_digits() {
        let sizes: Vec<String> =
            [0, 999, 1_000, 999_499, 999_600, 1_073_741_824, 268_435_456, 12_345_678_901_234, u64::MAX]
                .map(show_size)
                .into();
        assert_eq!(
            sizes,
            ["0 B", "999 B", "1.00 KB", "999 KB", "1.00 MB", "1.07 GB", "268 MB", "12.3 TB", "18446744 TB"]
        );
        assert_eq!(show_rate(117_000_000), "117 MB/s");
        let times: Vec<String> =
            [450, 9_949, 12_300, 90_000, 5_400_000].map(Duration::from_millis).map(show_time).into();
        assert_eq!(times, ["0.5 s", "9.9 s", "12 s", "1 min 30 s", "1 h 30 min"]);
    }

    proptest! {
        #[test]
        fn every_text_is_a_quantity_or_an_error(text in "\\PC{0,40}", number in "[0-9.]{0,50}", unit in "[a-zA-Z/ ]{0,8}") {
            for text in [text, format!("{number}{unit}")] {
                let _ = (parse_size(&text), parse_rate(&text), parse_time(&text));
            }
        }

        #[test]
        fn whole_numbers_of_any_unit_are_exact(value in 0u64..10_000_000, unit in 0..SIZE_UNITS.len()) {
            let (name, factor) = SIZE_UNITS[unit];
            let expected = u64::try_from(u128::from(value) * factor).ok();
            prop_assert_eq!(parse_size(&format!("{value}{name}")).ok(), expected);
            if !name.is_empty() && value > 0 {
                let upper = name.to_uppercase().replace('I', "i");
                prop_assert_eq!(parse_rate(&format!("{value}{upper}/s")).ok(), expected);
            }
        }

        #[test]
        fn fractions_are_exact(thousandths in 0u64..1_000_000_000) {
            let text = format!("{}.{:03}GB", thousandths / 1000, thousandths % 1000);
            prop_assert_eq!(parse_size(&text), Ok(thousandths * 1_000_000));
        }

        #[test]
        fn a_shown_size_is_within_half_a_percent(bytes in 1u64..999_000_000_000_000) {
            let back = parse_size(&show_size(bytes)).expect("readable");
            prop_assert!(back.abs_diff(bytes) as f64 <= 0.005 * bytes as f64 + 0.5, "{bytes} shown as {back}");
        }
    }
}
