import { WebSocket, Blob } from 'k6/websockets';
import { WebSocket as Experimental } from 'k6/experimental/websockets';
import http from 'k6/http';
import { check } from 'k6';

const URL = __ENV.URL.replace('http', 'ws');

export const options = {
  iterations: 1,
  thresholds: {
    'ws_sessions{my_tag:hello}': ['count==1'],
    'ws_sessions{subproto:v12.stomp}': ['count==1'],
    'ws_msgs_sent{name:named}': ['count==2'],
    'ws_msgs_sent{url:named}': ['count==2'],
  },
};

function thrown(run) {
  try {
    run();
  } catch (e) {
    return String(e.message).split('\n')[0];
  }
  return 'nothing';
}

// One socket; what it does is logged when it is closed.
function session(Class, path, protocols, params, begin) {
  return new Promise((done) => {
    const log = [];
    const socket = new Class(`${URL}${path}`, protocols, params);
    log.push(`${socket.readyState} ${socket.bufferedAmount} ${socket.binaryType}`);
    for (const event of ['open', 'ping', 'pong']) {
      socket.addEventListener(event, (e) => log.push(`${e.type} ${socket.readyState} ${e.target === socket}`));
    }
    socket.addEventListener('error', (e) => {
      log.push(`error ${e.error.includes('refused') ? 'refused' : e.error} ${socket.readyState}`);
    });
    socket.onmessage = (e) => {
      const data = e.data;
      const text = typeof data === 'string' ? `${data.length} ${JSON.stringify(data.slice(0, 30))}` : '';
      log.push(`message ${typeof data} ${data.byteLength} ${data.size} ${text} ${e.origin === socket.url}`);
    };
    socket.onclose = (e) => {
      log.push(`close ${e.code} ${JSON.stringify(e.reason)} ${socket.readyState}`);
      console.log(`${path}: ${log.join(' | ')}`);
      done(socket);
    };
    if (begin) socket.onopen = () => begin(socket, log);
  });
}

export default async function () {
  http.cookieJar().set(__ENV.URL, 'kept', 'cookie');
  const params = { tags: { my_tag: 'hello' }, headers: { 'X-My': 'header' } };
  await session(WebSocket, '/wsw/echo', null, params, (socket) => {
    socket.binaryType = 'arraybuffer';
    socket.send('한글 \0 text');
    socket.send('x'.repeat(10000));
    socket.send(new Uint8Array([1, 2, 3]).buffer);
    socket.send(new Uint8Array([1, 2, 3, 4]).subarray(1));
    new Blob(['of a ', new Uint8Array([98, 108]), 'ob']).arrayBuffer().then((buffer) => socket.send(buffer));
    let messages = 0;
    socket.addEventListener('message', () => {
      messages += 1;
      if (messages === 5) socket.ping();
    });
    socket.addEventListener('pong', () => socket.close());
  });
  await session(Experimental, '/wsw/stomp', ['v12.stomp', 'v11.stomp'], {}, (socket, log) => {
    log.push(socket.protocol);
    socket.send('CONNECT\naccept-version:1.2\n\n\0');
    socket.addEventListener('message', () => socket.close(3001, 'reason'));
  });
  await session(WebSocket, '/wsw/blob', 'one', { tags: { name: 'named' } }, (socket, log) => {
    socket.send(new Uint8Array([104, 105]).buffer);
    socket.addEventListener('message', async (e) => {
      log.push(`${e.data.size} ${e.data.type} ${await e.data.text()}`);
      socket.close();
    });
  });
  await session(WebSocket, '/wsw/close', null, null, (socket) => socket.send('close 4001'));
  await session(WebSocket, '/wsw/normal', null, null, (socket) => socket.send('close 1000'));
  await session(WebSocket, '/wsw/drop', null, null, (socket) => socket.send('drop'));
  await session(WebSocket, '/wsw/break', null, null, (socket) => socket.send('break'));
  await session(WebSocket, '/wsw/pings', null, null, (socket) => {
    socket.send('fragments');
    socket.addEventListener('message', () => socket.send('ping me'));
    socket.addEventListener('ping', () => socket.close());
  });
  await session(WebSocket, '/status/404', null, null);

  console.log(thrown(() => WebSocket('http://host')));
  console.log(thrown(() => new WebSocket()));
  console.log(thrown(() => new WebSocket('http://host')));
  console.log(thrown(() => new WebSocket('ws://host/#part')));
  console.log(thrown(() => new WebSocket(URL, null, { compression: 'gzip' })));
  console.log(thrown(() => new WebSocket(URL, null, { unknown: 1 })));
  const socket = new WebSocket(`${URL}/wsw/last`);
  console.log(thrown(() => socket.send('too early')));
  console.log(thrown(() => { socket.binaryType = 'text'; }));
  console.log(thrown(() => { socket.onopen = 1; }));
  console.log(thrown(() => socket.addEventListener('open')));
  socket.onopen = () => {
    console.log(thrown(() => socket.close(1001)));
    console.log(thrown(() => socket.close(1000, 'x'.repeat(124))));
    socket.close();
    socket.close();
    console.log(socket.readyState, thrown(() => socket.send('too late')));
  };
  // The iteration ends when they are closed, and no earlier.
  socket.onclose = () => console.log('the last event');
  const blob = new Blob(['abcdef'], { type: 'text/plain' });
  console.log(blob.size, blob.type, await blob.text(), await blob.slice(1, -1).text(), String(blob));
  console.log((await blob.arrayBuffer()).byteLength, (await blob.bytes()).length);
  console.log('the function is over');
  check(null, { reached: () => true });
}
