// The same message posted again: by a retry button, after a lost response, by another page.

import { unanswered } from '../applies.mjs';
import { script } from '../cell.mjs';
import { check, equal } from '../failure.mjs';

const locate = { tool: 'get_location', input: {}, id: 'loc' };
const here = { lat: 38.7 };

/** A page that holds only the person's message, exactly as the first page posted it. */
const again = (t, client) => t.open({ messages: client.exchanges[0].body.messages });

export default {
  'retried POST attaches to the live run': unanswered(async t => {
    const first = t.open();
    first.send(script([t.heldText]));
    await first.until(() => first.telling, 'text arrives');
    const second = again(t, first);
    second.submit();
    await second.until(() => second.telling, 'the retry is attached');
    await t.letGo();
    const expected = { posts: 1, parts: ['|', 'text'] };
    const [snapshot] = await Promise.all([t.finish(first, expected), t.finish(second, expected)]);
    equal(snapshot.messages.length, 2, 'stored messages');
    equal(second.last.id, first.last.id, 'message id');
  }),

  'retried POST of a settled turn is replayed': unanswered(async t => {
    const first = await t.begin([{ calls: [{ tool: 'get_weather', input: { city: 'Oslo' }, id: 'w' }] }, { text: 'Mild.' }]);
    const { run } = await t.snapshot();
    const second = again(t, first);
    await t.act(second, () => second.submit(), 1);
    const snapshot = await t.finish(second, { posts: 1, parts: ['|', 'get_weather:output-available!', '|', 'text'] });
    equal([snapshot.run.id, snapshot.messages.length], [run.id, 2], 'the run and the stored messages');
  }),

  'retried POST of a waiting turn, then answered': async t => {
    const second = again(t, await t.begin([{ text: 'Where?', calls: [locate] }]));
    await t.act(second, () => second.submit(), 1);
    equal(second.part('loc').state, 'input-available', 'the replayed call');
    await t.complete(second, 'client calls', () => second.answer('loc', here));
    await t.finish(second, { posts: 2, parts: ['|', 'text', 'get_location:output-available', '|', 'text'] });
  },

  'retried POST after the call was answered elsewhere runs nothing again': async t => {
    const first = await t.begin([{ calls: [locate] }, { text: 'Thanks.' }]);
    await t.complete(first, 'client calls', () => first.answer('loc', here));
    const second = again(t, first);
    await t.act(second, () => second.submit(), 1);
    equal(second.toolCalls, [], 'calls that the replay gave the page to run again');
    await t.finish(second, { posts: 1, parts: ['|', 'get_location:output-available', '|', 'text'] });
  },

  'a lost response, then sent again': unanswered(async t => {
    const client = t.open();
    client.loseNextResponse();
    await t.act(client, () => client.send(script([t.heldText])), 1);
    equal(client.status, 'error', 'status after the lost response');
    client.submit();
    await client.until(() => client.telling, 'the repeat is attached');
    await t.letGo();
    const { messages } = await t.finish(client, { posts: 2, parts: ['|', 'text'] });
    equal(messages.length, 2, 'stored messages');
  }),

  'a lost response to an answer, then sent again': async t => {
    const client = await t.begin([{ calls: [locate] }, t.heldText]);
    client.loseNextResponse();
    await t.give(client, 'client calls', () => client.answer('loc', here));
    await client.until(() => client.status === 'error', 'the response is lost');
    client.submit();
    await client.until(() => client.telling, 'the repeat is attached');
    await t.letGo();
    await t.finish(client, { posts: 3, parts: ['|', 'get_location:output-available', '|', 'text'] });
  },

  'retry button while the run is live': unanswered(async t => {
    const client = t.open();
    client.send(script([t.heldText]));
    await client.until(() => client.telling, 'text arrives');
    await client.disconnect();
    await client.settled();
    client.regenerate();
    await client.until(() => client.posts === 2 && client.telling, 'the retry is attached');
    await t.letGo();
    const { messages } = await t.finish(client, { posts: 2, parts: ['|', 'text'] });
    check(messages.length === 2, `${messages.length} stored messages`);
  }),

  'send again after stop() of the page': unanswered(async t => {
    const client = t.open();
    client.send(script([t.heldText]));
    await client.until(() => client.telling, 'text arrives');
    await client.disconnect();
    await client.settled();
    // The last message is the assistant's half: there is nothing to answer, and a B would say that the turn is over.
    await t.act(client, () => client.submit(), 1);
    t.refusal(client, 409, { code: 'state_run_active' });
    await t.letGo();
    await t.finish(client, { posts: 2, status: 'error', compare: false });
  }),
};
