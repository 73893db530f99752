// Where a scenario applies, when that is not everywhere.

import { SOME_VERSIONS } from './versions.mjs';

/**
 * Nobody answers a call in it, so the predicates have nothing to disagree about: what either of them would send, their
 * disjunction sends too. It runs with that one only.
 */
export const unanswered = run => Object.assign(run, { predicates: ['or'] });

/** The releases differ in nothing that it is about: it runs on the oldest with approvals, one in the middle and the newest. */
export const onSome = run => Object.assign(run, { versions: SOME_VERSIONS });

export const onlyWith = (predicate, run) => Object.assign(run, { predicates: [predicate] });
