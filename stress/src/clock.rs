//! A cell's clock in the sampler's words, and what it can give here.

/// What a cell's `clock` says: `timer`, `tick:random8`, `timer+itimer`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clock<'a> {
    /// Clocks, joined by `+`.
    pub clocks: &'a str,
    /// The sampler's `choose`.
    pub choose: String,
}

/// The sampler's clocks.
pub const CLOCKS: [&str; 5] = ["timer", "tick", "itimer", "cpu-timer", "perf"];

impl<'a> Clock<'a> {
    /// Reads a cell's clock.
    ///
    /// # Errors
    /// What was expected.
    pub fn parse(text: &'a str) -> Result<Self, String> {
        let (clocks, choice) = text.split_once(':').unwrap_or((text, "all"));
        if let Some(unknown) = clocks.split('+').find(|clock| !CLOCKS.contains(clock)) {
            return Err(format!(
                "`{unknown}` is no clock; expected one of {}",
                CLOCKS.join(", ")
            ));
        }
        let number = choice
            .strip_prefix("random")
            .and_then(|digits| digits.parse::<u32>().ok());
        let choose = match (choice, number) {
            ("all" | "one", _) => choice.to_owned(),
            (_, Some(number)) if number > 0 => format!("random:{number}"),
            _ => {
                return Err(format!(
                    "`{choice}` chooses no threads; expected all, one or randomN"
                ));
            }
        };
        Ok(Self { clocks, choose })
    }

    /// Samples a second that a running thread gets at most: timers of CPU time fire at the kernel's tick.
    #[must_use]
    pub fn ceiling(&self) -> Option<f64> {
        let limited = |clock: &str| matches!(clock, "itimer" | "cpu-timer");
        self.clocks
            .split('+')
            .all(limited)
            .then(|| tick_hz().unwrap_or(250.0))
    }
}

/// CONFIG_HZ of the running kernel, where it says it.
fn tick_hz() -> Option<f64> {
    let release = nix::sys::utsname::uname().ok()?;
    let file = format!("/boot/config-{}", release.release().to_str()?);
    let config = std::fs::read_to_string(file).ok()?;
    let line = config
        .lines()
        .find_map(|line| line.strip_prefix("CONFIG_HZ="))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_and_choices() {
        let clock = Clock::parse("timer+itimer:random8").unwrap();
        assert_eq!(
            (clock.clocks, clock.choose.as_str()),
            ("timer+itimer", "random:8")
        );
        assert_eq!(clock.ceiling(), None);
        assert_eq!(Clock::parse("tick").unwrap().choose, "all");
        assert!(
            Clock::parse("cpu-timer")
                .unwrap()
                .ceiling()
                .is_some_and(|hz| hz >= 100.0)
        );
        assert!(Clock::parse("sundial").unwrap_err().contains("no clock"));
        assert!(
            Clock::parse("tick:some")
                .unwrap_err()
                .contains("chooses no threads")
        );
        assert!(Clock::parse("tick:random0").is_err());
    }
}
