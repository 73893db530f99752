// Turns without anybody's help: text, server tools, several steps, tools that fail.

import { unanswered } from '../applies.mjs';
import { script } from '../cell.mjs';
import { check, equal } from '../failure.mjs';

const weather = (id, city = 'Lisbon') => ({ tool: 'get_weather', input: { city }, id });

export default {
  'plain turn': unanswered(async t => {
    const client = await t.begin([{ text: 'Hello there.' }]);
    await t.finish(client, { posts: 1, parts: ['|', 'text'] });
    equal(client.last.parts.at(-1).text, 'Hello there.', 'text');
  }),

  'plain turn in many chunks with reasoning': unanswered(async t => {
    const client = await t.begin([{ reasoning: 'Think first.', text: 'Then speak.', chunks: 6, delay_ms: 10 }]);
    await t.finish(client, { posts: 1, parts: ['|', 'reasoning', 'text'] });
    equal(client.last.parts.at(-1).text, 'Then speak.', 'text');
  }),

  'two turns': unanswered(async t => {
    const client = await t.begin([{ text: 'One.' }]);
    await t.act(client, () => client.send(script([{ calls: [weather('w1')] }])), 1);
    await t.finish(client, { posts: 2, turns: 2, parts: ['|', 'get_weather:output-available!', '|', 'text'] });
  }),

  'server tool': unanswered(async t => {
    const client = await t.begin([{ text: 'Let me look.', calls: [weather('w1')] }]);
    await t.finish(client, { posts: 1, parts: ['|', 'text', 'get_weather:output-available!', '|', 'text'] });
  }),

  'multi-step turn': unanswered(async t => {
    const client = await t.begin([
      { text: 'First.', calls: [weather('w1')] },
      { text: 'Second.', calls: [weather('w2', 'Oslo'), { tool: 'slow', input: { ms: 60 }, id: 's1' }] },
      { calls: [weather('w3', 'Rome')] },
      { text: 'The end.' },
    ]);
    const tool = 'get_weather:output-available!';
    const parts = ['|', 'text', tool, '|', 'text', tool, 'slow:output-available!', '|', tool, '|', 'text'];
    await t.finish(client, { posts: 1, parts });
  }),

  'failed server tool, with a public text': unanswered(async t => {
    const client = await t.begin([{ calls: [{ tool: 'fail', input: { kind: 'public' }, id: 'f1' }, weather('w1')] }]);
    const parts = ['|', 'fail:output-error!', 'get_weather:output-available!', '|', 'text'];
    const { messages } = await t.finish(client, { posts: 1, parts });
    check(client.part('f1').errorText === messages.at(-1).parts[1].errorText, 'errorText differs after a reload');
  }),

  'failed server tool, with a private text': unanswered(async t => {
    const client = await t.begin([{ calls: [{ tool: 'fail', input: { kind: 'private' }, id: 'f1' }] }]);
    await t.finish(client, { posts: 1, parts: ['|', 'fail:output-error!', '|', 'text'] });
  }),

  'failed server tool, timed out': unanswered(async t => {
    const client = await t.begin([{ calls: [{ tool: 'fail', input: { kind: 'timeout' }, id: 'f1' }] }]);
    await t.finish(client, { posts: 1, parts: ['|', 'fail:output-error!', '|', 'text'] });
  }),

  'arguments that the schema refuses, and a tool that does not exist': unanswered(async t => {
    const calls = [
      { tool: 'get_weather', input: { town: 1 }, id: 'bad' },
      { tool: 'no_such_tool', input: { a: 1 }, id: 'ghost' },
    ];
    const client = await t.begin([{ calls }]);
    const parts = ['|', 'get_weather:output-error!', 'no_such_tool:output-error!', '|', 'text'];
    await t.finish(client, { posts: 1, parts });
    equal(client.part('bad').input, { town: 1 }, 'raw input');
  }),

  'a provider that repeats a call id': unanswered(async t => {
    const client = await t.begin([{ calls: [weather('same')] }, { calls: [weather('same', 'Oslo')] }]);
    const tool = 'get_weather:output-available!';
    await t.finish(client, { posts: 1, parts: ['|', tool, '|', tool, '|', 'text'] });
    const ids = client.last.parts.filter(part => part.toolCallId).map(part => part.toolCallId);
    equal(ids, ['same', 'same_2'], 'stored call ids');
  }),
};
