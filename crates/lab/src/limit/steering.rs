//! Whether a script takes the rate of a search itself.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{
    plan::LimitPlan,
    search::{Length, Next},
};
use crate::{
    cancel::Cancel,
    experiment::Experiment,
    generator::{Generator, check_variants},
    host::Host,
};

/// Two rates that no script has by chance.
const RATES: [u32; 2] = [11, 17];

/// How the rate gets to the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Steering {
    /// The script reads `__ENV.RATE` and `__ENV.DURATION` and does the rest.
    Script,
    /// The generator starts the script's default function at the rate.
    Generator,
}

impl LimitPlan {
    /// Asks the load generator how the rate gets to the load: with two values of `RATE`, would the script start so many
    /// iterations, for as long as `DURATION` says? If not, or if that is not known before a hook has run, the generator
    /// starts its default function. Gives what the generator has against the script; empty when nothing.
    #[must_use]
    pub fn check_script(
        &mut self,
        experiment: &Experiment,
        host: &dyn Host,
        cancel: &Cancel,
    ) -> Vec<String> {
        self.steering = Steering::Script;
        let lasts: Duration = self.lasts(Length::Short);
        let follows = RATES.iter().all(|rate| {
            let next = Next { rate: *rate, length: Length::Short };
            let settings = &self.round(next);
            let generator = Generator { experiment, settings, host, arrivals: None };
            let outline = check_variants(generator, self.variants(), cancel).outline;
            outline.is_some_and(|outline| outline.follows(*rate, lasts))
        });
        if follows {
            return Vec::new();
        }
        self.steering = Steering::Generator;
        let [rate, _] = RATES;
        let settings = &self.round(Next { rate, length: Length::Short });
        let arrivals = self.arrivals(rate, None);
        let generator = Generator { experiment, settings, host, arrivals };
        check_variants(generator, self.variants(), cancel).wrong
    }
}
