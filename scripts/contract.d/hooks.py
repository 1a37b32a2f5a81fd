"""What a schema cannot say, done to good requests before they are sent."""

import schemathesis

# Words that are good once: keys belong to one request, conditions to one version.
ONCE = ["Idempotency-Key", "If-Match", "If-None-Match"]
USED = set()


@schemathesis.hook
def before_call(context, case, kwargs):
    if case.meta is None or not case.meta.generation.mode.is_positive:
        return
    # A cursor is good only where it was given.
    if case.query:
        case.query.pop("cursor", None)
    for name in ONCE:
        word = (case.headers or {}).get(name)
        if word is not None:
            if (case.path, name, word) in USED:
                del case.headers[name]
            USED.add((case.path, name, word))
