// A page with the real hook, rendered by react-dom into jsdom, behind the interface of a chat.

/** Must run before anything imports react-dom, in a thread whose globals may become a browser's. */
export async function becomeBrowser() {
  const { JSDOM } = await import('jsdom');
  const { window } = new JSDOM('<!doctype html><body></body>', { url: 'http://localhost/' });
  Object.assign(globalThis, { window, document: window.document, navigator: window.navigator });
  const [{ createElement }, { createRoot }, { flushSync }] = await Promise.all([
    import('react'),
    import('react-dom/client'),
    import('react-dom'),
  ]);
  rendering = { createElement, createRoot, flushSync };
}

let rendering;

export function mountPage(useChat, options) {
  const { createElement, createRoot, flushSync } = rendering;
  let shown;

  function Page() {
    shown = useChat(options);
    const items = shown.messages.map(({ id, role, parts }) =>
      createElement('li', { key: id, className: role }, parts.map(part => part.text ?? part.type).join(' ')),
    );
    return createElement('ol', { 'aria-busy': shown.status === 'streaming' }, items);
  }

  const container = document.body.appendChild(document.createElement('main'));
  flushSync(() => createRoot(container).render(createElement(Page)));
  // What a click handler sees: the values of the newest render.
  return new Proxy({}, { get: (_, key) => shown[key] });
}
