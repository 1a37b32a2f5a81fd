// 64 users who like one article after another, as fast as they are answered.
import http from 'k6/http';
import exec from 'k6/execution';
import { base, count, logIn, params, users } from './likes.js';

export const options = {
  scenarios: {
    likers: { executor: 'constant-vus', vus: users, duration: __ENV.DURATION || '10s' },
  },
};

export function setup() {
  return logIn();
}

export default function (tokens) {
  // A user for each virtual user, an article for each of its iterations: no pair comes twice.
  const user = (exec.vu.idInTest - 1) % users;
  const article = 1 + exec.vu.iterationInScenario;
  count(http.put(`${base}/v1/articles/${article}/like`, null, params(tokens[user])));
}
