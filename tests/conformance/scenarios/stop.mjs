// Stop, which is the server's own route: the client's stop() only closes a socket.

import { unanswered } from '../applies.mjs';
import { script } from '../cell.mjs';
import { check, equal } from '../failure.mjs';
import { storedOutline } from '../view.mjs';

const locate = { tool: 'get_location', input: {}, id: 'loc' };
const here = { lat: 38.7 };
const LONGER_MS = 600_000; // than any cell takes: the stop ends it

async function stop(t, expected = 'stopped') {
  const { status, body } = await t.server.stop(t.chatId);
  equal(status, 200, 'HTTP status of the stop');
  check([expected, 'running'].includes(body.status), () => `the stop answered ${JSON.stringify(body)}`);
  return body;
}

function aborted(client) {
  const types = client.exchanges.at(-1).chunks.map(chunk => chunk.type);
  equal(types.at(-1), 'abort', 'last chunk of a stopped run');
}

export default {
  'stop while text is told': unanswered(async t => {
    const client = t.open();
    client.send(script([t.heldText]));
    await client.until(() => client.telling, 'text arrives');
    await stop(t);
    const { status, run } = await t.finish(client, { posts: 1, parts: ['|', 'text'] });
    aborted(client);
    equal([status, run.status], ['idle', 'stopped'], 'status after the stop');
    check(t.heldText.text.startsWith(client.last.parts.at(-1).text), 'the text so far is kept');
  }),

  'stop while a server tool runs': unanswered(async t => {
    const client = t.open();
    client.send(script([{ text: 'Wait.', calls: [t.heldCall] }]));
    await client.until(() => client.shows('held'), 'the call is shown');
    await stop(t);
    await t.finish(client, { posts: 1, parts: ['|', 'text', 'hold:output-error!'] });
    aborted(client);
  }),

  'stop while a client tool waits, then another turn': unanswered(async t => {
    await t.begin([{ text: 'Where?', calls: [locate] }]);
    await stop(t);
    const page = await t.load();
    equal(storedOutline(page.last), ['|', 'text', 'get_location:output-error!'], 'the stopped message');
    await t.act(page, () => page.send(script([{ text: 'Fine.' }])), 1);
    await t.finish(page, { posts: 1, turns: 2, parts: ['|', 'text'] });
  }),

  'stop before the continuation has said anything': async t => {
    const client = await t.begin([{ calls: [locate] }, { first_ms: LONGER_MS, text: 'Never told.' }]);
    await t.give(client, 'client calls', () => client.answer('loc', here));
    const begun = () => client.posts === 2 && client.exchanges[1].chunks.some(chunk => chunk.type === 'start-step');
    await client.until(begun, 'the continuation begins');
    await stop(t);
    await t.finish(client, { posts: 2, parts: ['|', 'get_location:output-available'], emptySteps: true });
    aborted(client);
  },

  'stopped right after the answer, then replayed to another page': async t => {
    const client = await t.begin([{ calls: [locate] }, { first_ms: LONGER_MS, text: 'Never told.' }]);
    await t.give(client, 'client calls', () => client.answer('loc', here));
    await client.until(() => client.posts === 2 && client.exchanges[1].chunks.length > 0, 'the continuation begins');
    await stop(t);
    await client.settled();
    // The last stored step holds nothing but an answered call: a replay that ended on it would be sent again for ever.
    const page = t.open({ messages: client.exchanges[0].body.messages });
    await t.act(page, () => page.submit(), 1);
    await t.finish(page, { posts: 1, parts: ['|', 'get_location:output-available'], emptySteps: true });
    aborted(page);
  },

  'stop while the continuation is told': async t => {
    const client = await t.begin([{ calls: [locate] }, t.heldText]);
    await t.give(client, 'client calls', () => client.answer('loc', here));
    await client.until(() => client.telling, 'the continuation arrives');
    await stop(t);
    await t.finish(client, { posts: 2, parts: ['|', 'get_location:output-available', '|', 'text'] });
  },

  'stop, then retry': unanswered(async t => {
    const client = t.open();
    client.send(script([t.heldText]));
    await client.until(() => client.telling, 'text arrives');
    const { runId } = await stop(t);
    await client.settled();
    await t.letGo();
    await t.act(client, () => client.regenerate(), 1);
    const { run } = await t.finish(client, { posts: 2, parts: ['|', 'text'] });
    check(run.id !== runId && run.status === 'completed', () => `the retry is ${JSON.stringify(run)}`);
    equal(client.last.parts.at(-1).text, t.heldText.text, 'the whole text');
  }),

  'a late stop cannot stop the next run': unanswered(async t => {
    const client = await t.begin([{ text: 'One.' }]);
    const { run } = await t.snapshot();
    client.send(script([t.heldText]));
    await client.until(() => client.messages.length === 4 && client.telling, 'text arrives');
    const { status } = await t.server.stop(t.chatId, { runId: run.id });
    equal(status, 200, 'HTTP status of the stop');
    await t.letGo();
    await t.finish(client, { posts: 2, turns: 2, parts: ['|', 'text'] });
    equal(client.last.parts.at(-1).text, t.heldText.text, 'the whole text');
  }),

  'stop when all is over': unanswered(async t => {
    const client = await t.begin([{ text: 'One.' }]);
    const { status, body } = await t.server.stop(t.chatId);
    equal([status, 'error' in body], [200, false], 'the stop');
    await t.finish(client, { posts: 1, parts: ['|', 'text'] });
  }),
};
