// Opens every page of dist/ but the decisions in a browser, as wide as a desktop and as a phone, and fails if one is
// wider than the screen, breaks a rule of axe for WCAG 2 AA (contrast, headings, names of links), or
// requests something of another host. Then it searches. CHROMIUM names the browser.
import { createServer } from "node:http";
import { readFile, readdir } from "node:fs/promises";
import { extname, join } from "node:path";
import axe from "axe-core";
import puppeteer from "puppeteer-core";
import { base } from "./site.mjs";

const dist = join(import.meta.dirname, "dist");
const types = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".wasm": "application/wasm", ".json": "application/json" };

const server = createServer(async (request, response) => {
  const path = decodeURIComponent(new URL(request.url, "http://site").pathname).slice(base.length - 1);
  const file = path.endsWith("/") ? path + "index.html" : path;
  try {
    const content = await readFile(join(dist, file));
    response.writeHead(200, { "Content-Type": types[extname(file)] ?? "application/octet-stream" }).end(content);
  } catch {
    response.writeHead(404).end();
  }
});
await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
const origin = `http://127.0.0.1:${server.address().port}`;

const pages = (await readdir(dist, { recursive: true }))
  .filter((file) => file.endsWith("index.html"))
  .filter((file) => !file.startsWith("adr/0"))
  .map((file) => base + file.replace(/index\.html$/, ""));

const wrong = [];
const browser = await puppeteer.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu"] });
const page = await browser.newPage();
page.on("request", (request) => {
  if (!request.url().startsWith(origin) && !request.url().startsWith("data:")) wrong.push(`${page.url()} requests ${request.url()}`);
});
page.on("requestfailed", (request) => wrong.push(`${page.url()}: ${request.url()} failed`));

// broken returns what axe finds on the page.
async function broken() {
  await page.evaluate(axe.source);
  const { violations } = await page.evaluate(() => {
    return window.axe.run({
      runOnly: ["wcag2a", "wcag2aa", "best-practice"],
      rules: { "empty-table-header": { enabled: false } }, // the corner of a table has nothing to say
    });
  });
  return violations.flatMap(({ id, nodes }) => nodes.slice(0, 2).map((node) => `${id}: ${node.html.slice(0, 120)}`));
}

for (const path of pages) {
  for (const [width, scheme] of [[1280, "light"], [390, "dark"]]) {
    await page.setViewport({ width, height: 900 });
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
    const answer = await page.goto(origin + path, { waitUntil: "load" });
    const at = `${path} (${width} px, ${scheme})`;
    if (answer.status() !== 200) wrong.push(`${at}: ${answer.status()}`);
    const wide = await page.evaluate(() => document.scrollingElement.scrollWidth);
    if (wide > width) wrong.push(`${at}: ${wide} pixels wide`);
    wrong.push(...(await broken()).map((what) => `${at}: ${what}`));
  }
}

// search returns the addresses that are found for words, best first.
const search = (words) =>
  page.evaluate(
    async (bundle, words) => {
      const pagefind = await import(bundle);
      const { results } = await pagefind.search(words);
      return Promise.all(results.slice(0, 5).map(async (r) => (await r.data()).url));
    },
    `${base}pagefind/pagefind.js`,
    words,
  );
// What people search for first, with one of the pages that answers it.
const questions = [
  ["CALost", "operations"], ["on-rotate", "reference"], ["SecretConflict", "troubleshooting"], ["webhook down", "faq"],
  ["renew by hand", "faq"], ["CA is lost", "faq"], ["who can use the commands", "operations"], ["lifetime of a certificate", "faq"],
  ["short names", "faq"], ["use cert-manager", "faq"], ["proxy TLS versions", "proxy"], ["private registry pull secret", "install"],
  ["quota proxy", "injection"],
];
for (const [words, want] of questions) {
  const found = await search(words);
  if (!found.some((url) => url.includes(want)) || found.some((url) => url.includes("/adr/"))) wrong.push(`search for ${words} finds ${found.join(", ") || "nothing"}`);
}

await browser.close();
server.close();
console.log([...wrong, `${pages.length} pages, ${wrong.length} faults`].join("\n"));
process.exitCode = wrong.length ? 1 : 0;
