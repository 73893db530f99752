// Calls that a sub-agent makes appear in the root's message and are answered like its own.

import { unanswered } from '../applies.mjs';
import { script } from '../cell.mjs';
import { equal } from '../failure.mjs';
import { isTool, toolName } from '../view.mjs';

const locate = { tool: 'get_location', input: {}, id: 'loc' };
const here = { lat: 38.7 };
const ask = id => ({ tool: 'ask_user', input: { question: 'Sure?' }, id });
const publish = id => ({ tool: 'publish_note', input: { title: 'Notes' }, id });

const research = (id, steps) => ({ tool: 'research', input: { topic: script(steps) }, id });

/** Tool parts by call id, wherever they stand in the message. */
const states = client =>
  Object.fromEntries(client.last.parts.filter(isTool).map(part => [part.toolCallId, `${toolName(part)}:${part.state}${part.providerExecuted ? '!' : ''}`]));

export default {
  'sub-agent that needs nobody': unanswered(async t => {
    const search = { tool: 'search_notes', input: { query: 'x' }, id: 'search' };
    const client = await t.begin([{ calls: [research('r', [{ calls: [search] }, { text: 'Found.' }])] }]);
    await t.finish(client, { posts: 1, parts: ['|', 'research:output-available!', '|', 'text'] });
  }),

  'client call of a sub-agent answered': async t => {
    const client = await t.begin([{ calls: [research('r', [{ calls: [ask('q')] }])] }]);
    equal(states(client), { q: 'ask_user:input-available' }, 'what the page shows');
    await t.complete(client, 'client calls', () => client.answer('q', 'yes'));
    equal(states(client), { q: 'ask_user:output-available', r: 'research:output-available!' }, 'what the page shows');
    await t.finish(client, { posts: 2 });
  },

  'client call of a sub-agent answered after a reload': async t => {
    const page = await t.load({ sameAs: await t.begin([{ calls: [research('r', [{ calls: [ask('q')] }])] }]) });
    await t.complete(page, 'client calls', () => page.answer('q', 'yes'));
    equal(states(page), { q: 'ask_user:output-available', r: 'research:output-available!' }, 'what the page shows');
    await t.finish(page, { posts: 1 });
  },

  'client calls of the agent and of its sub-agent answered together': async t => {
    const client = await t.begin([{ calls: [locate, research('r', [{ calls: [ask('q')] }])] }]);
    await t.act(client, () => client.answer('loc', here), 0);
    await t.complete(client, 'client calls', () => client.answer('q', 'yes'));
    const expected = { loc: 'get_location:output-available', q: 'ask_user:output-available', r: 'research:output-available!' };
    equal(states(client), expected, 'what the page shows');
    await t.finish(client, { posts: 2 });
  },

  'two steps of a sub-agent that both ask': async t => {
    const client = await t.begin([{ calls: [research('r', [{ calls: [ask('q1')] }, { calls: [ask('q2')] }])] }]);
    await t.complete(client, 'client calls', () => client.answer('q1', 'yes'));
    await t.complete(client, 'client calls', () => client.answer('q2', 'no'));
    const expected = { q1: 'ask_user:output-available', q2: 'ask_user:output-available', r: 'research:output-available!' };
    equal(states(client), expected, 'what the page shows');
    await t.finish(client, { posts: 3 });
  },
};

export const withApprovals = {
  'approval of a sub-agent granted': async t => {
    const client = await t.begin([{ calls: [research('r', [{ calls: [publish('p')] }])] }]);
    equal(states(client), { p: 'publish_note:approval-requested' }, 'what the page shows');
    await t.complete(client, 'approvals', () => client.decide('p', true));
    equal(states(client), { p: 'publish_note:output-available!', r: 'research:output-available!' }, 'what the page shows');
    await t.finish(client, { posts: 2 });
  },

  'approval of a sub-agent beside a client call, reloaded': async t => {
    const page = await t.load({ sameAs: await t.begin([{ calls: [locate, research('r', [{ calls: [publish('p')] }])] }]) });
    await t.act(page, () => page.decide('p', false), 0);
    await t.complete(page, 'both', () => page.answer('loc', here));
    const expected = { loc: 'get_location:output-available', p: 'publish_note:output-denied', r: 'research:output-available!' };
    equal(states(page), expected, 'what the page shows');
    await t.finish(page, { posts: 1 });
  },
};
