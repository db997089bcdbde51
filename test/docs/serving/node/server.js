const fs = require('node:fs');
const https = require('node:https');
const { parseArgs } = require('node:util');

const { values: flags } = parseArgs({
  options: {
    'tls-cert-file': { type: 'string', default: process.env.TLS_CERT_FILE },
    'tls-private-key-file': { type: 'string', default: process.env.TLS_PRIVATE_KEY_FILE },
  },
});
const read = () => ({ cert: fs.readFileSync(flags['tls-cert-file']), key: fs.readFileSync(flags['tls-private-key-file']) });

let current = read();
const server = https.createServer(current, (request, response) => response.end('served\n'));
setInterval(() => {
  try {
    const next = read();
    if (next.cert.equals(current.cert)) return;
    server.setSecureContext(next); // throws, and changes nothing, if they do not match
    current = next;
  } catch (e) {
    console.error('keeping the old certificate:', e.message);
  }
}, 2000);
server.listen(8443);
