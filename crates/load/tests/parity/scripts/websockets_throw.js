import { WebSocket } from 'k6/websockets';

const URL = __ENV.URL.replace('http', 'ws');

export default function () {
  const socket = new WebSocket(`${URL}/wsw/throws`);
  socket.onopen = () => socket.send('hello');
  socket.onmessage = () => {
    throw new Error('of a listener');
  };
  socket.onerror = (e) => console.log(`error ${e.error.split(' at ')[0].replace('GoError', 'Error')}`);
  socket.onclose = () => console.log(`close ${socket.readyState}`);
}
