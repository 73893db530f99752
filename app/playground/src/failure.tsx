// Every failure arrives as an Error whose text is the server's JSON body, or as what the browser says of a lost connection.

import { useState } from 'react';
import { setApiKey } from './api.ts';
import { Icon } from './icons.tsx';

export interface Failure {
  sentence: string;
  code: string;
  cause?: string;
}

export function readFailure(error: unknown): Failure {
  const text = error instanceof Error ? error.message : String(error);
  try {
    const body = JSON.parse(text) as Partial<Record<'error' | 'code' | 'cause', unknown>>;
    if (typeof body.error === 'string' && typeof body.code === 'string') {
      return { sentence: body.error, code: body.code, ...(typeof body.cause === 'string' ? { cause: body.cause } : {}) };
    }
  } catch {
    // not ours: the network's
  }
  return { sentence: 'The connection to the server was lost. A run that has begun goes on without it.', code: 'connection_lost' };
}

interface Props {
  error: unknown;
  onRetry: () => Promise<void> | void;
}

/** The typed error and its way out: Retry reads the chat anew, so what it shows is the truth. */
export function FailureCard({ error, onRetry }: Props) {
  const failure = readFailure(error);
  const [busy, setBusy] = useState(false);
  const retry = async () => {
    setBusy(true);
    try {
      await onRetry();
    } finally {
      setBusy(false);
    }
  };
  return (
    <section className="card failure" role="alert" aria-label="Error">
      <Icon name="warning" />
      <div className="grow">
        <p>{failure.sentence}</p>
        <p className="code">
          {failure.code}
          {failure.cause && ` · ${failure.cause}`}
        </p>
      </div>
      {failure.code === 'auth_required' ? (
        <KeyForm onKey={retry} />
      ) : (
        <button type="button" className="button" disabled={busy} onClick={retry}>
          {busy ? 'Reading…' : 'Retry'}
        </button>
      )}
    </section>
  );
}

function KeyForm({ onKey }: { onKey: () => void }) {
  const [key, setKey] = useState('');
  return (
    <form
      className="row"
      onSubmit={(event) => {
        event.preventDefault();
        setApiKey(key.trim());
        onKey();
      }}
    >
      <input
        type="password"
        aria-label="API key"
        placeholder="API key"
        autoComplete="off"
        value={key}
        onChange={(event) => setKey(event.target.value)}
      />
      <button type="submit" className="button primary" disabled={!key.trim()}>
        Sign in
      </button>
    </form>
  );
}
