"""Handlers that fail: for a while, for good, and until their time or their attempts are used up."""

import kopf


@kopf.on.startup()
def configure(settings, **_):
    settings.posting.loggers = True


class Broken(Exception):
    pass


@kopf.on.create("gauges", retries=3, backoff=0.5)
def breaks_down(retry, **_):
    raise Broken(f"attempt {retry}")


@kopf.on.create("gauges", backoff=0.5)
def gives_up(**_):
    raise kopf.PermanentError("there is no use")


@kopf.on.create("gauges")
def comes_round(retry, **_):
    if retry < 2:
        raise kopf.TemporaryError("not yet", delay=0.5)
    return f"after {retry} retries"


@kopf.on.create("gauges", errors=kopf.ErrorsMode.IGNORED)
def shrugs(**_):
    raise Broken("never mind")
