// The tools that run here, in the browser: each is a small form whose answer is the tool's output.

import { type ComponentType, type ReactNode, useId, useState } from 'react';
import { Icon } from './icons.tsx';

export interface QuestionProps {
  name: string;
  input: unknown;
  onAnswer: (output: unknown) => void;
  onRefuse: (errorText: string) => void;
}

function Card({ name, title, children }: { name: string; title: string; children: ReactNode }) {
  const label = useId();
  return (
    <section className="card asks" aria-labelledby={label} data-tool={name} data-state="open">
      <h3 id={label}>
        <Icon name="hand" />
        {title}
      </h3>
      {children}
    </section>
  );
}

const given = (input: unknown): Record<string, unknown> => (typeof input === 'object' && input !== null ? (input as Record<string, unknown>) : {});

const LISBON = { latitude: 38.7223, longitude: -9.1393 };

function Location({ name, onAnswer, onRefuse }: QuestionProps) {
  const [said, setSaid] = useState('');
  const ask = () => {
    setSaid('Asking the browser…');
    navigator.geolocation.getCurrentPosition(
      ({ coords: { latitude, longitude } }) => onAnswer({ latitude, longitude }),
      (error) => setSaid(`The browser gives no location: ${error.message || 'no reason given'}`),
      { timeout: 10_000 },
    );
  };
  return (
    <Card name={name} title="The agent asks where you are">
      <div className="row">
        <button type="button" className="button primary" onClick={() => onAnswer(LISBON)}>
          Say Lisbon
        </button>
        {/* a browser tells its location to secure pages only */}
        {isSecureContext && (
          <button type="button" className="button" onClick={ask}>
            Share my location
          </button>
        )}
        <button type="button" className="button plain" onClick={() => onRefuse('The user does not share a location.')}>
          Refuse
        </button>
      </div>
      {said && (
        <p className="note" role="status">
          {said}
        </p>
      )}
    </Card>
  );
}

function Options({ name, input, onAnswer }: QuestionProps) {
  const { question, options } = given(input);
  return (
    <Card name={name} title={String(question ?? 'Choose one')}>
      <div className="row">
        {(Array.isArray(options) ? options : []).map((option, index) => (
          <button key={index} type="button" className="button" onClick={() => onAnswer(option)}>
            {String(option)}
          </button>
        ))}
      </div>
    </Card>
  );
}

function Line({ name, title, label, onText, children }: { name: string; title: string; label: string; onText: (text: string) => void; children?: ReactNode }) {
  const [text, setText] = useState('');
  return (
    <Card name={name} title={title}>
      <form
        className="row"
        onSubmit={(event) => {
          event.preventDefault();
          if (text.trim()) onText(text.trim());
        }}
      >
        <input aria-label={label} placeholder={label} value={text} onChange={(event) => setText(event.target.value)} />
        <button type="submit" className="button primary" disabled={!text.trim()}>
          Answer
        </button>
        {children}
      </form>
    </Card>
  );
}

function Ask({ name, input, onAnswer }: QuestionProps) {
  return <Line name={name} title={String(given(input)['question'] ?? 'The agent asks')} label="Your answer" onText={onAnswer} />;
}

/** A browser's tool of somebody's own agent: any JSON answers it, and what is not JSON is a text. */
export function OpenAnswer({ name, input, onAnswer, onRefuse }: QuestionProps) {
  const answer = (text: string) => {
    try {
      onAnswer(JSON.parse(text));
    } catch {
      onAnswer(text);
    }
  };
  return (
    <Line name={name} title={`${name} waits for its output`} label={`Output for ${JSON.stringify(input ?? {})}`} onText={answer}>
      <button type="button" className="button plain" onClick={() => onRefuse('The user refused.')}>
        Refuse
      </button>
    </Line>
  );
}

export const QUESTIONS: Record<string, ComponentType<QuestionProps>> = {
  get_location: Location,
  pick_option: Options,
  ask_user: Ask,
};
