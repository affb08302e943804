// An HTTP server and its client, in JavaScript for node.
//
//   web.js serve PORT [WORKERS SCHEDULING]   /file is the file `file`, /digest the SHA-256 of a
//                                            request's body, /who the server's process
//   web.js fetch BASE AT-ONCE TIMES          both of them, compared with the file `file`
//
// With WORKERS the server is a cluster. SCHEDULING is `rr`: the first process accepts and passes
// connections on; or `none`: the workers accept.
'use strict';

const cluster = require('cluster');
const crypto = require('crypto');
const fs = require('fs');
const http = require('http');

const [what, ...words] = process.argv.slice(2);

function digest(bytes) {
  return crypto.createHash('sha256').update(bytes).digest('hex');
}

function answer(request, response) {
  if (request.url === '/file') {
    response.writeHead(200, { 'Content-Length': fs.statSync('file').size });
    fs.createReadStream('file').pipe(response);
  } else if (request.url === '/digest') {
    const hash = crypto.createHash('sha256');
    request.on('data', (piece) => hash.update(piece));
    request.on('end', () => response.end(hash.digest('hex')));
  } else if (request.url === '/who') {
    response.end(`${process.pid} ${request.socket.remoteAddress}`);
  } else {
    response.writeHead(404).end();
  }
}

function serve(port, workers, scheduling) {
  if (!workers || cluster.isWorker) {
    // Without an address it listens at `::`, for both families.
    const server = http.createServer(answer).listen(port, () => {
      if (!workers) console.log('ready', server.address().address);
    });
    // By default node closes a connection that has been idle for 5 s. A client that has no processor
    // for so long would send a request into it.
    server.keepAliveTimeout = 0;
    process.on('disconnect', () => process.exit(0));
    return;
  }
  cluster.schedulingPolicy = scheduling === 'rr' ? cluster.SCHED_RR : cluster.SCHED_NONE;
  let listening = 0;
  cluster.on('listening', () => {
    listening += 1;
    if (listening === Number(workers)) console.log('ready');
  });
  cluster.on('exit', (worker, code, signal) => {
    if (code !== 0) throw new Error(`worker ${worker.id} ended: ${code} ${signal}`);
  });
  for (let at = 0; at < workers; at += 1) cluster.fork();
  process.on('SIGTERM', () => cluster.disconnect(() => process.exit(0)));
}

// One request by http.request, with an agent that keeps connections.
function ask(agent, url, method, body) {
  return new Promise((resolve, reject) => {
    const options = { agent, method, headers: body ? { 'Content-Length': body.length } : {} };
    const request = http.request(url, options, (response) => {
      const pieces = [];
      response.on('data', (piece) => pieces.push(piece));
      response.on('error', reject);
      response.on('end', () => resolve(Buffer.concat(pieces)));
    });
    request.on('error', reject);
    request.end(body);
  });
}

async function fetchAll(base, atOnce, times) {
  const file = fs.readFileSync('file');
  const right = digest(file);
  const agent = new http.Agent({ keepAlive: true });
  let count = 0;
  async function one() {
    for (let round = 0; round < times; round += 1) {
      const got = await ask(agent, `${base}/file`, 'GET');
      if (digest(got) !== right) throw new Error(`${got.length} other bytes`);
      const told = await ask(agent, `${base}/digest`, 'POST', file);
      if (told.toString() !== right) throw new Error(`the server got ${told}`);
      // The other client that node has, with connections of its own.
      const other = Buffer.from(await (await fetch(`${base}/file`)).arrayBuffer());
      if (digest(other) !== right) throw new Error(`${other.length} other bytes by fetch`);
      count += 3;
    }
  }
  await Promise.all(Array.from({ length: atOnce }, one));
  agent.destroy();
  console.log('fetched', count);
}

if (what === 'serve') {
  serve(...words);
} else {
  fetchAll(words[0], Number(words[1]), Number(words[2])).catch((error) => {
    console.error(error);
    process.exit(1);
  });
}
