// Sub-agents down to the third level: whatever one of them asks is the root's to show, and its answer is for the one that asked.

import { onlyWith, onSome, unanswered } from '../applies.mjs';
import { script } from '../cell.mjs';
import { check, equal } from '../failure.mjs';
import { isTool, reportedResults, toolName } from '../view.mjs';

const HERE = { lat: 38.7 };

const call = (tool, id, input = {}) => ({ tool, input, id });
const locate = call('get_location', 'loc');
const mail = call('send_email', 'mail', { to: 'ada@example.org', subject: 'Hi', body: 'Hello.' });
const ask = id => call('ask_user', id, { question: 'Sure?' });
const publish = id => call('publish_note', id, { title: id });
const note = id => call('note', id, { text: id }); // takes effect unasked, so that a child that began anew would be seen
const sent = id => call('sent', id);
const research = (id, ...steps) => call('research', id, { topic: script(steps) });
const deeper = (id, ...steps) => call('deeper', id, { topic: script(steps) });

/** The tool parts of the newest message, each as often as it is there. */
const shown = ({ parts }) =>
  parts
    .filter(isTool)
    .map(part => `${part.toolCallId} ${toolName(part)}:${part.state}${part.providerExecuted ? '!' : ''}`)
    .sort();

/** `{call: outcome}` of what an agent was told; for a sub-agent's result what that one was told, for `sent` what it gave. */
const told = results => Object.fromEntries(results.map(({ id, outcome, value }) => [id, ofResult(outcome, value)]));

function ofResult(outcome, value) {
  if (Array.isArray(value)) return value;
  return outcome === 'ok' && value?.startsWith?.('done ') ? told(JSON.parse(value.slice('done '.length))) : outcome;
}

/** What the run waits for, on the page and in the snapshot, each once. */
async function waits(t, client, parts, pending) {
  equal(shown(client.last), parts, 'what the page shows');
  const snapshot = await t.snapshot();
  equal(shown(snapshot.messages.at(-1)), parts, 'what the snapshot shows');
  equal(snapshot.pending.map(({ toolCallId }) => toolCallId).sort(), pending, 'what the snapshot waits for');
}

/** The turn is over, and so is the next one: what was shown, told and done, and what the model is sent from now on. */
async function ends(t, client, { posts, parts, results, effects, history }) {
  equal(shown(client.last), parts, 'what the page shows at the end');
  equal(told(reportedResults(client.last)), results, 'what the agents were told');
  equal(await t.server.effects(t.chatId), effects, 'calls that took effect');
  await nextTurn(t, client, history);
  await t.finish(client, { posts: posts + 1, turns: 2 });
}

async function nextTurn(t, client, history) {
  await t.act(client, () => client.send(script([{ calls: [sent('next')] }])), 1);
  equal(client.part('next').output, [...history, 'user'], 'what the model is sent in the next turn');
}

/** A way to give each answer: on the page, and through the server's own route. */
const ANSWERS = {
  location: { page: (client, id) => client.answer(id, HERE), elsewhere: () => ({ output: HERE }) },
  text: { page: (client, id) => client.answer(id, 'yes'), elsewhere: () => ({ output: 'yes' }) },
  yes: { page: (client, id) => client.decide(id, true), elsewhere: approvalId => ({ approvalId, approved: true }) },
  no: { page: (client, id) => client.decide(id, false, 'no'), elsewhere: approvalId => ({ approvalId, approved: false, reason: 'no' }) },
};

const give = (client, [id, kind]) => ANSWERS[kind].page(client, id);

/** All of them in this order on one page; the last one sends them. */
async function together(t, client, answers, kind = 'both') {
  for (const answer of answers.slice(0, -1)) await give(client, answer);
  await t.complete(client, kind, () => give(client, answers.at(-1)));
  return client;
}

/** Each of them sent by a page of its own, which is loaded after the one before has sent. */
async function inParts(t, _, answers) {
  let page = await t.load();
  for (const answer of answers.slice(0, -1)) {
    await give(page, answer);
    await t.act(page, () => page.submit(), 1);
    page = await t.load();
  }
  await t.complete(page, 'both', () => give(page, answers.at(-1)));
  return page;
}

/** Each of them through the server's own route; then a page is loaded. */
async function elsewhere(t, _, answers) {
  const { pending } = await t.snapshot();
  for (const [id, kind] of answers) {
    const { approvalId } = pending.find(({ toolCallId }) => toolCallId === id);
    const { status, body } = await t.server.answers(t.chatId, [{ toolCallId: id, ...ANSWERS[kind].elsewhere(approvalId) }]);
    const continuation = id === answers.at(-1)[0] ? 'caller_resumes' : 'awaiting_batch';
    equal([status, body.outcomes], [200, [{ toolCallId: id, outcome: 'stored', continuation }]], 'the answer from elsewhere');
  }
  await t.rested();
  return t.load();
}

// A client call, an approval and a server tool on each of three levels ----------------------------------------------------

const LEVELS = [
  { calls: [note('n0')] },
  {
    calls: [
      locate,
      mail,
      research(
        'r',
        { calls: [note('n1')] },
        { calls: [ask('q1'), publish('p1'), deeper('d', { calls: [note('n2')] }, { calls: [ask('q2'), publish('p2')] }, { calls: [sent('s2')] })] },
        { calls: [sent('s1')] },
      ),
    ],
  },
  { calls: [sent('s0')] },
];
const LEVELS_ANSWERS = [['loc', 'location'], ['mail', 'yes'], ['q1', 'text'], ['p1', 'yes'], ['q2', 'text'], ['p2', 'yes']];
const LEVELS_HISTORY = ['user', 'assistant n0', 'tool n0:ok', 'assistant loc mail r'];

const LEVELS_WAIT = [
  [
    'loc get_location:input-available',
    'mail send_email:approval-requested',
    'n0 note:output-available!',
    'p1 publish_note:approval-requested',
    'p2 publish_note:approval-requested',
    'q1 ask_user:input-available',
    'q2 ask_user:input-available',
  ],
  ['loc', 'mail', 'p1', 'p2', 'q1', 'q2'],
];

const LEVELS_CLOSED = [
  'loc get_location:output-error!',
  'mail send_email:output-error!',
  'n0 note:output-available!',
  'p1 publish_note:output-error!',
  'p2 publish_note:output-error!',
  'q1 ask_user:output-error!',
  'q2 ask_user:output-error!',
  'r research:output-error!',
];

async function levelsEnd(t, client, posts) {
  const s2 = ['user', 'assistant n2', 'tool n2:ok', 'assistant q2 p2', 'tool q2:ok p2:ok'];
  const s1 = ['user', 'assistant n1', 'tool n1:ok', 'assistant q1 p1 d', 'tool q1:ok p1:ok d:ok'];
  const s0 = [...LEVELS_HISTORY, 'tool loc:ok mail:ok r:ok'];
  const d = { n2: 'ok', q2: 'ok', p2: 'ok', s2 };
  await ends(t, client, {
    posts,
    parts: [
      'loc get_location:output-available',
      'mail send_email:output-available!',
      'n0 note:output-available!',
      'p1 publish_note:output-available!',
      'p2 publish_note:output-available!',
      'q1 ask_user:output-available',
      'q2 ask_user:output-available',
      'r research:output-available!',
      's0 sent:output-available!',
    ],
    results: { n0: 'ok', loc: 'ok', mail: 'ok', r: { n1: 'ok', q1: 'ok', p1: 'ok', d, s1 }, s0 },
    effects: ['mail', 'n0', 'n1', 'n2', 'p1', 'p2'],
    history: [...s0, 'assistant s0', 'tool s0:ok', 'assistant'],
  });
}

// One call of each level, answered in every order -----------------------------------------------------------------------

const DEPTHS = ['loc', 'p1', 'q2'];
const ORDERS = DEPTHS.flatMap(first => DEPTHS.flatMap(second => DEPTHS.filter(third => new Set([first, second, third]).size === 3).map(third => [first, second, third])));

/** One call of each level waits; the approval is granted in every other order and denied in the rest. */
async function inOrder(t, order, way) {
  const [decision, outcome, state] = ORDERS.indexOf(order) % 2 ? ['no', 'denied', 'output-denied'] : ['yes', 'ok', 'output-available!'];
  const kinds = { loc: 'location', p1: decision, q2: 'text' };
  const child = research('r', { calls: [note('n1')] }, { calls: [publish('p1'), deeper('d', { calls: [note('n2')] }, { calls: [ask('q2')] })] });
  const begun = await t.begin([{ calls: [locate, child] }, { calls: [sent('s0')] }]);
  const open = ['loc get_location:input-available', 'p1 publish_note:approval-requested', 'q2 ask_user:input-available'];
  await waits(t, begun, open, DEPTHS);
  const client = await way(t, begun, order.map(id => [id, kinds[id]]));
  const s0 = ['user', 'assistant loc r', 'tool loc:ok r:ok'];
  await ends(t, client, {
    posts: client.posts,
    parts: [
      'loc get_location:output-available',
      `p1 publish_note:${state}`,
      'q2 ask_user:output-available',
      'r research:output-available!',
      's0 sent:output-available!',
    ],
    results: { loc: 'ok', r: { n1: 'ok', p1: outcome, d: { n2: 'ok', q2: 'ok' } }, s0 },
    effects: outcome === 'ok' ? ['n1', 'n2', 'p1'] : ['n1', 'n2'],
    history: [...s0, 'assistant s0', 'tool s0:ok', 'assistant'],
  });
}

const everyOrder = (name, way, where = run => run) =>
  Object.fromEntries(
    ORDERS.map(order => [`three levels, answered ${name}: ${order.join(', ')}`, where(onlyWith('or', t => inOrder(t, order, way)))]),
  );

// Two children side by side ----------------------------------------------------------------------------------------------

async function siblings(t, order, way) {
  const child = (id, asked) => research(id, { calls: [note(`n${id}`)] }, { calls: [publish(asked)] });
  const begun = await t.begin([{ calls: [child('a', 'pa'), child('b', 'pb')] }]);
  await waits(t, begun, ['pa publish_note:approval-requested', 'pb publish_note:approval-requested'], ['pa', 'pb']);
  const client = await way(t, begun, order.map(id => [id, id === 'pa' ? 'yes' : 'no']), 'approvals');
  await ends(t, client, {
    posts: client.posts,
    parts: [
      'a research:output-available!',
      'b research:output-available!',
      'pa publish_note:output-available!',
      'pb publish_note:output-denied',
    ],
    results: { a: { na: 'ok', pa: 'ok' }, b: { nb: 'ok', pb: 'denied' } },
    effects: ['na', 'nb', 'pa'],
    history: ['user', 'assistant a b', 'tool a:ok b:ok', 'assistant'],
  });
}

export default {
  'three levels that each ask the page': onlyWith('or', async t => {
    const grandchild = deeper('d', { calls: [note('n2')] }, { calls: [ask('q2')] });
    const client = await t.begin([{ calls: [locate, research('r', { calls: [note('n1')] }, { calls: [ask('q1'), grandchild] })] }]);
    const open = ['loc get_location:input-available', 'q1 ask_user:input-available', 'q2 ask_user:input-available'];
    await waits(t, client, open, ['loc', 'q1', 'q2']);
    await together(t, client, [['q2', 'text'], ['loc', 'location'], ['q1', 'text']], 'client calls');
    await ends(t, client, {
      posts: 2,
      parts: [
        'loc get_location:output-available',
        'q1 ask_user:output-available',
        'q2 ask_user:output-available',
        'r research:output-available!',
      ],
      results: { loc: 'ok', r: { n1: 'ok', q1: 'ok', d: { n2: 'ok', q2: 'ok' } } },
      effects: ['n1', 'n2'],
      history: ['user', 'assistant loc r', 'tool loc:ok r:ok', 'assistant'],
    });
  }),

  'a sub-agent that fails while its sibling waits': onlyWith('or', async t => {
    const client = await t.begin([{ calls: [research('bad', { calls: [note('n')] }, { error: 'context' }), research('good', { calls: [ask('q')] })] }]);
    await waits(t, client, ['bad research:output-error!', 'q ask_user:input-available'], ['q']);
    await together(t, client, [['q', 'text']], 'client calls');
    await ends(t, client, {
      posts: 2,
      parts: ['bad research:output-error!', 'good research:output-available!', 'q ask_user:output-available'],
      results: { bad: 'error', good: { q: 'ok' } },
      effects: ['n'],
      history: ['user', 'assistant bad good', 'tool bad:error good:ok', 'assistant'],
    });
  }),

  'a sub-agent of the third level that fails after its answer, while another one asks again': onlyWith('or', async t => {
    const failing = research('a', { calls: [deeper('d', { calls: [ask('q1')] }, { error: 'context' })] });
    const client = await t.begin([{ calls: [failing, research('b', { calls: [ask('q2')] }, { calls: [ask('q3')] })] }]);
    await together(t, client, [['q1', 'text'], ['q2', 'text']], 'client calls');
    const answered = ['q1 ask_user:output-available', 'q2 ask_user:output-available'];
    await waits(t, client, ['a research:output-available!', ...answered, 'q3 ask_user:input-available'], ['q3']);
    await together(t, client, [['q3', 'text']], 'client calls');
    await ends(t, client, {
      posts: 3,
      parts: ['a research:output-available!', 'b research:output-available!', ...answered, 'q3 ask_user:output-available'],
      results: { a: { d: 'error' }, b: { q2: 'ok', q3: 'ok' } },
      effects: [],
      history: ['user', 'assistant a b', 'tool a:ok b:ok', 'assistant'],
    });
  }),

  'progress of a sub-agent is seen while it works': unanswered(async t => {
    const client = t.open();
    client.send(script([{ calls: [research('r', { calls: [deeper('d', { calls: [t.heldCall] })] })] }]));
    const running = ({ type, data }) => type === 'data-subagent' && data.status === 'running';
    await client.until(() => client.dataParts.filter(running).length === 2, 'both children say that they run');
    equal([...new Set(client.dataParts.map(({ data }) => `${data.toolCallId} ${data.tool}`))], ['r research'], 'whose progress it is');
    check(!client.part('r'), 'a part of the sub-agent before it is settled');
    await t.letGo();
    await t.finish(client, { posts: 1, parts: ['|', 'research:output-available!', '|', 'text'] });
  }),
};

export const withApprovals = {
  'one level with a client call and an approval': async t => {
    const client = await t.begin([{ calls: [research('r', { calls: [note('n')] }, { calls: [ask('q'), publish('p')] })] }]);
    await waits(t, client, ['p publish_note:approval-requested', 'q ask_user:input-available'], ['p', 'q']);
    await together(t, client, [['q', 'text'], ['p', 'yes']]);
    await ends(t, client, {
      posts: 2,
      parts: ['p publish_note:output-available!', 'q ask_user:output-available', 'r research:output-available!'],
      results: { r: { n: 'ok', q: 'ok', p: 'ok' } },
      effects: ['n', 'p'],
      history: ['user', 'assistant r', 'tool r:ok', 'assistant'],
    });
  },

  'three levels with a client call and an approval each': onlyWith('or', async t => {
    const client = await t.begin(LEVELS);
    await waits(t, client, ...LEVELS_WAIT);
    await together(t, client, LEVELS_ANSWERS);
    await levelsEnd(t, client, 2);
  }),

  'three levels with a client call and an approval each, reloaded': onlyWith('or', async t => {
    const page = await t.load({ sameAs: await t.begin(LEVELS) });
    await waits(t, page, ...LEVELS_WAIT);
    await together(t, page, LEVELS_ANSWERS.toReversed());
    await levelsEnd(t, page, 1);
  }),

  ...everyOrder('in one request', together),
  ...everyOrder('in parts, each after a reload', inParts, onSome),
  ...everyOrder('from elsewhere', elsewhere, onSome),

  'two children side by side, granted and denied in one request': onlyWith('or', t => siblings(t, ['pa', 'pb'], together)),
  'two children side by side, denied first and reloaded in between': onSome(onlyWith('or', t => siblings(t, ['pb', 'pa'], inParts))),
  'two children side by side, answered from elsewhere': onSome(onlyWith('or', t => siblings(t, ['pb', 'pa'], elsewhere))),

  'stop while three levels wait': onlyWith('or', async t => {
    const client = await t.begin(LEVELS);
    equal((await t.server.stop(t.chatId)).body.status, 'stopped', 'status of the stop');
    await together(t, client, LEVELS_ANSWERS);
    t.refusal(client, 409, { code: 'state_not_resumable', cause: 'run_stopped' });
    const page = await t.load();
    equal(shown(page.last), LEVELS_CLOSED, 'the stopped message');
    equal(await t.server.effects(t.chatId), ['n0', 'n1', 'n2'], 'calls that took effect');
    await nextTurn(t, page, [...LEVELS_HISTORY, 'tool loc:stopped mail:stopped r:stopped']);
    await t.finish(page, { posts: 1, turns: 2 });
  }),

  'a new message while three levels wait': onlyWith('or', async t => {
    const client = await t.begin(LEVELS);
    const late = await t.load();
    await nextTurn(t, client, [...LEVELS_HISTORY, 'tool loc:abandoned mail:abandoned r:abandoned']);
    const { messages } = await t.finish(client, { posts: 2, turns: 2, compare: 'turn' });
    equal(shown(messages[1]), LEVELS_CLOSED, 'the abandoned message');
    await together(t, late, LEVELS_ANSWERS);
    t.refusal(late, 409, { code: 'state_not_resumable', cause: 'stale_run' });
    equal(await t.server.effects(t.chatId), ['n0', 'n1', 'n2'], 'calls that took effect');
  }),
};
