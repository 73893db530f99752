// A call that waits for a yes. What is approved is what the server stored; this only shows it.

import { useId, useState } from 'react';
import { Icon } from './icons.tsx';
import type { Decide, Part } from './tool-part.tsx';

const QUESTIONS = new Map([
  ['send_email', 'Send this e-mail?'],
  ['publish_note', 'Publish this note?'],
]);

export function Approval({ part, name, onDecide }: { part: Part; name: string; onDecide: Decide }) {
  const [reason, setReason] = useState('');
  const [decided, setDecided] = useState(false);
  const label = useId();
  if (part.state !== 'approval-requested') return null;
  const { approval } = part;
  const decide = (approved: boolean) => {
    setDecided(true);
    const why = reason.trim();
    void onDecide({ id: approval.id, approved, ...(why ? { reason: why } : {}) });
  };
  return (
    <section className="card asks" aria-labelledby={label} data-tool={name} data-state={part.state}>
      <h3 id={label}>
        <Icon name="shield" />
        {QUESTIONS.get(name) ?? `Run ${name}?`}
      </h3>
      <dl>
        {Object.entries((part.input ?? {}) as Record<string, unknown>).map(([key, value]) => (
          <div key={key}>
            <dt>{key}</dt>
            <dd>{typeof value === 'string' ? value : JSON.stringify(value)}</dd>
          </div>
        ))}
      </dl>
      <div className="row">
        <input
          aria-label="Reason (optional)"
          placeholder="Reason (optional)"
          value={reason}
          onChange={(event) => setReason(event.target.value)}
        />
        <button type="button" className="button" disabled={decided} onClick={() => decide(false)}>
          Deny
        </button>
        <button type="button" className="button primary" disabled={decided} onClick={() => decide(true)}>
          Approve
        </button>
      </div>
    </section>
  );
}
