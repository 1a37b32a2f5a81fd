import ws from 'k6/ws';
import http from 'k6/http';
import { check, group } from 'k6';

const URL = __ENV.URL.replace('http', 'ws');

export const options = {
  thresholds: {
    'ws_sessions{my_tag:hello}': ['count==1'],
    'ws_msgs_sent{group:::in a group}': ['count==1'],
    'ws_sessions{status:101}': ['count==10'],
    'ws_sessions{status:404}': ['count==1'],
    'ws_sessions{subproto:v12.stomp}': ['count==1'],
  },
};

// Runs one session and logs all of its events.
function session(path, params, begin, more) {
  const log = [];
  const response = ws.connect(`${URL}${path}`, params, (socket) => {
    for (const event of ['open', 'ping', 'pong']) {
      socket.on(event, (...rest) => log.push(`${event} ${rest.length}`));
    }
    socket.on('message', (data) => log.push(`message ${data.length} ${JSON.stringify(data.slice(0, 30))}`));
    socket.on('binaryMessage', (data) => log.push(`binary ${Object.prototype.toString.call(data)} ${data.byteLength}`));
    socket.on('error', (e) => log.push(`error ${e.error()} ${e.code} ${e.text}`));
    socket.on('close', (code) => log.push(`close ${code}`));
    socket.on('none', 'is no function');
    if (more) more(socket, log);
    socket.on('open', () => begin(socket, log));
  });
  console.log(`${path}: ${log.join(' | ')}`);
  return response;
}

function thrown(run) {
  try {
    run();
  } catch (e) {
    return String(e.message).split('\n')[0];
  }
  return 'nothing';
}

export default function () {
  http.cookieJar().set(__ENV.URL, 'kept', 'cookie');
  const params = { tags: { my_tag: 'hello' }, headers: { 'X-My': 'header', 'user-agent': 'mine' } };
  const response = session('/ws/echo', params, (socket) => {
    socket.send('한글 \0 text');
    socket.send(12345);
    socket.send('x'.repeat(10000));
    socket.sendBinary(new Uint8Array([1, 2, 3]).buffer);
    let left = 1;
    socket.on('binaryMessage', () => {
      if (left-- > 0) socket.ping();
    });
    socket.on('pong', () => socket.close());
  });
  console.log(JSON.stringify([response.url === `${URL}/ws/echo`, response.status, response.body, response.error]));
  console.log(response.headers['Upgrade'], response.headers['Set-Cookie'], Object.keys(response).join());
  console.log(JSON.stringify(http.cookieJar().cookiesForURL(__ENV.URL)));

  session('/ws/close', null, (socket) => socket.send('close 4001'));
  session('/ws/normal', null, (socket) => socket.send('close 1000'));
  session('/ws/drop', null, (socket) => socket.send('drop'));
  session('/ws/break', null, (socket) => socket.send('break'));
  session('/ws/code', {}, (socket) => socket.close(3003));
  session('/ws/fragments', {}, (socket) => {
    socket.send('fragments');
    socket.on('message', () => socket.send('ping me'));
    socket.on('ping', () => socket.setTimeout(() => socket.close(), 20));
  });
  session('/ws/stomp', { headers: { 'Sec-WebSocket-Protocol': 'v12.stomp' } }, (socket, log) => {
    socket.send('CONNECT\naccept-version:1.2\n\n\0');
    socket.on('message', () => socket.close());
  });
  session('/ws/timers', {}, (socket, log) => {
    let count = 0;
    socket.setInterval(() => {
      count += 1;
      if (count === 3) socket.close();
    }, 5);
    socket.setTimeout(() => log.push('timeout'), 1);
    socket.on('close', () => log.push(`count ${count}`));
  });
  group('in a group', () => {
    session('/ws/group', {}, (socket) => {
      socket.send('one');
      socket.on('message', () => socket.close());
    });
  });

  const refused = ws.connect(`${URL}/status/404`, () => console.log('never'));
  check(refused, { refused: (r) => r.status === 404 && r.body === 'a body' && r.url === '' && r.error === '' });
  const nowhere = ws.connect('ws://127.0.0.1:1/', () => console.log('never'));
  check(nowhere, { nowhere: (r) => r.status === 0 && r.error.includes('connection refused') });
  console.log(ws.connect('http://127.0.0.1:1/', () => {}).error);
  console.log(ws.connect('ws://a:b@127.0.0.1:1/', () => {}).error);
  console.log(ws.connect(`${URL}/ws`, { headers: { upgrade: 'h2c' } }, () => {}).error);

  console.log(thrown(() => ws.connect(URL)));
  console.log(thrown(() => ws.connect(URL, {}, 'no function')));
  console.log(thrown(() => ws.connect(URL, { compression: 'gzip' }, () => {})));
  ws.connect(`${URL}/ws/quiet`, (socket) => {
    console.log(thrown(() => socket.sendBinary()));
    console.log(thrown(() => socket.sendBinary('text')));
    console.log(thrown(() => socket.sendBinary(null)));
    console.log(thrown(() => socket.sendBinary(new Uint8Array(2))));
    console.log(thrown(() => socket.setTimeout(() => {}, -1)));
    console.log(thrown(() => socket.setInterval(() => {}, 0)));
    socket.close();
    socket.on('error', (e) => console.log(e.error()));
    socket.send('too late');
  });
  console.log(thrown(() => ws.connect(`${URL}/ws/throws`, (socket) => {
    socket.on('close', (code) => console.log(`closed ${code}`));
    throw new Error('of the callback');
  })));
  console.log(thrown(() => ws.connect(`${URL}/ws/throws2`, (socket) => {
    socket.on('close', (code) => console.log(`closed ${code}`));
    socket.on('open', () => socket.send('x'));
    socket.on('message', () => { throw new Error('of a handler'); });
  })));
}
