import kopf
from notes import tell


@kopf.on.startup(retries=3, backoff=0.3)
async def fails(logger, retry, **_):
    tell(logger, 'startup', retry=retry)
    raise Exception('boom')


@kopf.on.startup(timeout=1.5, backoff=1)
async def slow(logger, retry, **_):
    tell(logger, 'slow', retry=retry)
    raise Exception('boom')


@kopf.on.startup(errors=kopf.ErrorsMode.PERMANENT)
async def strict(logger, retry, **_):
    tell(logger, 'strict', retry=retry)
    raise Exception('boom')
