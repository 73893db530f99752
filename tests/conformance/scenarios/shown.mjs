// Data parts and sources that a tool shows while it runs: in their first place, with their last value, once each.

import { unanswered } from '../applies.mjs';
import { script } from '../cell.mjs';
import { equal } from '../failure.mjs';

const locate = { tool: 'get_location', input: {}, id: 'loc' };
const here = { lat: 38.7 };

const data = (value, more = {}) => ({ data: 'chart', value, ...more });
const everything = [
  data(1, { id: 'one' }),
  data({ label: 'first' }),
  data(2, { id: 'one' }),
  data('unseen', { transient: true }),
  data({ label: 'second' }),
  { url: 'https://a.example', title: 'A' },
  { url: 'https://b.example' },
  { document: 'A paper', media_type: 'application/pdf', filename: 'a.pdf' },
  data(3, { id: 'one' }),
];
const parts = ['data-chart', 'data-chart', 'data-chart', 'source-url', 'source-url', 'source-document'];
const values = [3, { label: 'first' }, { label: 'second' }, 'https://a.example', 'https://b.example', 'A paper'];

const show = (input, id = 'show') => ({ tool: 'show', input, id });
const shown = client =>
  client.last.parts.filter(({ type }) => /^(data|source)-/.test(type)).map(part => part.data ?? part.url ?? part.title);
const transients = client => client.dataParts.filter(part => part.transient).map(part => part.data);

export default {
  'data and sources that a tool shows': unanswered(async t => {
    const client = await t.begin([{ calls: [show({ what: everything })] }]);
    equal([shown(client), transients(client)], [values, ['unseen']], 'what the page shows');
    await t.finish(client, { posts: 1, parts: ['|', 'show:output-available!', ...parts, '|', 'text'] });
    const page = await t.load({ sameAs: client });
    await t.act(page, () => page.send(script([{ text: 'Two.' }])), 1);
    await t.finish(page, { posts: 1, turns: 2, parts: ['|', 'text'] });
  }),

  'data that a tool of a sub-agent shows': unanswered(async t => {
    const topic = script([{ calls: [show({ what: everything })] }, { text: 'Found.' }]);
    const client = await t.begin([{ calls: [{ tool: 'research', input: { topic }, id: 'r' }] }]);
    equal(shown(client), values, 'what the page shows');
    await t.finish(client, { posts: 1, parts: ['|', ...parts, 'research:output-available!', '|', 'text'] });
  }),

  'reload while a tool shows data': unanswered(async t => {
    const live = t.open();
    live.send(script([{ calls: [show({ what: everything, gate: t.chatId, then: [data(4, { id: 'one' })] })] }]));
    await live.until(() => live.last?.role === 'assistant' && shown(live).length === values.length, 'the data arrives');
    const page = await t.join(client => client.last?.role === 'assistant' && shown(client).length === values.length);
    await t.letGo();
    const expected = { parts: ['|', 'show:output-available!', ...parts, '|', 'text'] };
    await Promise.all([t.finish(live, { ...expected, posts: 1 }), t.finish(page, { ...expected, posts: 0 })]);
    equal([shown(live), shown(page)], [[4, ...values.slice(1)], [4, ...values.slice(1)]], 'what the pages show');
  }),

  'a client call answered beside a tool that shows data': async t => {
    const client = await t.begin([{ calls: [locate, show({ what: everything })] }, { calls: [show({ what: [data(5, { id: 'one' })] }, 'again')] }]);
    await t.complete(client, 'client calls', () => client.answer('loc', here));
    equal(shown(client), [5, ...values.slice(1)], 'what the page shows');
    const tool = 'show:output-available!';
    await t.finish(client, { posts: 2, parts: ['|', 'get_location:output-available', tool, ...parts, '|', tool, '|', 'text'] });
  },

  'a page that was cut before the data came, and answers': async t => {
    const client = t.open();
    client.send(script([{ calls: [locate, show({ what: [], gate: t.chatId, then: everything })] }]));
    await client.until(() => client.shows('loc') && client.shows('show'), 'the calls are shown');
    await client.disconnect();
    await t.letGo();
    await t.rested();
    await t.act(client, () => client.answer('loc', here), 0); // the other call's result is on its way: no predicate sends
    await t.act(client, () => client.submit(), 1);
    equal(shown(client), values, 'what the page shows');
    await t.finish(client, { posts: 2, unstoredSteps: true });
  },
};
