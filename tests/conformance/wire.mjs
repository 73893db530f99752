// One HTTP exchange as the client saw it: the chunks of its event stream and how the stream ended.

import { check } from './failure.mjs';

/**
 * Wraps a response so that its event stream is recorded while the client reads it.
 * `exchange` gains `chunks`, `done` (the [DONE] line was seen), `closed` (the body ended cleanly) and `faults` (broken lines).
 */
export function record(response, exchange) {
  exchange.status = response.status;
  exchange.responseHeaders = response.headers;
  exchange.chunks = [];
  exchange.faults = [];
  exchange.done = false;
  exchange.closed = false;
  if (!response.body) return response;
  if (!response.ok) return recordText(response, exchange);

  const [forClient, forRecord] = response.body.tee();
  exchange.ended = readStream(forRecord, exchange);
  return new Response(forClient, { status: response.status, headers: response.headers });
}

// A branch of its own, so that the end of a stream is seen even by a client that stops reading at an error.
async function readStream(body, exchange) {
  const decoder = new TextDecoder();
  let rest = '';
  try {
    for await (const bytes of body) {
      const lines = (rest + decoder.decode(bytes, { stream: true })).split('\n');
      rest = lines.pop();
      for (const line of lines) readLine(line, exchange);
    }
    exchange.closed = true;
    if (rest) exchange.faults.push(`the body ends within a line: ${rest.slice(0, 80)}`);
  } catch (error) {
    exchange.failure = error;
  }
}

async function recordText(response, exchange) {
  exchange.text = await response.text();
  exchange.closed = true;
  return new Response(exchange.text, { status: response.status, headers: response.headers });
}

function readLine(line, exchange) {
  if (line === '' || line.startsWith(':')) return;
  if (!line.startsWith('data: ')) {
    exchange.faults.push(`a line that is neither data nor a comment: ${JSON.stringify(line.slice(0, 80))}`);
    return;
  }
  const data = line.slice('data: '.length);
  if (data === '[DONE]') {
    exchange.done = true;
    return;
  }
  exchange.chunks.push(JSON.parse(data));
}

/** The JSON body of a refusal; anything else than an object with `error` and `code` fails the cell. */
export function refusalOf(exchange) {
  let body;
  try {
    body = JSON.parse(exchange.text);
  } catch {
    check(false, () => `refusal: the body of a ${exchange.status} is not JSON: ${exchange.text?.slice(0, 200)}`);
  }
  check(typeof body.error === 'string' && body.error !== '', () => `refusal: no public sentence in ${exchange.text}`);
  const extra = Object.keys(body).filter(key => !['error', 'code', 'cause', 'toolCallIds'].includes(key));
  check(extra.length === 0, () => `refusal: keys that the contract does not name: ${exchange.text}`);
  return body;
}
