// Server tools that begin, and ask while they run: for a yes, or for an output from elsewhere.

import { onSome } from '../applies.mjs';
import { script } from '../cell.mjs';
import { equal } from '../failure.mjs';

const locate = { tool: 'get_location', input: {}, id: 'loc' };
const weather = { tool: 'get_weather', input: { city: 'Oslo' }, id: 'w' };
const here = { lat: 38.7 };
const asks = id => ({ tool: 'asks', input: {}, id });
const defers = { tool: 'defers', input: {}, id: 'later' };

export default {
  'an output from elsewhere, given by the page': async t => {
    const client = await t.begin([{ calls: [defers, weather] }]);
    equal(client.part('later').state, 'input-available', 'the call that waits');
    await t.complete(client, 'client calls', () => client.answer('later', 42));
    const results = [
      { id: 'later', outcome: 'ok', value: 42 },
      { id: 'w', outcome: 'ok', value: client.part('w').output },
    ];
    await t.finish(client, { posts: 2, parts: ['|', 'defers:output-available', 'get_weather:output-available!', '|', 'text'], results });
  },

  'an output from elsewhere, and the page is loaded anew': async t => {
    const shown = await t.begin([{ calls: [defers] }]);
    await t.load({ sameAs: shown });
    const { status } = await t.server.answers(t.chatId, [{ toolCallId: 'later', output: 42 }]);
    equal(status, 200, 'status of the answer');
    await t.rested();
    const page = await t.load();
    await t.finish(page, { posts: 0, parts: ['|', 'defers:output-available', '|', 'text'] });
  },
};

export const withApprovals = {
  'a yes for a tool that has begun': async t => {
    const client = await t.begin([{ text: 'Careful.', calls: [asks('a'), weather] }]);
    const { state, providerExecuted } = client.part('a');
    equal([state, providerExecuted], ['approval-requested', undefined], 'the call that waits');
    await t.complete(client, 'approvals', () => client.decide('a', true));
    await t.finish(client, { posts: 2, parts: ['|', 'text', 'asks:output-available!', 'get_weather:output-available!', '|', 'text'] });
  },

  'a no for a tool that has begun, beside a client call, reloaded': async t => {
    const page = await t.load({ sameAs: await t.begin([{ calls: [asks('a'), locate] }]) });
    await t.act(page, () => page.answer('loc', here), 0);
    await t.complete(page, 'both', () => page.decide('a', false, 'no'));
    await t.finish(page, { posts: 1, parts: ['|', 'asks:output-denied', 'get_location:output-available', '|', 'text'] });
  },

  'a sub-agent whose tools ask, step after step': onSome(async t => {
    const topic = script([{ calls: [asks('one')] }, { calls: [asks('two')] }]);
    const client = await t.begin([{ calls: [{ tool: 'research', input: { topic }, id: 'r' }] }]);
    await t.complete(client, 'approvals', () => client.decide('one', true));
    await t.complete(client, 'approvals', () => client.decide('two', true));
    await t.finish(client, { posts: 3 });
  }),

  'a page that is loaded while the tool has asked and its sibling runs': async t => {
    const live = t.open();
    live.send(script([{ calls: [asks('a'), t.heldCall] }]));
    const asked = client => client.part('a')?.state === 'approval-requested';
    await live.until(asked, 'the request is shown');
    const page = await t.join(asked);
    await t.letGo();
    await Promise.all([live.settled(), page.settled()]);
    await t.complete(page, 'approvals', () => page.decide('a', true));
    const parts = ['|', 'asks:output-available!', 'hold:output-available!', '|', 'text'];
    await t.finish(page, { posts: 1, parts });
  },
};
