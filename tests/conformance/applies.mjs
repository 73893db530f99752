// Where a scenario applies, when that is not everywhere.

/**
 * Nobody answers a call in it, so the predicates have nothing to disagree about: what either of them would send, their
 * disjunction sends too. It runs with that one only.
 */
export const unanswered = run => Object.assign(run, { predicates: ['or'] });

export const onlyWith = (predicate, run) => Object.assign(run, { predicates: [predicate] });
