// The line below the composer: what one needs to find this chat in the log.

import type { ChatStatus } from 'ai';
import type { Snapshot } from './api.ts';

export function statusWord({ status, error, truth }: { status: ChatStatus; error: unknown; truth: Snapshot | null }): string {
  if (error !== undefined) return 'error';
  if (status === 'submitted') return 'sending';
  if (status === 'streaming') return 'streaming';
  const run = truth?.run?.status;
  return run === 'suspended' ? 'waiting for you' : (run ?? 'ready');
}

export function Facts({ id, runId, word }: { id: string; runId: string | undefined; word: string }) {
  return (
    <footer className="facts">
      <span title={id}>
        session <b data-fact="session">{id}</b>
      </span>
      <span title={runId}>
        run <b data-fact="run">{runId ?? '–'}</b>
      </span>
      <span className={`state ${word.replaceAll(' ', '-')}`}>
        <b data-fact="status">{word}</b>
      </span>
    </footer>
  );
}
