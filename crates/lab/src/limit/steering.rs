//! Determines how the rate of a search reaches the load.

use serde::{Deserialize, Serialize};

use super::plan::LimitPlan;
use super::search::{Length, Next};
use crate::file::experiment::Experiment;
use crate::load::generator::{Generator, ScriptCheck, check_variants};
use crate::round::host::Host;
use crate::run::cancel::Cancel;

/// Two rates that no script uses by chance.
const RATES: [u32; 2] = [11, 17];

/// The part that starts iterations at the rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Steering {
    /// The script reads `__ENV.RATE` and `__ENV.DURATION` and does the rest.
    Script,
    /// The generator starts the script's default function at the rate.
    Generator,
}

impl LimitPlan {
    /// Determines how the rate reaches the load. The load generator outlines the script with two values of `RATE`: a
    /// script that would start that many iterations per second, for `DURATION`, is left to do so. For any other
    /// script, or if a hook has to run before the outline is known, the generator starts the default function.
    ///
    /// Returns the generator's complaints about the script and its outline for a short try.
    pub fn check_script(
        &mut self,
        experiment: &Experiment,
        host: &dyn Host,
        cancel: &Cancel,
    ) -> ScriptCheck {
        self.steering = Steering::Script;
        let lasts = self.lasts(Length::Short);
        let check = |plan: &Self, rate: u32| {
            let settings = &plan.round(Next { rate, length: Length::Short });
            let arrivals = plan.arrivals(rate, None);
            let generator = Generator { experiment, settings, host, arrivals };
            check_variants(generator, &plan.plan.variants, cancel)
        };
        let mut found = ScriptCheck::default();
        for rate in RATES {
            found = check(self, rate);
            if !found.outline.as_ref().is_some_and(|outline| outline.follows(rate, lasts)) {
                self.steering = Steering::Generator;
                return check(self, rate);
            }
        }
        found
    }
}
