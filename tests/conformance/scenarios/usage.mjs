// What a turn has used, in the message's metadata: the page has the same live, after a reload and however the turn ends.

import { unanswered } from '../applies.mjs';
import { script } from '../cell.mjs';
import { equal } from '../failure.mjs';

const locate = { tool: 'get_location', input: {}, id: 'loc' };
const here = { lat: 38.7 };
const weather = { tool: 'get_weather', input: { city: 'Oslo' }, id: 'w' };

const counted = { prepare: ({ id, messages, trigger, messageId }) => ({ id, messages, trigger, messageId, agent: 'counted' }) };
const requests = client => client.last.metadata?.usage?.requests;

export default {
  'usage of a turn with a sub-agent': unanswered(async t => {
    const topic = script([{ calls: [{ tool: 'search_notes', input: { query: 'x' }, id: 's' }] }, { text: 'Found.' }]);
    const client = await t.begin([{ calls: [{ tool: 'research', input: { topic }, id: 'r' }] }], counted);
    equal(requests(client), 4, 'model requests of the tree');
    await t.finish(client, { posts: 1, parts: ['|', 'research:output-available!', '|', 'text'] });
  }),

  'usage of a turn that a person answers': async t => {
    const page = await t.load({ ...counted, sameAs: await t.begin([{ calls: [locate] }], counted) });
    equal(requests(page), 1, 'model requests before the answer');
    await t.complete(page, 'client calls', () => page.answer('loc', here));
    equal(requests(page), 2, 'model requests after it');
    await t.finish(page, { posts: 1, parts: ['|', 'get_location:output-available', '|', 'text'] });
  },

  'usage on a page that is loaded in mid-run': unanswered(async t => {
    const live = t.open(counted);
    live.send(script([{ calls: [weather] }, t.heldText]));
    await live.until(() => live.telling, 'text arrives');
    const page = await t.join();
    equal([requests(live), requests(page)], [1, 1], 'model requests so far');
    await t.letGo();
    const expected = { parts: ['|', 'get_weather:output-available!', '|', 'text'] };
    await Promise.all([t.finish(live, { ...expected, posts: 1 }), t.finish(page, { ...expected, posts: 0 })]);
    equal([requests(live), requests(page)], [2, 2], 'model requests in all');
  }),

  'usage of a turn that fails': unanswered(async t => {
    const client = await t.begin([{ calls: [weather] }, { text: 'Half', error: 'context' }], counted);
    equal(requests(client), 1, 'model requests that were committed');
    await t.finish(client, { posts: 1, status: 'error', compare: false });
    const page = await t.load();
    equal(page.last.metadata, client.last.metadata, 'the metadata after a reload');
  }),
};
