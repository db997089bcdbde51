// A client of tlsstacks: reads PORT, HOST and the file with the roots from each
// line, connects, and prints the outcome.
const fs = require("fs");
const readline = require("readline");
const tls = require("tls");

function connect(port, host, roots) {
  return new Promise((resolve) => {
    let said = "";
    const socket = tls.connect({
      host: "127.0.0.1", port, servername: host, ca: fs.readFileSync(roots), rejectUnauthorized: true, timeout: 20000,
    }, () => socket.write(`GET / HTTP/1.0\r\nHost: ${host}\r\n\r\n`));
    socket.setEncoding("utf8");
    socket.on("data", (part) => { said += part; });
    socket.on("end", () => resolve(said.endsWith("\r\n\r\nserved\n") ? "verified" : "broken: another answer"));
    socket.on("timeout", () => { resolve("broken: timeout"); socket.destroy(); });
    // authorizationError is set when the certificate, its name included, is what fails.
    socket.on("error", (e) => resolve(`${socket.authorizationError ? "refused" : "broken"}: ${e.code} ${e.message.split("\n")[0]}`));
  });
}

(async () => {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [port, host, roots] = line.split("\t");
    console.log(await connect(Number(port), host, roots));
  }
})();
