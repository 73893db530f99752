// A client call and an approval in one step: the predicate table, live and reloaded, in either order, whole.

import { equal } from '../failure.mjs';
import { email } from './approvals.mjs';

const locate = { tool: 'get_location', input: {}, id: 'loc' };
const here = { lat: 38.7 };

const ACTIONS = {
  'client call': client => client.answer('loc', here),
  approval: client => client.decide('mail', true),
  denial: client => client.decide('mail', false),
};

/*
 * | predicate  | after the first answer | after the second  |
 * | approvals  | nothing is sent        | one POST, of both |
 * | or         | nothing is sent        | one POST, of both |
 * | tool-calls | nothing is sent        | nothing is sent   |
 */
function row(order, reloaded, calls = [locate, email()]) {
  return async t => {
    let client = await t.begin([{ text: 'Two things.', calls }]);
    let posts = 1;
    if (reloaded) {
      client = await t.load({ sameAs: client });
      posts = 0;
    }
    await t.act(client, () => ACTIONS[order[0]](client), 0);
    await t.act(client, () => ACTIONS[order[1]](client), t.sends('both'));
    if (t.sends('both') === 0) {
      const snapshot = await t.snapshot();
      equal([snapshot.status, snapshot.pending.length], ['suspended', 2], 'nothing was sent, so both calls are pending');
      await t.act(client, () => client.submit(), 1);
    }
    const sent = client.exchanges.at(-1).body.messages.at(-1).parts.map(part => part.state).filter(Boolean);
    equal(sent.filter(state => state === 'output-available' || state === 'approval-responded').length, 2, 'answers in the POST');

    const settled = order.includes('denial') ? 'send_email:output-denied' : 'send_email:output-available!';
    const tools = calls.map(call => (call === locate ? 'get_location:output-available' : settled));
    await t.finish(client, { posts: posts + 1, parts: ['|', 'text', ...tools, '|', 'text'] });
  };
}

function stepwise(first) {
  return async t => {
    let client = await t.begin([{ calls: [locate, email()] }]);
    await t.act(client, () => ACTIONS[first](client), 0);
    // The page is left with one answer given and never sent: it is gone, and both calls are still open.
    client = await t.load();
    await t.act(client, () => ACTIONS[first](client), 0);
    const second = first === 'approval' ? 'client call' : 'approval';
    await t.complete(client, 'both', () => ACTIONS[second](client));
    const parts = ['|', 'get_location:output-available', 'send_email:output-available!', '|', 'text'];
    await t.finish(client, { posts: 1, parts });
  };
}

export default {
  'client call then approval, live': row(['client call', 'approval'], false),
  'approval then client call, live': row(['approval', 'client call'], false),
  'client call then approval, reloaded': row(['client call', 'approval'], true),
  'approval then client call, reloaded': row(['approval', 'client call'], true),
  'client call then denial, live': row(['client call', 'denial'], false),
  'denial then client call, reloaded': row(['denial', 'client call'], true),
  'the approval is called first in the step, live': row(['client call', 'approval'], false, [email(), locate]),
  'the approval is called first in the step, reloaded': row(['approval', 'client call'], true, [email(), locate]),
  'reloaded between the two answers': stepwise('client call'),
  'reloaded between the approval and the answer': stepwise('approval'),

  'client call and approval decided in one tick': async t => {
    const client = await t.begin([{ calls: [locate, email()] }]);
    await t.complete(client, 'both', () => Promise.all([ACTIONS['client call'](client), ACTIONS.approval(client)]));
    await t.finish(client, { posts: 2, parts: ['|', 'get_location:output-available', 'send_email:output-available!', '|', 'text'] });
  },
};
