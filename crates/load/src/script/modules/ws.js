// k6/ws. A session reads, calls the script's functions and runs its timers until it is closed.
(function (native) {
  'use strict';

  // Timers of one session.
  const MAX_TIMERS = 10000;
  const GOING_AWAY = 1001;

  // An error as scripts know it from k6: its text is what error() returns.
  function failure([text, code, reason]) {
    const error = { error: () => text, toString: () => text };
    if (code !== undefined) {
      error.code = code;
      error.text = reason;
    }
    return error;
  }

  function timersOf() {
    const timers = [];
    const insert = (timer) => {
      let at = timers.length;
      while (at > 0 && timers[at - 1].due > timer.due) at -= 1;
      timers.splice(at, 0, timer);
    };
    return {
      start(name, run, ms, repeats) {
        if (typeof run !== 'function') throw new TypeError(`${name}'s callback isn't a callable function`);
        const period = Number(ms);
        if (!(period > 0)) {
          throw new Error(`${name} requires a >0 timeout parameter, received ${(period || 0).toFixed(2)}`);
        }
        if (timers.length >= MAX_TIMERS) throw new Error(`more than ${MAX_TIMERS} timers`);
        insert({ run, due: native.now() + period, period: repeats ? Math.max(period, 1) : 0 });
      },
      // Milliseconds until the next one is due; -1 when there is none.
      wait() {
        return timers.length === 0 ? -1 : Math.max(0, timers[0].due - native.now());
      },
      runFirst() {
        const timer = timers.shift();
        if (timer.period > 0) {
          insert({ ...timer, due: Math.max(timer.due + timer.period, native.now()) });
        }
        timer.run.call(undefined);
      },
    };
  }

  function sessionOf(handle) {
    const handlers = new Map();
    const timers = timersOf();
    let isClosed = false;

    function fire(event, ...data) {
      for (const handler of [...(handlers.get(event) ?? [])]) handler.call(undefined, ...data);
    }
    function report(error) {
      if (error !== undefined && error !== null) fire('error', failure(error));
    }
    function close(code) {
      if (isClosed) return;
      isClosed = true;
      report(native.close(handle, code));
      fire('close', code);
    }
    const socket = {
      on(event, handler) {
        if (typeof handler !== 'function') return;
        const name = String(event);
        handlers.set(name, [...(handlers.get(name) ?? []), handler]);
      },
      send(...message) {
        report(native.send(handle, message.length === 0 ? '' : String(message[0])));
      },
      sendBinary(...message) {
        if (message.length === 0) throw new Error('missing argument, expected ArrayBuffer');
        const [data] = message;
        if (!(data instanceof ArrayBuffer)) {
          const type = data === null || data === undefined ? String(data) : Object(data).constructor.name;
          throw new Error(`expected ArrayBuffer as argument, received: ${type}`);
        }
        report(native.send(handle, data));
      },
      ping() {
        report(native.ping(handle));
      },
      setTimeout(run, ms) {
        timers.start('setTimeout', run, ms, false);
      },
      setInterval(run, ms) {
        timers.start('setInterval', run, ms, true);
      },
      close(...code) {
        close(code.length === 0 ? GOING_AWAY : Math.trunc(Number(code[0])) || 0);
      },
    };
    // One timer that is due, then one event: neither keeps the other from its turn.
    function turn() {
      if (timers.wait() === 0) timers.runFirst();
      if (isClosed) return;
      const event = native.next(handle, timers.wait());
      if (event === undefined) return;
      const [name, data, error] = event;
      if (name === 'end') {
        report(error);
        close(data);
      } else if (event.length > 1) {
        fire(name, data);
      } else {
        fire(name);
      }
    }
    function run(setup) {
      try {
        setup.call(undefined, socket);
        fire('open');
        while (!isClosed) turn();
      } finally {
        close(GOING_AWAY);
      }
    }
    return run;
  }

  return function connect(url, ...rest) {
    native.check();
    if (rest.length < 1 || rest.length > 2) throw new Error('invalid number of arguments to ws.connect');
    const setup = rest[rest.length - 1];
    if (typeof setup !== 'function') throw new Error('last argument to ws.connect must be a function');
    const [response, handle] = native.connect(String(url), rest.length === 2 ? rest[0] : undefined);
    if (handle === undefined) return response;
    try {
      sessionOf(handle)(setup);
    } finally {
      native.end(handle);
    }
    return response;
  };
})
