// A first look: one prompt for each thing the agent can do.

const PROMPTS: { text: string; shows: string }[] = [
  { text: "What's the weather in Lisbon?", shows: 'A tool on the server' },
  { text: 'Weather in Oslo and Lima', shows: 'Two of them at once' },
  { text: 'Where am I?', shows: 'A tool in your browser' },
  { text: 'Let me pick a colour', shows: 'Your choice is the result' },
  { text: 'Send an email to ada@example.com', shows: 'Waits for your approval' },
  { text: 'Research tea', shows: 'A sub-agent that asks you' },
  { text: 'Fail', shows: 'A tool that breaks' },
  { text: 'Be slow: 8000 ms', shows: 'Reload or stop meanwhile' },
];

export function Welcome({ onPick }: { onPick: (text: string) => void }) {
  return (
    <section className="welcome">
      <h2>Talk to a durable agent</h2>
      <p>
        Reload in mid-sentence, close the tab while it waits for you, restart the server: it goes on where it was. This page is a
        stock <code>useChat</code> pointed at <code>POST /chat</code>.
      </p>
      <ul>
        {PROMPTS.map(({ text, shows }) => (
          <li key={text}>
            <button type="button" className="prompt" onClick={() => onPick(text)}>
              <span>{text}</span>
              <small>{shows}</small>
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}

export function Chips({ onPick }: { onPick: (text: string) => void }) {
  return (
    <ul className="chips" aria-label="Prompts to try">
      {PROMPTS.map(({ text, shows }) => (
        <li key={text}>
          <button type="button" title={shows} onClick={() => onPick(text)}>
            {text}
          </button>
        </li>
      ))}
    </ul>
  );
}
