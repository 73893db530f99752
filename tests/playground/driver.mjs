// A browser for the tests: commands come in as lines of JSON, each is answered by one line.
//
// The tests are in Python, because they start and kill the server between two clicks. A command is `{do, ...}`, an answer
// `{value}` or `{error}`. The last test's page is closed by the next `page`.

import { createRequire } from 'node:module';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

const { chromium } = createRequire(new URL('../../app/playground/package.json', import.meta.url))('playwright-core');

const [executablePath, profile] = process.argv.slice(2);
const context = await chromium.launchPersistentContext(profile, {
  executablePath,
  headless: true,
  viewport: { width: 1200, height: 820 },
  args: [
    '--no-sandbox',
    '--disable-gpu',
    '--disable-quic',
    '--no-first-run',
    '--disable-background-networking',
    '--disable-component-update',
    '--disable-sync',
  ],
});
context.setDefaultTimeout(15_000);

let page;
let complaints = [];
let origin = '';

/** By the name that a person reads or hears, which makes each test one of the page's labels too. */
const located = ({ role, name, css }) => (css ? page.locator(css) : page.getByRole(role, { name, exact: true })).last();

const commands = {
  async page({ width = 1200, height = 820, dark = false }) {
    await page?.close();
    complaints = [];
    page = await context.newPage();
    await page.setViewportSize({ width, height });
    await page.emulateMedia({ colorScheme: dark ? 'dark' : 'light' });
    page.on('pageerror', (error) => complaints.push(`exception: ${error.message}`));
    page.on('console', (message) => message.type() === 'error' && complaints.push(`console: ${message.text()}`));
    page.on('request', (request) => {
      if (origin && !request.url().startsWith(`${origin}/`)) complaints.push(`request: ${request.url()}`);
    });
  },
  async open({ url }) {
    origin = new URL(url).origin;
    await page.goto(url);
  },
  serve: ({ url, folder }) =>
    page.route(`${url}**`, (route) => route.fulfill({ path: join(folder, new URL(route.request().url()).pathname.slice(new URL(url).pathname.length) || 'index.html') })),
  reload: () => page.reload(),
  click: (where) => located(where).click(),
  fill: ({ text, ...where }) => located(where).fill(text),
  press: ({ key }) => page.keyboard.press(key),
  // `count`: exactly so many times; 0 waits until it is gone
  async sees({ text, count, within, timeout }) {
    await page.waitForFunction(
      ([selector, wanted, number]) => {
        const found = [...document.querySelectorAll(selector)].reduce((sum, { innerText }) => sum + innerText.split(wanted).length - 1, 0);
        return number === null ? found > 0 : found === number;
      },
      [within, text, count],
      { timeout },
    );
  },
  waits: ({ css, timeout }) => page.locator(css).last().waitFor({ timeout }),
  text: ({ css }) => page.locator(css).last().innerText(),
  evaluate: ({ script }) => page.evaluate(script),
  screenshot: ({ path }) => page.screenshot({ path }),
  complaints: () => complaints,
};

for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line);
  let answer;
  try {
    answer = { value: (await commands[command.do](command)) ?? null };
  } catch (error) {
    answer = { error: String(error?.message ?? error) };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
await context.close();
