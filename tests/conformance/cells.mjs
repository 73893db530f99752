// The matrix: every scenario on every release, predicate and state that it applies to.

import approvals from './scenarios/approvals.mjs';
import asks, { withApprovals as asksForApprovals } from './scenarios/asks.mjs';
import clientTools from './scenarios/client-tools.mjs';
import counterExample from './scenarios/counter-example.mjs';
import failures from './scenarios/failures.mjs';
import history, { withApprovals as historyWithApprovals } from './scenarios/history.mjs';
import mixed from './scenarios/mixed.mjs';
import nested, { withApprovals as nestedApprovals } from './scenarios/nested.mjs';
import randomReloads from './scenarios/random-reloads.mjs';
import refusedApprovals from './scenarios/refused-approvals.mjs';
import { waiting, waitingForApproval } from './scenarios/reload.mjs';
import requests, { withApprovals as requestsWithApprovals } from './scenarios/requests.mjs';
import retry from './scenarios/retry.mjs';
import shown from './scenarios/shown.mjs';
import stop from './scenarios/stop.mjs';
import subagents, { withApprovals as subagentApprovals } from './scenarios/subagents.mjs';
import submit from './scenarios/submit.mjs';
import turns from './scenarios/turns.mjs';
import usage from './scenarios/usage.mjs';
import { hasApprovals, HOOK_VERSIONS, PREDICATES, SOME_VERSIONS, STATES, VERSIONS } from './versions.mjs';

const EVERYWHERE = [
  turns,
  clientTools,
  waiting,
  requests,
  retry,
  submit,
  stop,
  history,
  failures,
  shown,
  usage,
  subagents,
  nested,
  asks,
  counterExample,
];
const WITH_APPROVALS = [
  approvals,
  mixed,
  waitingForApproval,
  refusedApprovals,
  requestsWithApprovals,
  historyWithApprovals,
  subagentApprovals,
  nestedApprovals,
  asksForApprovals,
];

const predicatesOf = version => PREDICATES.filter(predicate => predicate !== 'approvals' || hasApprovals(version));

/** All cells as `{ name, version, predicate, state, run }`, those of one scenario side by side. */
export function cells(versions = VERSIONS) {
  const found = [];
  const add = (scenarios, conditions) => {
    for (const [scenario, run] of Object.entries(scenarios)) {
      if (run.versions && !run.versions.includes(conditions.version)) continue;
      if (run.predicates && !run.predicates.includes(conditions.predicate)) continue;
      found.push({ ...conditions, run, name: `${scenario} [${Object.values(conditions).join(' ')}]` });
    }
  };
  for (const version of versions) {
    const groups = hasApprovals(version) ? [...EVERYWHERE, ...WITH_APPROVALS] : EVERYWHERE;
    const conditions = predicatesOf(version).flatMap(predicate => STATES.map(state => ({ version, predicate, state })));
    for (const condition of conditions) groups.forEach(group => add(group, condition));
    if (SOME_VERSIONS.includes(version)) add(randomReloads, { version, predicate: 'or', state: 'react' });
    if (!HOOK_VERSIONS.includes(version)) continue;
    // The hook has the predicate that a page with approvals needs; React's strict mode matters to what happens on load.
    groups.forEach(group => add(group, { version, predicate: 'or', state: 'hook' }));
    [waiting, waitingForApproval].forEach(group => add(group, { version, predicate: 'or', state: 'strict' }));
  }
  return found.sort((one, other) => (one.name < other.name ? -1 : 1));
}
