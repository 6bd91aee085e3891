import kopf
from notes import tell


@kopf.on.cleanup()
async def first(logger, **_):
    tell(logger, 'first')
    raise kopf.PermanentError('not today')


@kopf.on.cleanup()
async def second(logger, **_):
    tell(logger, 'second')
