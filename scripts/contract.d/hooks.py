"""What a schema cannot say, done to good requests before they are sent."""

import unicodedata

import schemathesis

# Values that are valid once: keys belong to one request, conditions to one version.
ONCE = ["Idempotency-Key", "If-Match", "If-None-Match"]
USED = set()


@schemathesis.hook
def before_call(context, case, kwargs):
    good = case.meta is not None and case.meta.generation.mode.is_positive
    # A cursor is valid only for the listing that returned it.
    if good and case.query:
        case.query.pop("cursor", None)
    for name in ONCE:
        word = (case.headers or {}).get(name)
        if word is None:
            continue
        # The same value with and without quotes.
        use = (case.path, name, str(word).strip().strip('"').replace("\\", ""))
        if good and use in USED:
            del case.headers[name]
        USED.add(use)


def counts_as_sent(value):
    """Whether no text in it gets another length when it is read: texts are composed, and lines end in \\n."""
    if isinstance(value, str):
        return len(unicodedata.normalize("NFC", value.replace("\r\n", "\n"))) == len(value)
    if isinstance(value, dict):
        return all(counts_as_sent(member) for member in value.values())
    if isinstance(value, list):
        return all(counts_as_sent(item) for item in value)
    return True


@schemathesis.hook
def filter_body(context, body):
    # A schema counts the characters that are sent, the service those that are kept.
    return counts_as_sent(body)
