// What an agent shows beside its words: where they come from, files, and data of its own.

import { isFileUIPart, type UIMessage } from 'ai';

type Part = UIMessage['parts'][number];

export function Shown({ part }: { part: Part }) {
  if (part.type === 'source-url') return <Source title={part.title ?? part.url} url={part.url} />;
  if (part.type === 'source-document') return <Source title={part.title} />;
  if (isFileUIPart(part)) {
    const name = part.filename ?? part.mediaType;
    if (part.mediaType.startsWith('image/') && part.url.startsWith('data:')) return <img className="shown" src={part.url} alt={name} />;
    return <Source title={name} url={part.url} />;
  }
  if (part.type.startsWith('data-') && 'data' in part) {
    return (
      <details className="shown">
        <summary className="mono">{part.type.slice('data-'.length)}</summary>
        <pre tabIndex={0}>{JSON.stringify(part.data, null, 2)}</pre>
      </details>
    );
  }
  return null;
}

/** Only a web address becomes a link: an agent's text is not trusted with any other scheme. */
function Source({ title, url }: { title: string; url?: string }) {
  const linked = url !== undefined && /^https?:\/\//i.test(url);
  return (
    <p className="source">
      {linked ? (
        <a href={url} target="_blank" rel="noreferrer">
          {title}
        </a>
      ) : (
        title
      )}
    </p>
  );
}
