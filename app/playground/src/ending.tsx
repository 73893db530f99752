// How the last turn ended, when it is worth a word, and the way to run it once more.

import type { UIMessage } from 'ai';
import type { Snapshot } from './api.ts';
import { Icon } from './icons.tsx';

interface Props {
  last: UIMessage | undefined;
  run: Snapshot['run'] | undefined;
  onAgain: () => void;
}

export function Ending({ last, run, onAgain }: Props) {
  if (!last || !run) return null;
  const said =
    run.status === 'failed' ? 'This run failed.' : run.status === 'stopped' ? 'Stopped.' : last.role === 'user' ? 'There is no answer.' : '';
  return (
    <p className={said ? 'ending said' : 'ending'}>
      {said && <span>{said}</span>}
      <button type="button" className="button plain" onClick={onAgain}>
        <Icon name="again" />
        {said ? 'Run again' : 'Regenerate'}
      </button>
    </p>
  );
}
