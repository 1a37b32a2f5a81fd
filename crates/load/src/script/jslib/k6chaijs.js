// k6chaijs: Chai with a check for each assertion. Written anew after version 4.3.4.3; Chai itself is in chai.min.js.
import { check, group } from 'k6';
import exec from 'k6/execution';

const chai = module.exports;
const { Assertion, AssertionError, config, expect, util } = chai;

config.truncateVariableThreshold = 100;
config.truncateMsgThreshold = 300;
config.aggregateChecks = true;
config.logFailures = false;
config.exitOnError = false;

const shorten = (text, most) => (text.length > most ? `${text.substring(0, most)}...` : text);

const display = (value) => shorten(util.objDisplay(value), config.truncateVariableThreshold);

/** The message of an assertion, with places for its subject. Chai words it for a failure, a check needs both. */
function wording(assertion, [, message, negated, expected]) {
  const chosen = util.flag(assertion, 'negate') ? negated : message;
  const text = ((typeof chosen === 'function' ? chosen() : chosen) || '').replace('but ', '');
  const hide = util.flag(assertion, 'anonymizeMsgFunction');
  return (hide ? hide(text) : text).replace(/#\{exp\}/g, () => display(expected));
}

const fill = (text, subject, actual) =>
  text.replace(/#\{this\}/g, () => subject).replace(/#\{act\}/g, () => actual);

Assertion.overwriteMethod('assert', () =>
  function assert(...args) {
    const passed = util.test(this, args);
    const actual = util.getActual(this, args);
    const label = util.flag(this, 'message');
    const text = wording(this, args);
    let message = fill(text, display(util.flag(this, 'object')), display(actual));
    let name = message;
    if (config.aggregateChecks) {
      // Without values that differ from iteration to iteration: each name is a check of its own.
      name = fill(text, label || '${this}', '${actual}');
    } else if (label) {
      name = message = `${label}: ${message}`;
    }
    message = shorten(message, config.truncateMsgThreshold);
    check(null, { [shorten(name, config.truncateMsgThreshold)]: passed });
    if (passed) return;
    if (config.logFailures) console.warn(message);
    if (config.exitOnError) exec.test.abort(message);
    const [, , , expected, , showDiff] = args;
    const details = { actual, expected, showDiff: showDiff !== false && config.showDiff };
    const operator = util.getOperator(this, args);
    if (operator) details.operator = operator;
    throw new AssertionError(message, details, config.includeStack ? assert : util.flag(this, 'ssfi'));
  });

/** Hides the subject in messages: `expect(token).to.anonymize().and.…`. */
Assertion.addMethod('anonymize', function anonymize(hide) {
  const all = (text) => text.replace(/#\{this\}/g, () => '<anonymized>');
  util.flag(this, 'anonymizeMsgFunction', hide || all);
});

Assertion.addMethod('validJsonBody', function validJsonBody() {
  let valid = true;
  try {
    util.flag(this, 'object').json();
  } catch {
    valid = false;
  }
  this.assert(valid, 'has valid json body', 'does not have a valid json body', null, null);
});

/** A group that ends at its first failed assertion; true if there was none. */
function describe(name, run) {
  let passed = true;
  group(name, () => {
    try {
      run();
    } catch (error) {
      passed = false;
      if (error.name === 'AssertionError') return;
      console.error(`Exception raised in test "${name}". Failing the test and continuing. \n${error}`);
      check(null, { [`Exception raised "${error}"`]: false });
    }
  });
  return passed;
}

export { chai, describe, expect };
export default chai;
