// Calls that the page itself executes.

import { script } from '../cell.mjs';
import { equal } from '../failure.mjs';
import { reportedResults } from '../view.mjs';

const locate = (id = 'loc') => ({ tool: 'get_location', input: {}, id });
const pick = (id = 'pick') => ({ tool: 'pick_option', input: { question: 'Which?', options: ['a', 'b'] }, id });
const here = { lat: 38.7, lng: -9.1 };
const ok = (id, value) => ({ id, outcome: 'ok', value });

export default {
  'client tool answered': async t => {
    const client = await t.begin([{ text: 'Where are you?', calls: [locate()] }]);
    await t.complete(client, 'client calls', () => client.answer('loc', here));
    const parts = ['|', 'text', 'get_location:output-available', '|', 'text'];
    await t.finish(client, { posts: 2, parts, results: [ok('loc', here)] });
  },

  'client tool failed': async t => {
    const client = await t.begin([{ calls: [locate()] }]);
    await t.complete(client, 'client calls', () => client.answerError('loc', 'permission denied by the person'));
    const results = [{ id: 'loc', outcome: 'error', value: 'permission denied by the person' }];
    await t.finish(client, { posts: 2, parts: ['|', 'get_location:output-error', '|', 'text'], results });
  },

  'client tool answered with nothing': async t => {
    const client = await t.begin([{ calls: [locate()] }]);
    await t.complete(client, 'client calls', () => client.answer('loc', undefined));
    await t.finish(client, { posts: 2, parts: ['|', 'get_location:output-available', '|', 'text'], results: [ok('loc', null)] });
  },

  'two client tools answered in one tick': async t => {
    const client = await t.begin([{ calls: [locate(), pick()] }]);
    const both = () => Promise.all([client.answer('loc', here), client.answer('pick', 'a')]);
    await t.complete(client, 'client calls', both);
    const parts = ['|', 'get_location:output-available', 'pick_option:output-available', '|', 'text'];
    await t.finish(client, { posts: 2, parts, results: [ok('loc', here), ok('pick', 'a')] });
  },

  'two client tools answered one after the other': async t => {
    const client = await t.begin([{ calls: [locate(), pick()] }]);
    await t.act(client, () => client.answer('pick', 'b'), 0);
    await t.complete(client, 'client calls', () => client.answer('loc', here));
    const parts = ['|', 'get_location:output-available', 'pick_option:output-available', '|', 'text'];
    await t.finish(client, { posts: 2, parts, results: [ok('loc', here), ok('pick', 'b')] });
  },

  'client tools in three steps of one turn': async t => {
    const client = await t.begin([{ calls: [locate('a')] }, { text: 'And now?', calls: [pick('b')] }, { calls: [locate('c')] }]);
    await t.complete(client, 'client calls', () => client.answer('a', here));
    await t.complete(client, 'client calls', () => client.answer('b', 'a'));
    await t.complete(client, 'client calls', () => client.answer('c', here));
    const tool = 'get_location:output-available';
    const parts = ['|', tool, '|', 'text', 'pick_option:output-available', '|', tool, '|', 'text'];
    await t.finish(client, { posts: 4, parts, results: [ok('a', here), ok('b', 'a'), ok('c', here)] });
  },

  'client tool beside a server tool, answered after it': async t => {
    const client = await t.begin([{ calls: [{ tool: 'get_weather', input: { city: 'Oslo' }, id: 'w' }, locate()] }]);
    await t.complete(client, 'client calls', () => client.answer('loc', here));
    const parts = ['|', 'get_weather:output-available!', 'get_location:output-available', '|', 'text'];
    await t.finish(client, { posts: 2, parts });
  },

  'client tool answered while a server tool of the step still runs': async t => {
    const client = t.open();
    client.send(script([{ calls: [locate(), t.heldCall] }]));
    await client.until(() => client.shows('loc'), 'the call is shown');
    await client.answer('loc', here); // kept by the page until the stream ends
    await t.letGo();
    await client.settled();
    if (t.sends('client calls') === 0) await t.act(client, () => client.submit(), 1);
    const parts = ['|', 'get_location:output-available', 'hold:output-available!', '|', 'text'];
    await t.finish(client, { posts: 2, parts });
    equal(client.part('loc').output, here, 'the answer');
  },

  'answer sent while a server tool of the step still runs': async t => {
    const client = t.open();
    client.send(script([{ calls: [locate(), t.heldCall] }]));
    await client.until(() => client.shows('loc'), 'the call is shown');
    await client.disconnect();
    await client.settled();
    await client.answer('loc', here); // sent by no predicate, since the other call is open in this view
    client.submit();
    await client.until(() => client.exchanges[1]?.status === 200, 'the answer is taken');
    await t.letGo();
    await t.finish(client, { posts: 2, unstoredSteps: true });
    equal(client.part('held').state, 'output-available', 'the server tool');
    equal(reportedResults(client.last).map(({ id }) => id), ['loc', 'held'], 'results the model was given');
  },

  'answer sent after a server tool of the step ended unseen': async t => {
    const client = t.open();
    client.send(script([{ calls: [locate(), t.heldCall] }]));
    await client.until(() => client.shows('loc'), 'the call is shown');
    await client.disconnect();
    await t.letGo();
    await t.rested();
    await t.act(client, () => client.answer('loc', here), 0);
    await t.act(client, () => client.submit(), 1);
    await t.finish(client, { posts: 2, parts: ['|', 'get_location:output-available', 'hold:output-available!', '|', 'text'] });
  },
};
