"""What a schema cannot say, done to good requests before they are sent."""

import schemathesis

# Words that are good once: keys belong to one request, conditions to one version.
ONCE = ["Idempotency-Key", "If-Match", "If-None-Match"]
USED = set()


@schemathesis.hook
def before_call(context, case, kwargs):
    good = case.meta is not None and case.meta.generation.mode.is_positive
    # A cursor is good only where it was given.
    if good and case.query:
        case.query.pop("cursor", None)
    for name in ONCE:
        word = (case.headers or {}).get(name)
        if word is None:
            continue
        # Bare and in quotes it is the same word.
        use = (case.path, name, str(word).strip().strip('"').replace("\\", ""))
        if good and use in USED:
            del case.headers[name]
        USED.add(use)
