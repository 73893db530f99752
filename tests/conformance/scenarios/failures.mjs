// Runs that fail after the 200, and a predicate that never stops sending.

import { unanswered } from '../applies.mjs';
import { script } from '../cell.mjs';
import { equal } from '../failure.mjs';
import { refusalOf } from '../wire.mjs';

const locate = { tool: 'get_location', input: {}, id: 'loc' };
const here = { lat: 38.7 };

/** The stream's last chunk is an error whose text is the typed body, and the client shows that body. */
function failedWith(client, code) {
  const { chunks } = client.exchanges.at(-1);
  equal(chunks.at(-1).type, 'error', 'last chunk of a failed run');
  const text = chunks.at(-1).errorText;
  equal(refusalOf({ status: 200, text }).code, code, 'code of the failure');
  equal(client.chat.error.message, text, 'chat.error');
  equal(client.finishes.at(-1).isError, true, 'isError of onFinish');
}

const row = (error, code, before = {}) =>
  unanswered(async t => {
    const client = await t.begin([{ ...before, error }]);
    failedWith(client, code);
    const parts = before.text ? ['|', 'text'] : undefined;
    const { status, run } = await t.finish(client, { posts: 1, parts, status: 'error' });
    equal([status, run.status], ['idle', 'failed'], 'status after the failure');
  });

export default {
  'run failure: the connection to the provider is lost': row('drop', 'provider_unavailable', { text: 'Half a sentence', chunks: 3 }),
  'run failure: the provider ends without a reason': row('no_finish', 'provider_bad_response', { text: 'Half a sentence', chunks: 3 }),
  'run failure: the provider is unavailable': row('unavailable', 'provider_unavailable'),
  'run failure: the provider limits the rate': row('rate_limited', 'provider_rate_limited'),
  'run failure: the context is too long': row('context', 'provider_context_too_long'),

  'run failure after a server tool': unanswered(async t => {
    const calls = [{ tool: 'get_weather', input: { city: 'Oslo' }, id: 'w' }];
    const client = await t.begin([{ text: 'Look.', calls }, { text: 'Half', chunks: 2, error: 'drop' }]);
    failedWith(client, 'provider_unavailable');
    const parts = ['|', 'text', 'get_weather:output-available!', '|', 'text'];
    await t.finish(client, { posts: 1, status: 'error', parts });
  }),

  'run failure in the continuation of an answer': async t => {
    const client = await t.begin([{ calls: [locate] }, { error: 'context' }]);
    await t.complete(client, 'client calls', () => client.answer('loc', here));
    failedWith(client, 'provider_context_too_long');
    await t.finish(client, { posts: 2, status: 'error', parts: ['|', 'get_location:output-available'], emptySteps: true });
  },

  'run failure, shown again to a retried POST': unanswered(async t => {
    const client = await t.begin([{ text: 'Half', chunks: 2, error: 'drop' }]);
    const again = t.open({ messages: client.exchanges[0].body.messages });
    await t.act(again, () => again.submit(), 1);
    failedWith(again, 'provider_unavailable');
    await t.finish(again, { posts: 1, status: 'error', parts: ['|', 'text'] });
  }),

  'run failure, then another turn': unanswered(async t => {
    const client = await t.begin([{ text: 'Half', chunks: 2, error: 'drop' }]);
    await t.act(client, () => client.send(script([{ text: 'Whole.' }])), 1);
    await t.finish(client, { posts: 2, turns: 2, parts: ['|', 'text'] });
  }),

  'run failure, then a retry': async t => {
    const client = await t.begin([{ calls: [locate] }, { text: 'Half', chunks: 2, error: 'drop' }]);
    await t.complete(client, 'client calls', () => client.answer('loc', here));
    await t.act(client, () => client.regenerate(), 1);
    await t.finish(client, { posts: 3, parts: ['|', 'get_location:input-available'] });
  },

  'a predicate that is always true ends in a visible refusal': unanswered(async t => {
    const client = t.open({ predicate: 'always' });
    client.send(script([{ text: 'Hello.' }]));
    await client.until(() => client.status === 'error', 'the breaker answers');
    t.refusal(client, 429, { code: 'rate_limited' });
    await t.finish(client, { posts: 7, status: 'error', compare: false });
  }),
};
