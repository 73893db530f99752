// A page with the real hook, rendered by react-dom into jsdom, behind the interface of a chat.

/** Must run before anything imports react-dom, in a thread whose globals may become a browser's. */
export async function becomeBrowser() {
  const { JSDOM } = await import('jsdom');
  const { window } = new JSDOM('<!doctype html><body></body>', { url: 'http://localhost/' });
  Object.assign(globalThis, { window, document: window.document, navigator: window.navigator });
  const [react, { createRoot }, { flushSync }, scheduler] = await Promise.all([
    import('react'),
    import('react-dom/client'),
    import('react-dom'),
    import('scheduler'),
  ]);
  const { createElement, Fragment, StrictMode, useEffect } = react;
  const { unstable_scheduleCallback: schedule, unstable_NormalPriority: normal } = scheduler;
  // React renders an update in a task of its own; one that is queued after it runs when the page shows the update.
  rendered = () => new Promise(resolve => schedule(normal, () => resolve()));
  rendering = { createElement, Fragment, StrictMode, useEffect, createRoot, flushSync };
}

let rendering;
let rendered;

/** `strict` is React's development mode, which mounts every page twice: what resumes does so twice. */
export function mountPage(useChat, options, { strict = false } = {}) {
  const { createElement, Fragment, StrictMode, useEffect, createRoot, flushSync } = rendering;
  let shown;
  let mounted;
  const ready = new Promise(resolve => (mounted = resolve));

  function Page() {
    shown = useChat(options);
    useEffect(() => void setTimeout(mounted), []); // after the second mount too
    const items = shown.messages.map(({ id, role, parts }) =>
      createElement('li', { key: id, className: role }, parts.map(part => part.text ?? part.type).join(' ')),
    );
    return createElement('ol', { 'aria-busy': shown.status === 'streaming' }, items);
  }

  const container = document.body.appendChild(document.createElement('main'));
  const page = createElement(strict ? StrictMode : Fragment, null, createElement(Page));
  flushSync(() => createRoot(container).render(page));
  // What a click handler sees: the values of the newest render. `ready` is when there is something to click on.
  const own = { ready, rendered };
  return new Proxy({}, { get: (_, key) => own[key] ?? shown[key] });
}
