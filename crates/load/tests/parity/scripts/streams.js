import streams, {
  CountQueuingStrategy,
  ReadableStream,
  ReadableStreamDefaultReader,
} from 'k6/experimental/streams';

const thrown = (label, make) => {
  try {
    make();
    console.log(label, 'made');
  } catch (error) {
    // Errors of Go are named so in k6.
    console.log(label, error.name.replace('GoError', 'Error'), error.message);
  }
};
const settled = async (label, promise) => {
  try {
    const found = await promise;
    // In k6 the members of what is read have no order.
    const shown = found && 'done' in found ? [found.value, found.done] : found;
    console.log(label, 'gives', JSON.stringify(shown));
  } catch (error) {
    console.log(label, 'rejects', error instanceof Error ? `${error.name} ${error.message}` : String(error));
  }
};

export default async function () {
  console.log(Object.keys(streams).sort().join());
  const counted = [];
  const numbers = new ReadableStream(
    {
      start(controller) {
        counted.push(`start ${controller.desiredSize}`);
        this.next = 1;
      },
      pull(controller) {
        counted.push(`pull ${controller.desiredSize}`);
        controller.enqueue(this.next);
        this.next += 1;
        if (this.next > 4) controller.close();
      },
      cancel(reason) {
        counted.push(`cancel ${reason}`);
      },
    },
    { highWaterMark: 2 },
  );
  console.log(numbers.locked);
  const reader = numbers.getReader();
  console.log(numbers.locked);
  for (let read = await reader.read(); ; read = await reader.read()) {
    console.log('read', JSON.stringify(read.value), read.done);
    if (read.done) break;
  }
  await settled('closed', reader.closed);
  console.log(counted.join('; '));

  const waiting = new ReadableStream({
    async pull(controller) {
      await Promise.resolve();
      controller.enqueue('late');
    },
  });
  const own = new ReadableStreamDefaultReader(waiting);
  await settled('late', own.read());
  await settled('second reader', Promise.resolve().then(() => waiting.getReader()));
  own.releaseLock();
  console.log(waiting.locked);
  await settled('released', own.read());
  await settled('cancel when released', own.cancel());
  await settled('cancel', waiting.cancel('enough'));
  await settled('after cancel', waiting.getReader().read());

  const cancelled = [];
  const source = { cancel: (reason) => cancelled.push(reason) };
  const locked = new ReadableStream(source);
  const holder = locked.getReader();
  await settled('cancel locked', locked.cancel('x'));
  await settled('cancel by reader', holder.cancel('y'));
  console.log(JSON.stringify(cancelled));

  const failing = new ReadableStream({
    start(controller) {
      controller.enqueue(1);
      controller.error('broken');
    },
  });
  const failed = failing.getReader();
  await settled('failed read', failed.read());
  await settled('failed closed', failed.closed);
  const throws = new ReadableStream({
    pull() {
      throw new RangeError('no more');
    },
  });
  await settled('throwing pull', throws.getReader().read());
  const closing = new ReadableStream({
    start(controller) {
      controller.enqueue('a');
      controller.close();
      thrown('enqueue when closed', () => controller.enqueue('b'));
      thrown('close again', () => controller.close());
    },
  });
  const last = closing.getReader();
  await settled('queued', last.read());
  await settled('end', last.read());

  thrown('bytes', () => new ReadableStream({ type: 'bytes' }));
  thrown('start', () => new ReadableStream({ start: 1 }));
  thrown('source', () => new ReadableStream('x'));
  thrown('mark', () => new ReadableStream({}, { highWaterMark: -1 }));
  thrown('size', () => new ReadableStream({}, { size: 1 }));
  thrown('strategy', () => new CountQueuingStrategy({}));
  thrown('strategy of nothing', () => new CountQueuingStrategy());
  thrown('reader of nothing', () => new ReadableStreamDefaultReader({}));
  thrown('mode', () => new ReadableStream().getReader({ mode: 'other' }));
  thrown('byob', () => new ReadableStream().getReader({ mode: 'byob' }));
  thrown('tee', () => new ReadableStream().tee());
  const strategy = new CountQueuingStrategy({ highWaterMark: 5 });
  console.log(strategy.highWaterMark, strategy.size('abc'));
}
