import * as utils from 'https://jslib.k6.io/k6-utils/1.6.0/index.js';
import { sleep } from 'k6';
import exec from 'k6/execution';

export const options = {
  scenarios: {
    staged: {
      executor: 'ramping-vus', startVUs: 1, startTime: '300ms', gracefulRampDown: '0s', gracefulStop: '0s', exec: 'staged',
      stages: [{ duration: '200ms', target: 1 }, { duration: '200ms', target: 2 }, { duration: '200ms', target: 2 }, { duration: '300ms', target: 0 }],
    },
    calls: { executor: 'per-vu-iterations', exec: 'calls' },
  },
};

const shown = (label, call) => {
  let result;
  try { result = JSON.stringify(call()); } catch (error) { result = `throws ${error.name === 'TypeError' ? error.name : error.message}`; }
  console.log(`${label}: ${result}`);
};

export async function calls() {
  console.log(Object.keys(utils).sort().join());
  for (const text of ['1h30m', '2d', '1.5s', '1.9ms', '500', '0.5', '1m1ms', '1h2', '2m2m', 'abc', '1x', '1us', '5ns', ' 1s', '1 s', '', undefined, null, 's', 'm', 'ms', '-1s', '1..5s', '.5s', 10, 's1', '1s2s']) {
    shown(`parseDuration(${JSON.stringify(text)})`, () => utils.parseDuration(text));
  }
  for (const [label, call] of Object.entries({
    first: () => utils.findBetween('<a>1</a><a>2</a>', '<a>', '</a>'),
    all: () => utils.findBetween('<a>1</a><a>2</a>', '<a>', '</a>', true),
    none: () => utils.findBetween('text', '<a>', '</a>'),
    noneOfAll: () => utils.findBetween('text', '<a>', '</a>', true),
    open: () => utils.findBetween('<a>1', '<a>', '</a>', true),
    noText: () => utils.findBetween(null, '<a>', '</a>'),
    overlapping: () => utils.findBetween('aXaXa', 'a', 'a', true),
    emptyBetween: () => utils.findBetween('[]', '[', ']'),
  })) shown(`findBetween ${label}`, call);
  for (const given of [[100, 60], [10, 30, 4], [7, 61, 3], [5, 10, 1], [0, 0, 2], [33, 7, 5]]) {
    shown(`normalDistributionStages(${given})`, () => utils.normalDistributionStages(...given));
  }
  shown('randomIntBetween', () => [utils.randomIntBetween(3, 3), [2, 3].includes(utils.randomIntBetween(2.5, 2.5))]);
  shown('randomItem', () => [utils.randomItem(['x']), utils.randomItem([]), utils.randomItem('y')]);
  shown('randomString', () => [utils.randomString(3, 'z'), utils.randomString(0), utils.randomString(5).length, utils.randomString(2, '')]);
  shown('randomItem of nothing', () => utils.randomItem(undefined));
  const version4 = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
  shown('uuidv4', () => [version4.test(utils.uuidv4()), version4.test(utils.uuidv4(true))]);
  shown('stages of another executor', () => utils.getCurrentStageIndex());

  shown('check', () => [
    utils.check(1, { one: (value) => value === 1, text: 'yes', zero: 0 }, { own: 'tag' }),
    utils.check(null, { nothing: (value) => value === null }),
    utils.check(1, {}),
  ]);
  shown('check that throws', () => utils.check(1, { throws: () => { throw new Error('oh'); } }));
  console.log(await utils.check(2, { later: async (value) => value === 2, promise: Promise.resolve('') }));
  console.log(await utils.check(Promise.resolve(3), { three: (value) => value === 3 }));
  console.log(utils.check(4, { promise: Promise.resolve(1) }) instanceof Promise);
}

export function staged() {
  if (exec.scenario.iterationInTest > 0) return sleep(5);
  for (let stage = 0; stage < 4; stage += 1) {
    utils.tagWithCurrentStageIndex();
    utils.tagWithCurrentStageProfile();
    console.log(`${utils.getCurrentStageIndex()} ${exec.vu.tags.stage} ${exec.vu.tags.stage_profile}`);
    sleep(0.2);
  }
  sleep(5);
}
