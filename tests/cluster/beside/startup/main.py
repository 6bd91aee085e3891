import kopf
from notes import THINGS, tell


@kopf.on.startup()
async def first(settings, memo, logger, retry, activity, **_):
    tell(logger, 'startup-first', retry=retry, activity=activity.value)
    settings.persistence.finalizer = 'beside.kopfd.test/finalizer'
    settings.execution.default_backoff = 0.6
    settings.posting.reporting_component = 'beside'
    memo['origin'] = 'startup'


@kopf.on.startup(backoff=0.3)
async def second(logger, retry, **_):
    tell(logger, 'startup-second', retry=retry)
    if retry == 0:
        raise kopf.TemporaryError('not yet', delay=0.3)
    if retry == 1:
        raise Exception('boom')


@kopf.on.startup(errors=kopf.ErrorsMode.IGNORED)
async def third(logger, retry, **_):
    tell(logger, 'startup-third', retry=retry)
    raise Exception('boom')


@kopf.on.startup(param={'size': 4}, id='with/param')
async def fourth(logger, param, **_):
    tell(logger, 'startup-fourth', param=param)


@kopf.on.cleanup()
async def cleanup_first(memo, logger, retry, activity, **_):
    tell(logger, 'cleanup-first', retry=retry, activity=activity.value, origin=memo['origin'])
    if retry == 0:
        raise kopf.TemporaryError('not yet', delay=0.3)


@kopf.on.cleanup()
async def cleanup_second(logger, retry, **_):
    tell(logger, 'cleanup-second', retry=retry)


@kopf.on.delete(*THINGS, labels={'case': 'finalizer'})
async def on_delete(logger, **_):
    tell(logger, 'delete')


@kopf.on.create(*THINGS, labels={'case': 'backoff'})
async def on_create(retry, logger, **_):
    tell(logger, 'create', retry=retry)
    if retry < 2:
        raise Exception('boom')


@kopf.timer(*THINGS, labels={'case': 'timer'}, interval=60)
async def timer(retry, logger, **_):
    tell(logger, 'tick', retry=retry)
    if retry < 2:
        raise Exception('boom')


@kopf.on.event(*THINGS, labels={'case': 'memo'})
async def on_event(memo, logger, **_):
    tell(logger, 'event', origin=memo['origin'])
    memo['origin'] = 'an object'


@kopf.on.create(*THINGS, labels={'case': 'posting'})
async def posting(body, logger, **_):
    logger.error('only in the log')
    kopf.info(body, reason='Own', message='by a function')
