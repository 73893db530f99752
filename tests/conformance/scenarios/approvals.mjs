// Server tools that wait for a yes. ai 5 has no approvals, so none of these runs there.

import { onlyWith } from '../applies.mjs';
import { script } from '../cell.mjs';
import { equal } from '../failure.mjs';

export const email = (id = 'mail') => ({ tool: 'send_email', input: { to: 'ada@example.org', subject: 'Hi', body: 'Hello.' }, id });
const weather = (id = 'w') => ({ tool: 'get_weather', input: { city: 'Oslo' }, id });

const outcomes = results => results?.map(({ id, outcome }) => `${id} ${outcome}`);

async function lastOutcomes(t, client, expected) {
  const text = client.last.parts.at(-1).text;
  equal(outcomes(JSON.parse(text.slice('done '.length))), expected, 'outcomes the model was given');
}

export default {
  'approval granted': async t => {
    const client = await t.begin([{ text: 'I will send it.', calls: [email()] }]);
    await t.complete(client, 'approvals', () => client.decide('mail', true));
    await t.finish(client, { posts: 2, parts: ['|', 'text', 'send_email:output-available!', '|', 'text'] });
    equal(client.part('mail').approval.approved, true, 'approval of the part');
    await lastOutcomes(t, client, ['mail ok']);
  },

  'approval denied': async t => {
    const client = await t.begin([{ calls: [email()] }]);
    await t.complete(client, 'approvals', () => client.decide('mail', false, 'not today'));
    const results = [{ id: 'mail', outcome: 'denied', value: 'not today' }];
    await t.finish(client, { posts: 2, parts: ['|', 'send_email:output-denied', '|', 'text'], results });
  },

  'approval denied without a reason, then another turn': async t => {
    const client = await t.begin([{ calls: [email()] }]);
    await t.complete(client, 'approvals', () => client.decide('mail', false));
    await t.act(client, () => client.send(script([{ text: 'Fine.' }])), 1);
    await t.finish(client, { posts: 3, turns: 2, parts: ['|', 'text'] });
  },

  'two approvals, one granted and one denied': async t => {
    const client = await t.begin([{ calls: [email('yes'), email('no')] }]);
    await t.act(client, () => client.decide('no', false), 0);
    await t.complete(client, 'approvals', () => client.decide('yes', true));
    const parts = ['|', 'send_email:output-available!', 'send_email:output-denied', '|', 'text'];
    await t.finish(client, { posts: 2, parts });
    await lastOutcomes(t, client, ['yes ok', 'no denied']);
  },

  'two approvals decided in one tick': async t => {
    const client = await t.begin([{ calls: [email('a'), email('b')] }]);
    await t.complete(client, 'approvals', () => Promise.all([client.decide('a', true), client.decide('b', true)]));
    const parts = ['|', 'send_email:output-available!', 'send_email:output-available!', '|', 'text'];
    await t.finish(client, { posts: 2, parts });
  },

  'approval beside a finished server tool': async t => {
    const client = await t.begin([{ calls: [weather(), email()] }]);
    await t.complete(client, 'approvals', () => client.decide('mail', true));
    const parts = ['|', 'get_weather:output-available!', 'send_email:output-available!', '|', 'text'];
    await t.finish(client, { posts: 2, parts });
  },

  'approvals in two steps of one turn': async t => {
    const client = await t.begin([{ calls: [email('first')] }, { text: 'Another.', calls: [email('second')] }]);
    await t.complete(client, 'approvals', () => client.decide('first', true));
    await t.complete(client, 'approvals', () => client.decide('second', false));
    const parts = ['|', 'send_email:output-available!', '|', 'text', 'send_email:output-denied', '|', 'text'];
    await t.finish(client, { posts: 3, parts });
  },

  'an approval step after a client step': async t => {
    const client = await t.begin([{ calls: [{ tool: 'get_location', input: {}, id: 'loc' }] }, { calls: [email()] }]);
    await t.complete(client, 'client calls', () => client.answer('loc', { lat: 1 }));
    await t.complete(client, 'approvals', () => client.decide('mail', true));
    const parts = ['|', 'get_location:output-available', '|', 'send_email:output-available!', '|', 'text'];
    await t.finish(client, { posts: 3, parts });
  },

  'a stock predicate that never sends an approval': onlyWith('tool-calls', async t => {
    const client = await t.begin([{ calls: [email()] }]);
    await t.act(client, () => client.decide('mail', true), 0);
    const { status } = await t.finish(client, { posts: 1, parts: ['|', 'send_email:approval-responded'], compare: false });
    equal(status, 'suspended', 'status of the run');
  }),
};
